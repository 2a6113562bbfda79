//! What is found only by reading whole tables: for a stack that lost all its messages, and for rare requests of people.

use super::Result;
use super::declare::port;
use crate::domain::gate::{Gate, Scope};
use crate::domain::{Lock, Target, Task, TaskId};

port! {
    /// A count of everything that is not at rest; reads whole tables.
    pub trait Census {
        /// All locks that somebody holds.
        async fn held_locks(&self) -> Result<Vec<(Target, Lock)>>;

        /// All limiters whose circuit breaker has something to tell: calls failed there, or recover.
        async fn gates_to_tell_of(&self) -> Result<Vec<(Scope, Gate)>>;

        /// All tasks that are neither succeeded nor failed.
        async fn unsettled_tasks(&self) -> Result<Vec<Task>>;

        /// The ids of all tasks that are wanted.
        async fn tasks_that(&self, are_wanted: &(dyn Fn(&Task) -> bool + Sync)) -> Result<Vec<TaskId>>;
    }
}
