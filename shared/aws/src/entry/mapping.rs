//! How queues feed the functions, as `template.yaml` sets it: for code that stands in for Lambda.

use groupage_core::steps::register::FULL_EVENT;

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
    /// The function's memory, in MB, which its share of a processor grows with.
    pub memory_mb: u32,
    /// The most invocations under way at once.
    pub max_concurrency: usize,
    /// How often a message is received before it goes to the dead-letter queue.
    pub max_receives: u32,
}

impl Settings {
    /// How long an invocation begins new work, in milliseconds: half of its timeout. The other half is for handing on
    /// what it has done.
    pub const fn budget_ms(&self) -> u64 {
        self.timeout_s * 1_000 / 2
    }
}

/// The task queue.
pub const TASKS: Settings = Settings {
    batch_size: 1_000,
    window_s: 2,
    timeout_s: 30,
    visibility_s: 240,
    memory_mb: GROUPING_MEMORY_MB,
    max_concurrency: 250,
    max_receives: 10,
};
/// The FIFO task queue, of what keeps an order and of what events leave over: its mapping takes tens, and has no
/// window.
pub const IN_ORDER: Settings = Settings { batch_size: FULL_EVENT, window_s: 0, max_concurrency: 100, ..TASKS };
/// The elect queue.
pub const ELECT: Settings =
    Settings { batch_size: 10, window_s: 0, timeout_s: 15, visibility_s: 90, max_concurrency: 150, ..TASKS };
/// The group queue.
pub const GROUP: Settings =
    Settings { batch_size: 1, window_s: 0, timeout_s: 60, visibility_s: 360, max_concurrency: 200, ..TASKS };
/// The handle queue. Every retry of a call is a receive.
pub const HANDLE: Settings = Settings {
    batch_size: 1,
    window_s: 0,
    timeout_s: 75,
    visibility_s: 450,
    memory_mb: 256,
    max_concurrency: 250,
    max_receives: 100,
};
/// The queue of long calls: as long as Lambda lets a function work.
pub const LONG_HANDLE: Settings = Settings { timeout_s: 900, visibility_s: 5_400, max_concurrency: 25, ..HANDLE };
/// What is between a task and its call works through tasks one by one; batch-handler waits, and is billed meanwhile.
const GROUPING_MEMORY_MB: u32 = 1_024;
/// Memory of the other functions, in MB.
pub const MEMORY_MB: u32 = 512;
/// sweep's schedule, in milliseconds.
pub const SWEEP_EVERY_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../../template.yaml");

    /// The word behind `name` in what follows `after`.
    fn word(after: &str, name: &str) -> &'static str {
        let (_, section) = TEMPLATE.split_once(after).unwrap();
        let (_, value) = section.split_once(&format!(" {name} ")).unwrap();
        value.split_whitespace().next().unwrap()
    }

    fn number(after: &str, name: &str) -> u64 {
        word(after, &format!("{name}:")).parse().unwrap()
    }

    #[test]
    fn each_queue_is_read_as_the_template_says() {
        for (settings, mapping, function, queue) in [
            (TASKS, "Tasks", "RegisterTaskFunction", "TaskQueue"),
            (IN_ORDER, "TasksInOrder", "RegisterTaskFunction", "InOrderQueue"),
            (ELECT, "Elections", "ElectLeaderFunction", "ElectQueue"),
            (GROUP, "Leaders", "GroupBatchFunction", "GroupQueue"),
            (HANDLE, "Batches", "BatchHandlerFunction", "HandleQueue"),
            (LONG_HANDLE, "LongBatches", "LongBatchHandlerFunction", "LongHandleQueue"),
        ] {
            let within = |resource: &str, name: &str| number(&format!("\n{resource}:\n"), name);
            assert_eq!(within(&format!("        {mapping}"), "BatchSize"), settings.batch_size as u64, "{mapping}");
            assert_eq!(within(&format!("  {function}"), "Timeout"), settings.timeout_s, "{function}");
            assert_eq!(within(&format!("  {queue}"), "VisibilityTimeout"), settings.visibility_s, "{queue}");
            let memory = word(&format!("\n  {function}:\n"), "MemorySize: !Ref");
            assert_eq!(number(&format!("\n  {memory}:\n"), "Default"), u64::from(settings.memory_mb), "{function}");
            let cap = word(&format!("\n        {mapping}:\n"), "MaximumConcurrency: !Ref");
            let cap = number(&format!("\n  {cap}:\n"), "Default");
            assert_eq!(cap, settings.max_concurrency as u64, "{mapping}");
            assert_eq!(within(&format!("  {queue}"), "maxReceiveCount"), u64::from(settings.max_receives), "{queue}");
        }
        assert_eq!(number("\n  IntakeWindow:\n", "Default"), TASKS.window_s);
        assert_eq!(number("\n  MemorySize:\n", "Default"), u64::from(MEMORY_MB));
        assert!(TEMPLATE.contains(" Schedule: rate(1 minute)\n") && SWEEP_EVERY_MS == 60_000);
    }

    #[test]
    fn the_longest_window_leaves_a_message_hidden_for_six_timeouts() {
        let longest_s = number("\n  IntakeWindow:\n", "MaxValue");
        assert!(TASKS.visibility_s >= 6 * TASKS.timeout_s + longest_s);
    }
}
