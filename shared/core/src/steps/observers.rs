//! The observers of settled tasks: the trackers that count them, and the streams that they are events of.
//!
//! Telling them again changes nothing, so a step that cannot tell all of them lets its message come again.

use super::Error;
use super::cas::Settled;
use super::stream::Streaming;
use super::track::Tracking;
use crate::domain::stream::Life;
use crate::domain::task::Ties;
use crate::domain::{Outcome, TrackerId};
use crate::ports::{Env, Outbox, Streams, Trackers};

/// The result of telling all observers.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) items: Settled<TrackerId>,
    pub(super) events: Settled<Life>,
}

impl Observed {
    /// Returns the first error of an observer that may not have heard.
    pub(super) fn all(self) -> Result<(), Error> {
        self.items.all().and(self.events.all()).map(|_| ())
    }

    /// Returns why one of these may not have heard.
    pub(super) fn error(&self, ties: &Ties) -> Option<&Error> {
        let of_tracker =
            self.items.unanswered.iter().find(|(id, _)| ties.item.as_ref().is_some_and(|item| item.tracker == *id));
        let of_stream =
            self.events.unanswered.iter().find(|(id, _)| ties.event.as_ref().is_some_and(|event| event.life == *id));
        of_tracker.map(|(_, error)| error).or_else(|| of_stream.map(|(_, error)| error))
    }
}

/// Tells all observers what became of tasks.
pub(super) async fn observe(
    store: &(impl Trackers + Streams),
    outbox: &impl Outbox,
    env: &impl Env,
    settled: Vec<(Ties, Outcome)>,
) -> Observed {
    let (mut items, mut events) = (Vec::new(), Vec::new());
    for (Ties { item, event, lane: _ }, outcome) in settled {
        items.extend(item.map(|item| (item, outcome)));
        events.extend(event.map(|event| (event, outcome)));
    }
    let (tracking, streaming) = (Tracking { store, outbox, env }, Streaming { store, outbox, env });
    let (items, events) = futures::join!(tracking.settle(items), streaming.settle(events));
    Observed { items, events }
}
