//! What a process keeps in mind from one message to the next. None of it has to be right: it saves requests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::admit::Sightings;
use super::register::{Asked, Rations};

/// What a process keeps in mind.
#[derive(Debug, Default)]
pub struct Notebook {
    /// Targets that were throttled.
    pub rations: Rations,
    /// For which Targets it has lately asked for a leader.
    pub asked: Asked,
    /// Which notices of outages are refused.
    pub announced: Announced,
    /// How it last saw gates.
    pub sightings: Sightings,
}

/// What was refused of what was to be told of outages.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Refused>);

/// The same, counted in notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Their gates have them to tell still.
    pub untold: usize,
    /// They went to the rejected queue, since their own has refused them for a day.
    pub undeliverable: usize,
    /// What the first queue said.
    pub refusal: Option<String>,
}

impl Announced {
    /// What was refused until now, once.
    pub fn take(&self) -> Refused {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
