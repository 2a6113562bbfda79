//! Counts over whole tables, for a stack that lost its messages. No function may do this: it reads everything.

use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::task::{self, Task};
use groupage_core::domain::{Lock, Target, TaskId};
use groupage_core::ports::{Census, Freshness, Result};

use crate::dynamo::Dynamo;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{Item, text};
use crate::dynamo::query::Scan;
use crate::meter::Place;
use crate::tables::gates::{BREAKER, told_of};
use crate::tables::locks::{LOCK_HOLDER, lock_of};
use crate::tables::tasks::{STATUS, task_of};

impl Census for Dynamo {
    async fn held_locks(&self) -> Result<Vec<(Target, Lock)>> {
        // The gates before calls lie in the same table; they have no holder.
        let held = Clause::Present(LOCK_HOLDER);
        let items = self.scan("scan the locks", &self.tables.locks, Place::Locks, &held).await?;
        items.into_iter().map(lock_of).collect()
    }

    async fn gates_to_tell_of(&self) -> Result<Vec<(Scope, Gate)>> {
        let told = Clause::Present(BREAKER);
        let items = self.scan("scan the gates", &self.tables.locks, Place::Locks, &told).await?;
        items.into_iter().map(told_of).collect()
    }

    async fn unsettled_tasks(&self) -> Result<Vec<Task>> {
        let unsettled = Clause::Begins(STATUS, text(task::CREATED), vec![text(task::BATCHED)]);
        let items = self.scan("scan the tasks", &self.tables.tasks, Place::Tasks, &unsettled).await?;
        items.into_iter().map(task_of).collect()
    }

    async fn tasks_that(&self, are_wanted: &(dyn Fn(&Task) -> bool + Sync)) -> Result<Vec<TaskId>> {
        let all = Clause::Present(STATUS);
        let wanted = |item| Ok(Some(task_of(item)?).filter(|task| are_wanted(task)).map(|task| task.id));
        self.scan_for("scan all tasks", &self.tables.tasks, Place::Tasks, &all, wanted).await
    }
}

impl Dynamo {
    async fn scan(&self, what: &'static str, table: &str, place: Place, filter: &Clause) -> Result<Vec<Item>> {
        self.scan_for(what, table, place, filter, |item| Ok(Some(item))).await
    }

    /// What `wanted` makes of the items that the filter lets through; no other item stays in memory.
    async fn scan_for<T>(
        &self,
        what: &'static str,
        table: &str,
        place: Place,
        filter: &Clause,
        wanted: impl Fn(Item) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let (all, filter) = (Scan::of(what, table, place), std::slice::from_ref(filter));
            let (items, next) = self.scanned(Scan { filter, after, freshness: Freshness::Latest, ..all }).await?;
            for item in items {
                found.extend(wanted(item)?);
            }
            if next.is_none() {
                return Ok(found);
            }
            after = next;
        }
    }
}
