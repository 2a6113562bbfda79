//! Stories of streams.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use groupage_core::domain::id::StreamId;
use groupage_core::domain::notice::NotificationQueue;
use groupage_core::domain::stream::Options;

use crate::downstream::fails_alone;
use crate::scenario::{Beginning, Scenario, parcels};
use crate::source::Source;
use crate::world::World;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        a_stream(),
        a_stream_with_events_that_fail_alone(),
        a_stream_with_a_small_window(),
        two_sources_of_one_stream(),
    ]
}

/// Sweep runs: a committer that died leaves the rest to it.
fn story(name: &'static str, begin: Beginning) -> Scenario {
    Scenario::new(name, 6, begin).setting(|setting| setting.sweeps = true)
}

/// Feeds six events, three in a call, and one in between that no route wants.
fn feed(world: &World, window: u64) -> LocalBoxFuture<'static, Result<(), String>> {
    let mut bodies = parcels(6, 2);
    bodies.insert(4, r#"{"payload":{"junk":1}}"#.to_owned());
    let notify = NotificationQueue::Default;
    let options = Options { commit_ms: 500, commit_events: None, window, notify };
    world.feed(Source { stream: StreamId::new("events"), options, bodies, page: 3 });
    async { Ok(()) }.boxed_local()
}

fn a_stream() -> Scenario {
    story("a stream", |world| feed(world, 100))
}

fn a_stream_with_events_that_fail_alone() -> Scenario {
    story("a stream with events that fail alone", |world| feed(world, 100)).answering(fails_alone)
}

fn a_stream_with_a_small_window() -> Scenario {
    story("a stream with a small window", |world| feed(world, 3)).taking(300)
}

fn two_sources_of_one_stream() -> Scenario {
    story("two sources of one stream", |world| {
        drop(feed(world, 100));
        feed(world, 100)
    })
}
