//! Figures of a run, as plain values: what a meter shows, and differences of that.

use std::fmt;
use std::ops::{Add, Sub};

/// Capacity units, exact to a tenth: an eventually consistent read costs half a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units {
    tenths: u64,
}

impl Units {
    pub(super) const fn tenths(tenths: u64) -> Self {
        Self { tenths }
    }

    pub(super) const fn as_tenths(self) -> u64 {
        self.tenths
    }

    /// So many whole units.
    #[must_use]
    pub const fn whole(units: u64) -> Self {
        Self { tenths: units * 10 }
    }

    /// Units as DynamoDB reports them.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number that is not negative")]
    pub fn reported(units: f64) -> Self {
        Self { tenths: (units.max(0.0) * 10.0).round() as u64 }
    }

    /// The number of units.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact far beyond any run")]
    pub fn count(self) -> f64 {
        self.tenths as f64 / 10.0
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tenths / 10, self.tenths % 10)
    }
}

impl Add for Units {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { tenths: self.tenths + other.tenths }
    }
}

impl Sub for Units {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { tenths: self.tenths.saturating_sub(other.tenths) }
    }
}

/// Capacity consumed in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Read units.
    pub read: Units,
    /// Write units.
    pub write: Units,
}

/// SQS requests, as AWS bills them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Sends.
    pub send: u64,
    /// Receives.
    pub receive: u64,
    /// Deletes.
    pub delete: u64,
    /// Changes of visibility.
    pub change_visibility: u64,
}

/// What was consumed up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// By the task table.
    pub tasks: Capacity,
    /// By its index of waiting tasks.
    pub waiting: Capacity,
    /// By the lock table.
    pub locks: Capacity,
    /// By the batch table.
    pub batches: Capacity,
    /// By its index of unfinished batches.
    pub unfinished: Capacity,
    /// By the session table.
    pub sessions: Capacity,
    /// By the tracker table.
    pub trackers: Capacity,
    /// By its index of trackers that are due.
    pub due: Capacity,
    /// By the list table.
    pub lists: Capacity,
    /// By its index of lists that are due.
    pub lists_due: Capacity,
    /// By the lane table.
    pub lanes: Capacity,
    /// By its index of lanes that a failure stopped.
    pub stopped: Capacity,
    /// By the stream table.
    pub streams: Capacity,
    /// By its index of streams that are due.
    pub streams_due: Capacity,
    /// By the route table.
    pub routes: Capacity,
    /// Writes whose condition failed; their units are counted above.
    pub refused_writes: u64,
    /// SQS requests.
    pub sqs: Requests,
}

impl Usage {
    /// Units consumed everywhere.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.places()
            .into_iter()
            .fold(Capacity::default(), |sum, one| Capacity { read: sum.read + one.read, write: sum.write + one.write })
    }

    const fn places(&self) -> [Capacity; 15] {
        let Self {
            tasks,
            waiting,
            locks,
            batches,
            unfinished,
            sessions,
            trackers,
            due,
            lists,
            lists_due,
            lanes,
            stopped,
            streams,
            streams_due,
            routes,
            ..
        } = *self;
        [
            tasks,
            waiting,
            locks,
            batches,
            unfinished,
            sessions,
            trackers,
            due,
            lists,
            lists_due,
            lanes,
            stopped,
            streams,
            streams_due,
            routes,
        ]
    }
}

impl Requests {
    /// All requests.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.send + self.receive + self.delete + self.change_visibility
    }
}

impl Sub for Capacity {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self { read: self.read - earlier.read, write: self.write - earlier.write }
    }
}

impl Sub for Requests {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            send: self.send.saturating_sub(earlier.send),
            receive: self.receive.saturating_sub(earlier.receive),
            delete: self.delete.saturating_sub(earlier.delete),
            change_visibility: self.change_visibility.saturating_sub(earlier.change_visibility),
        }
    }
}

impl Sub for Usage {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            tasks: self.tasks - earlier.tasks,
            waiting: self.waiting - earlier.waiting,
            locks: self.locks - earlier.locks,
            batches: self.batches - earlier.batches,
            unfinished: self.unfinished - earlier.unfinished,
            sessions: self.sessions - earlier.sessions,
            trackers: self.trackers - earlier.trackers,
            due: self.due - earlier.due,
            lists: self.lists - earlier.lists,
            lists_due: self.lists_due - earlier.lists_due,
            lanes: self.lanes - earlier.lanes,
            stopped: self.stopped - earlier.stopped,
            streams: self.streams - earlier.streams,
            streams_due: self.streams_due - earlier.streams_due,
            routes: self.routes - earlier.routes,
            refused_writes: self.refused_writes.saturating_sub(earlier.refused_writes),
            sqs: self.sqs - earlier.sqs,
        }
    }
}
