//! A stream and its sources, by a seed.

use groupage_core::domain::stream::Options;
use groupage_core::domain::{NotificationQueue, StreamId};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::source::Source;

/// How a run's tasks are fed.
#[derive(Clone, Debug)]
pub(super) struct Random {
    options: Options,
    page: usize,
    sources: usize,
    bodies: Vec<String>,
}

/// A stream of these messages, or none.
pub(super) fn of(dice: &mut StdRng, bodies: &[String]) -> Option<Random> {
    dice.random_bool(0.4).then(|| {
        let options = Options {
            commit_ms: [0, 200, 5_000][dice.random_range(0..3)],
            commit_events: dice.random_bool(0.3).then(|| dice.random_range(1..=4)),
            window: dice.random_range(6..=20),
            notify: NotificationQueue::Default,
        };
        // Two sources that are alike: the second is one that was given up for dead.
        Random { options, page: dice.random_range(1..=6), sources: dice.random_range(1..=2), bodies: bodies.to_vec() }
    })
}

impl Random {
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        let Self { options, page, sources, bodies } = self.clone();
        let source = move || {
            let (options, bodies) = (options.clone(), bodies.clone());
            Source { stream: StreamId::new("events"), options, bodies, page }
        };
        (0..sources).map(move |_| source())
    }
}
