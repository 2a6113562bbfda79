//! The index of the tasks that wait for one Target, for stores that keep it in memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::Page;
use crate::domain::TaskId;
use crate::domain::task::Candidate;

/// Tasks that wait for one Target, in the order of the index.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    entries: BTreeMap<Spot, Candidate>,
    /// How urgent each of them is.
    priorities: HashMap<TaskId, u8>,
}

/// A place in the index: a priority, and the task there that has it.
pub type Spot = (u8, TaskId);

impl Queue {
    /// Shows a task, in the place of what was shown of it before.
    pub fn show(&mut self, candidate: Candidate) {
        self.hide(&candidate.id);
        let priority = candidate.traits.priority;
        self.priorities.insert(candidate.id.clone(), priority);
        self.entries.insert((priority, candidate.id.clone()), candidate);
    }

    /// Shows a task no more.
    pub fn hide(&mut self, id: &TaskId) {
        if let Some(priority) = self.priorities.remove(id) {
            self.entries.remove(&(priority, id.clone()));
        }
    }

    /// What is shown of a task.
    pub fn get(&self, id: &TaskId) -> Option<&Candidate> {
        self.entries.get(&(*self.priorities.get(id)?, id.clone()))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.entries.values()
    }

    /// Up to `limit` of them that come after that place, the least urgent first.
    pub fn page(&self, after: Option<&Spot>, limit: usize) -> Page<Spot> {
        let from = after.map_or(Unbounded, Excluded);
        page(self.entries.range::<Spot, _>((from, Unbounded)), limit)
    }

    /// Up to `limit` of them whose priority is `above` this and that come after that place, the most urgent first.
    pub fn urgent(&self, above: u8, after: Option<&Spot>, limit: usize) -> Page<Spot> {
        // No id is empty.
        let least = (above.saturating_add(1), TaskId::new(""));
        let to = after.map_or(Unbounded, Excluded);
        page(self.entries.range::<Spot, _>((Included(&least), to)).rev(), limit)
    }
}

fn page<'a>(entries: impl Iterator<Item = (&'a Spot, &'a Candidate)>, limit: usize) -> Page<Spot> {
    let (places, candidates): (Vec<&Spot>, Vec<Candidate>) =
        entries.take(limit).map(|(place, candidate)| (place, candidate.clone())).unzip();
    let next = if candidates.len() == limit { places.last().copied().cloned() } else { None };
    Page { candidates, next }
}
