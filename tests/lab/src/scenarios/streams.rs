//! Stories of streams. Sweep runs: a committer that died leaves the rest to it.

use groupage_core::domain::stream::Options;

use crate::downstream::fails_alone;
use crate::prelude::*;
use crate::source::Source;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("a stream", 6, |world| feed(world, 100)),
        Scenario::new("a stream with events that fail alone", 6, |world| feed(world, 100)).answering(fails_alone),
        Scenario::new("a stream with a small window", 6, |world| feed(world, 3)).taking(300),
        Scenario::new("two sources of one stream", 6, |world| {
            feed(world, 100);
            feed(world, 100);
        }),
    ];
    stories.map(Scenario::swept).into()
}

/// Feeds six events, three in a call, and one in between that no route wants.
fn feed(world: &World, window: u64) {
    let mut bodies = parcels(6, 2);
    bodies.insert(4, r#"{"payload":{"junk":1}}"#.to_owned());
    let notify = NotificationQueue::Default;
    let options = Options { commit_ms: 500, commit_events: None, window, notify };
    world.feed(Source { stream: StreamId::new("events"), options, bodies, page: 3 });
}
