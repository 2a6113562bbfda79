//! How queues feed the functions, as `template.yaml` sets it: for whoever stands in for Lambda.

use crate::steps::register::FULL_EVENT;

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
pub const TASKS: Settings = Settings { batch_size: 1_000, window_s: 2, timeout_s: 30, visibility_s: 240 };
/// The FIFO task queue, of what keeps an order and of what events leave over: its mapping takes tens, and has no window.
pub const IN_ORDER: Settings = Settings { batch_size: FULL_EVENT, window_s: 0, timeout_s: 30, visibility_s: 240 };
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = include_str!("../../../template.yaml");

    /// The number behind `name` in what follows `after`.
    fn number(after: &str, name: &str) -> u64 {
        let (_, section) = TEMPLATE.split_once(after).unwrap();
        let (_, value) = section.split_once(&format!(" {name}: ")).unwrap();
        value.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn each_queue_is_read_as_the_template_says() {
        for (settings, mapping, function, queue) in [
            (TASKS, "Tasks", "RegisterTaskFunction", "TaskQueue"),
            (IN_ORDER, "TasksInOrder", "RegisterTaskFunction", "InOrderQueue"),
            (ELECT, "Elections", "ElectLeaderFunction", "ElectQueue"),
            (GROUP, "Leaders", "GroupBatchFunction", "GroupQueue"),
            (HANDLE, "Batches", "BatchHandlerFunction", "HandleQueue"),
        ] {
            let within = |resource: &str, name: &str| number(&format!("\n{resource}:\n"), name);
            assert_eq!(within(&format!("        {mapping}"), "BatchSize"), settings.batch_size as u64, "{mapping}");
            assert_eq!(within(&format!("  {function}"), "Timeout"), settings.timeout_s, "{function}");
            assert_eq!(within(&format!("  {queue}"), "VisibilityTimeout"), settings.visibility_s, "{queue}");
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
