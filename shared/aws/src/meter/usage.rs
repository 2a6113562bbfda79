//! Figures of a run, as plain values: what a meter shows, and differences of that.

use std::ops::{Add, Sub};

/// Capacity units, exact to a tenth: an eventually consistent read costs half a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}.{}", tenths / 10, tenths % 10)]
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

    /// This many whole units.
    pub const fn whole(units: u64) -> Self {
        Self { tenths: units * 10 }
    }

    /// This many half units.
    pub const fn halves(halves: u64) -> Self {
        Self { tenths: halves * 5 }
    }

    /// Units as DynamoDB reports them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number that is not negative")]
    pub fn reported(units: f64) -> Self {
        Self { tenths: (units.max(0.0) * 10.0).round() as u64 }
    }

    /// The number of units.
    #[expect(clippy::cast_precision_loss, reason = "exact far beyond any run")]
    pub fn count(self) -> f64 {
        self.tenths as f64 / 10.0
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

/// Where capacity is consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The task table.
    Tasks,
    /// The task table's index of waiting tasks.
    Waiting,
    /// The task table's index of failed and of scheduled tasks, as far as it is read.
    Filed,
    /// The lock table.
    Locks,
    /// The batch table.
    Batches,
    /// The batch table's index of unfinished batches.
    Unfinished,
    /// The session table.
    Sessions,
    /// The tracker table.
    Trackers,
    /// The tracker table's index of trackers by when sweep looks at them.
    Due,
    /// The list table.
    Lists,
    /// The list table's index of lists by when sweep looks at them.
    ListsDue,
    /// The lane table.
    Lanes,
    /// The lane table's index of lanes that a failure stopped.
    Stopped,
    /// The stream table.
    Streams,
    /// The stream table's index of streams by when sweep looks at them.
    StreamsDue,
    /// The route table.
    Routes,
}

/// How many places there are.
pub(super) const PLACES: usize = Place::Routes as usize + 1;

impl Place {
    /// The places of a task's way, tables before their indexes.
    pub const ON_THE_WAY: [Self; 6] =
        [Self::Tasks, Self::Waiting, Self::Locks, Self::Batches, Self::Unfinished, Self::Sessions];

    /// What it is called in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Waiting => "waiting index",
            Self::Filed => "filed index",
            Self::Locks => "locks and gates",
            Self::Batches => "batches",
            Self::Unfinished => "unfinished index",
            Self::Sessions => "sessions",
            Self::Trackers => "trackers",
            Self::Due => "trackers' due index",
            Self::Lists => "lists",
            Self::ListsDue => "lists' due index",
            Self::Lanes => "lanes",
            Self::Stopped => "stopped index",
            Self::Streams => "streams",
            Self::StreamsDue => "streams' due index",
            Self::Routes => "routes",
        }
    }

    /// The index of the table in this place.
    pub(super) const fn index(self) -> Self {
        match self {
            Self::Filed => Self::Filed,
            Self::Batches | Self::Unfinished => Self::Unfinished,
            Self::Trackers | Self::Due => Self::Due,
            Self::Lists | Self::ListsDue => Self::ListsDue,
            Self::Lanes | Self::Stopped => Self::Stopped,
            Self::Streams | Self::StreamsDue => Self::StreamsDue,
            // No other table has one.
            Self::Tasks | Self::Waiting | Self::Locks | Self::Sessions | Self::Routes => Self::Waiting,
        }
    }
}

/// What was consumed up to a moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// By [`Place`].
    pub(super) places: [Capacity; PLACES],
    /// Writes whose condition failed; their units are counted in their places.
    pub refused_writes: u64,
    /// SQS requests.
    pub sqs: Requests,
}

impl Usage {
    /// Units consumed in one place.
    pub const fn at(&self, place: Place) -> Capacity {
        self.places[place as usize]
    }

    /// Units consumed everywhere.
    pub fn capacity(&self) -> Capacity {
        self.places
            .into_iter()
            .fold(Capacity::default(), |sum, one| Capacity { read: sum.read + one.read, write: sum.write + one.write })
    }
}

impl Requests {
    /// All requests.
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
            places: std::array::from_fn(|place| self.places[place] - earlier.places[place]),
            refused_writes: self.refused_writes.saturating_sub(earlier.refused_writes),
            sqs: self.sqs - earlier.sqs,
        }
    }
}
