//! A stream as a sorted set of settled numbers: what its real one must show.

use std::collections::BTreeMap;

use groupage_core::domain::stream::{Ending, Options, State};

/// What a call must be answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It was done, now or before.
    Done,
    /// Events new, settled before, sent again; of those sent, rejected.
    Fed {
        new: u64,
        settled: u64,
        again: u64,
        rejected: u64,
    },
    /// This many events are none of the stream's.
    Strange(usize),
    Unknown,
    OpenedOtherwise,
    Over(State),
    Gap,
    Behind,
    Changed(u64),
    WindowFull {
        unsettled: u64,
    },
}

impl Expected {
    pub const fn is_refused(&self) -> bool {
        !matches!(self, Self::Done | Self::Fed { .. } | Self::Strange(_))
    }
}

/// The stream.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub opened: Option<Options>,
    pub state: Option<State>,
    pub next: u64,
    /// What is settled, and whether it failed.
    pub settled: BTreeMap<u64, bool>,
    /// What was committed last; the store says that.
    pub watermark: u64,
}

/// Whether what the source has under a number is no task.
pub const fn is_poison(number: u64) -> bool {
    number % 61 == 17
}

impl Model {
    /// The end of the leading run of settled events.
    pub fn run(&self) -> u64 {
        let first_gap = (0..self.next).zip(self.settled.keys()).find(|(number, settled)| number != *settled);
        first_gap.map_or(self.settled.len() as u64, |(number, _)| number).min(self.next)
    }

    pub fn failed(&self) -> u64 {
        self.settled.values().filter(|failed| **failed).count() as u64
    }

    pub fn unsettled(&self) -> u64 {
        self.next - self.settled.len() as u64
    }

    pub fn open(&mut self, options: &Options) -> Expected {
        match &self.opened {
            Some(before) if before == options => Expected::Done,
            Some(_) => Expected::OpenedOtherwise,
            None => {
                (self.opened, self.state) = (Some(options.clone()), Some(State::Open));
                Expected::Done
            }
        }
    }

    /// Feeds events from a number on; `changed` is another than the source had there before.
    pub fn feed(&mut self, from: u64, count: u64, changed: Option<u64>) -> Expected {
        let (Some(options), Some(state)) = (&self.opened, self.state) else { return Expected::Unknown };
        if state != State::Open {
            return Expected::Over(state);
        }
        if from > self.next {
            return Expected::Gap;
        }
        if from < self.watermark {
            return Expected::Behind;
        }
        let end = from + count;
        if let Some(changed) = changed.filter(|changed| (from..end.min(self.next)).contains(changed)) {
            return Expected::Changed(changed);
        }
        let new = end.saturating_sub(self.next);
        if new > 0 && self.unsettled() + new > options.window {
            return Expected::WindowFull { unsettled: self.unsettled() };
        }
        let settled = (from..end).filter(|number| self.settled.contains_key(number)).count() as u64;
        let sent: Vec<u64> = (from..end).filter(|number| !self.settled.contains_key(number)).collect();
        let poison: Vec<u64> = sent.iter().copied().filter(|number| is_poison(*number)).collect();
        self.next = self.next.max(end);
        self.settled.extend(poison.iter().map(|number| (*number, true)));
        Expected::Fed { new, settled, again: count - new - settled, rejected: poison.len() as u64 }
    }

    /// Settles events, those that there are. The first outcome counts.
    pub fn settle(&mut self, events: &BTreeMap<u64, bool>) -> Expected {
        if self.opened.is_none() {
            return Expected::Strange(events.len());
        }
        let known = events.iter().filter(|(number, _)| **number < self.next);
        let known: Vec<(u64, bool)> = known.map(|(number, failed)| (*number, *failed)).collect();
        for (number, failed) in &known {
            self.settled.entry(*number).or_insert(*failed);
        }
        Expected::Strange(events.len() - known.len())
    }

    pub fn end(&mut self, how: Ending) -> Expected {
        match (self.state, how) {
            (None, _) => Expected::Unknown,
            (Some(State::Open), Ending::Ended) => {
                self.state = Some(State::Ended);
                Expected::Done
            }
            (Some(State::Open), Ending::Failed) => {
                self.state = Some(State::Failed);
                Expected::Done
            }
            (Some(State::Ended | State::Completed), Ending::Ended) | (Some(State::Failed), Ending::Failed) => {
                Expected::Done
            }
            (Some(state), _) => Expected::Over(state),
        }
    }
}
