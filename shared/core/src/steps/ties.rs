//! Who must hear that tasks are settled: the trackers that count them, and the streams that they are events of.
//!
//! Telling them again changes nothing, so a step that cannot tell all of them lets its message come again.

use super::Error;
use super::shape::Settled;
use super::stream::Streaming;
use super::track::Tracking;
use crate::domain::stream::Life;
use crate::domain::task::Ties;
use crate::domain::{Outcome, TrackerId};
use crate::ports::{Env, Outbox, Streams, Trackers};

/// What telling came to.
#[derive(Debug)]
pub(super) struct Heard {
    trackers: Settled<TrackerId>,
    streams: Settled<Life>,
}

/// What nobody counts (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) items: usize,
    pub(super) events: usize,
}

impl Heard {
    /// What is unknown, if all others have heard.
    pub(super) fn all(self) -> Result<Unknown, Error> {
        Ok(Unknown { items: self.trackers.all()?, events: self.streams.all()? })
    }

    /// What is unknown among those who have heard.
    pub(super) const fn unknown(&self) -> Unknown {
        Unknown { items: self.trackers.unknown, events: self.streams.unknown }
    }

    /// Why one of these may not have heard.
    pub(super) fn error(&self, ties: &Ties) -> Option<&Error> {
        let tracker = ties.item.as_ref().and_then(|item| {
            self.trackers.unanswered.iter().find(|(tracker, _)| *tracker == item.tracker).map(|(_, error)| error)
        });
        tracker.or_else(|| {
            let event = ties.event.as_ref()?;
            self.streams.unanswered.iter().find(|(life, _)| *life == event.life).map(|(_, error)| error)
        })
    }
}

/// Tells what became of tasks.
pub(super) async fn tell(
    store: &(impl Trackers + Streams),
    outbox: &impl Outbox,
    env: &impl Env,
    settled: Vec<(Ties, Outcome)>,
) -> Heard {
    let (mut items, mut events) = (Vec::new(), Vec::new());
    for (Ties { item, event, lane: _ }, outcome) in settled {
        items.extend(item.map(|item| (item, outcome)));
        events.extend(event.map(|event| (event, outcome)));
    }
    let (tracking, streaming) = (Tracking { store, outbox, env }, Streaming { store, outbox, env });
    let (trackers, streams) = futures::join!(tracking.settle(items), streaming.settle(events));
    Heard { trackers, streams }
}
