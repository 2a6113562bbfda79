//! Stories of tasks that wait on a list. Sweep runs in all of them: it works off what somebody took and died.

use futures::FutureExt;

use crate::prelude::*;
use crate::shelf::{Call, Caller, What};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        story("releases that are made up for", |world| {
            let (one, other) = (parcels(6, 2)[..4].to_vec(), parcels(6, 2)[4..].to_vec());
            let calls = vec![
                put(0, "a", &one),
                release(0, "r", 3),
                put(0, "b", &other),
                release(0, "s", 2),
                release(0, "s", 2),
            ];
            world.call_list(Caller::new(&list(), calls));
        }),
        story("a release whose caller is gone", |world| {
            world.call_list(Caller::new(&list(), vec![put(0, "a", &parcels(4, 2))]));
            world.call_list(unrepeated(release(2_000, "r", 3)));
        }),
        story("two who release at once", |world| {
            world.call_list(Caller::new(&list(), vec![put(0, "a", &parcels(6, 2))]));
            world.call_list(Caller::new(&list(), vec![release(2_000, "r", 2), release(0, "s", 1)]));
            world.call_list(unrepeated(release(2_000, "t", 3)));
        }),
        story("tasks that are seen after their tokens", |world| {
            world.call_list(Caller::new(&list(), vec![put(0, "a", &parcels(4, 1)), release(0, "r", 4)]));
        })
        .setting(|setting| setting.lag = Lag { slots_ms: 200, ..Lag::default() }),
        story("tasks that come to a list by message", |world| {
            let named: Vec<String> = (0..4).map(|n| crate::chaos::naming(&parcel(n, n % 2), &list())).collect();
            world.send(&named);
            world.send_later(500, &named[..2]);
            world.call_list(Caller::new(&list(), vec![release(3_000, "r", 3)]));
        }),
        story("a list that is closed and discarded", close_and_discard),
        // More died than may linger: who releases next works off what they left.
        story("what the dead left in the head", |world| {
            world.call_list(Caller::new(&list(), vec![put(0, "a", &parcels(9, 3))]));
        })
        .then(|world| {
            async {
                world.run_while(|| world.tables().lists().iter().all(|list| list.tail.given.0 < 9)).await?;
                for n in 0..6 {
                    world.take_and_die(&list(), &format!("dead{n}")).await?;
                }
                world.call_list(Caller::new(&list(), vec![release(1_000, "r", 1), release(0, "s", 1)]));
                Ok(())
            }
            .boxed_local()
        }),
    ]
}

/// What becomes of tasks on lists is looked at by their tokens: none is expected of the story itself.
fn story(name: &'static str, begin: fn(&World)) -> Scenario {
    Scenario::new(name, 0, begin).swept()
}

fn list() -> ListId {
    ListId::new("shelf")
}

fn put(after_ms: u64, key: &str, bodies: &[String]) -> Call {
    Call { after_ms, what: What::Put(key.to_owned(), bodies.to_vec()) }
}

fn release(after_ms: u64, key: &str, count: u64) -> Call {
    Call { after_ms, what: What::Release(key.to_owned(), count) }
}

/// Somebody who does not repeat a call that was not answered.
fn unrepeated(call: Call) -> Caller {
    Caller { is_repeated: false, ..Caller::new(&list(), vec![call]) }
}

fn close_and_discard(world: &World) {
    let call = |what| Call { after_ms: 0, what };
    let calls = vec![
        put(0, "a", &parcels(5, 1)),
        release(0, "r", 2),
        call(What::Close),
        release(0, "s", 1),
        call(What::Discard("d".to_owned())),
        call(What::Open),
        put(0, "b", &[parcel(5, 0)]),
        release(0, "t", 1),
    ];
    world.call_list(Caller::new(&list(), calls));
    world.call_list(unrepeated(release(30, "u", 1)));
}
