//! A tracker as plain sets: what its real one must show.

use std::collections::BTreeMap;

use groupage_core::domain::tracker::{Ending, Options};
use groupage_lab::prelude::*;

/// What a call must be answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It did something; sealing and giving up do not tell whether that was before.
    New,
    /// All of it was done before.
    Before,
    /// This many items were acked by it; the others of the call before.
    Fresh(u64),
    /// This many items are none of the tracker's.
    Strange(u64),
    Unknown,
    OpenedOtherwise,
    Sealed,
    Over(Ending),
    KeyUsed,
    NotAnItem,
}

impl Expected {
    pub fn is_refused(self) -> bool {
        match self {
            Self::New | Self::Before | Self::Fresh(_) | Self::Strange(_) => false,
            Self::Unknown | Self::OpenedOtherwise | Self::Sealed | Self::Over(_) | Self::KeyUsed | Self::NotAnItem => {
                true
            }
        }
    }
}

/// The tracker.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub opened: Option<Option<Timestamp>>,
    /// What came of each item.
    pub items: Vec<Option<Outcome>>,
    pub keys: BTreeMap<String, u64>,
    pub sealed: bool,
    pub over: Option<Ending>,
}

pub fn options(deadline: Option<Timestamp>) -> Options {
    Options { deadline, notify: NotificationQueue::Default }
}

impl Model {
    pub fn done(&self) -> u64 {
        self.items.iter().filter(|item| item.is_some()).count() as u64
    }

    pub fn failed(&self) -> Vec<u64> {
        let failed = |(_, item): &(usize, &Option<Outcome>)| **item == Some(Outcome::Failed);
        self.items.iter().enumerate().filter(failed).map(|(number, _)| number as u64).collect()
    }

    /// Whether it is to be complete.
    pub fn is_complete(&self) -> bool {
        self.sealed && self.items.iter().all(Option::is_some)
    }

    pub fn open(&mut self, deadline: Option<Timestamp>) -> Expected {
        match self.opened {
            None => {
                self.opened = Some(deadline);
                Expected::New
            }
            Some(before) if before == deadline => Expected::Before,
            Some(_) => Expected::OpenedOtherwise,
        }
    }

    pub fn add(&mut self, key: &str, count: u64) -> Expected {
        if self.opened.is_none() {
            return Expected::Unknown;
        }
        match self.keys.get(key) {
            Some(before) if *before == count => return Expected::Before,
            Some(_) => return Expected::KeyUsed,
            None => {}
        }
        if let Some(how) = self.over {
            return Expected::Over(how);
        }
        if self.sealed {
            return Expected::Sealed;
        }
        self.keys.insert(key.to_owned(), count);
        self.items.extend((0..count).map(|_| None));
        Expected::New
    }

    pub fn seal(&mut self) -> Expected {
        match (self.opened, self.over) {
            (None, _) => Expected::Unknown,
            (_, Some(Ending::Completed)) => Expected::New,
            (_, Some(how)) => Expected::Over(how),
            (Some(_), None) => {
                self.sealed = true;
                Expected::New
            }
        }
    }

    pub fn abandon(&mut self) -> Expected {
        match (self.opened, self.over) {
            (None, _) => Expected::Unknown,
            (_, Some(Ending::Abandoned)) => Expected::New,
            (_, Some(how)) => Expected::Over(how),
            (Some(_), None) => {
                self.over = Some(Ending::Abandoned);
                Expected::New
            }
        }
    }

    /// Acks items by one call, all or none.
    pub fn ack(&mut self, ranges: &[(u64, u64, Outcome)]) -> Expected {
        let mut named = BTreeMap::new();
        for (first, last, outcome) in ranges {
            for number in *first..=*last {
                if *named.entry(number).or_insert(*outcome) != *outcome {
                    return Expected::NotAnItem;
                }
            }
        }
        if self.opened.is_none() {
            return Expected::Unknown;
        }
        if named.keys().any(|number| *number >= self.items.len() as u64) {
            return Expected::NotAnItem;
        }
        match self.over {
            Some(Ending::Completed) => Expected::Fresh(0),
            Some(how) => Expected::Over(how),
            None => Expected::Fresh(self.mark(named)),
        }
    }

    /// Acks the items of settled tasks, those that there are.
    pub fn settle(&mut self, items: &[(u64, Outcome)]) -> Expected {
        let mut named = BTreeMap::new();
        for (number, outcome) in items {
            named.entry(*number).or_insert(*outcome);
        }
        let all = named.len() as u64;
        if self.opened.is_none() {
            return Expected::Strange(all);
        }
        named.retain(|number, _| *number < self.items.len() as u64);
        if matches!(self.over, Some(Ending::Overdue | Ending::Abandoned)) {
            return Expected::Strange(all);
        }
        let strange = all - named.len() as u64;
        if self.over.is_none() {
            self.mark(named);
        }
        Expected::Strange(strange)
    }

    /// The first outcome of an item counts.
    fn mark(&mut self, named: BTreeMap<u64, Outcome>) -> u64 {
        let mut fresh = 0;
        for (number, outcome) in named {
            let item = &mut self.items[usize::try_from(number).unwrap()];
            fresh += u64::from(item.is_none());
            item.get_or_insert(outcome);
        }
        fresh
    }
}
