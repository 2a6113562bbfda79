//! How queues feed the functions, as `template.yaml` sets it: for whoever stands in for Lambda.

/// The settings of a queue, its event source mapping and its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most records in one event.
    pub batch_size: usize,
    /// How long a record may wait for others, in seconds.
    pub window_s: u64,
    /// How long an invocation may take, in seconds.
    pub timeout_s: u64,
    /// How long a received message is hidden, in seconds.
    pub visibility_s: u64,
}

/// The task queue.
pub const TASKS: Settings = Settings { batch_size: 500, window_s: 1, timeout_s: 30, visibility_s: 240 };
/// The FIFO task queue: its mapping takes tens, and has no window.
pub const IN_ORDER: Settings = Settings { batch_size: 10, window_s: 0, timeout_s: 30, visibility_s: 240 };
/// The elect queue.
pub const ELECT: Settings = Settings { batch_size: 10, window_s: 0, timeout_s: 15, visibility_s: 90 };
/// The group queue.
pub const GROUP: Settings = Settings { batch_size: 1, window_s: 0, timeout_s: 60, visibility_s: 360 };
/// The handle queue.
pub const HANDLE: Settings = Settings { batch_size: 1, window_s: 0, timeout_s: 75, visibility_s: 450 };
/// Memory of each function, in MB.
pub const MEMORY_MB: u32 = 512;
/// sweep's schedule, in milliseconds.
pub const SWEEP_EVERY_MS: u64 = 60_000;
