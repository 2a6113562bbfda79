//! Stories of tasks that wait on a list. Sweep runs in all of them: it works off what somebody took and died.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use groupage_core::domain::id::ListId;

use crate::lag::Lag;
use crate::scenario::{Scenario, parcel, parcels};
use crate::shelf::{Call, Caller, What};
use crate::world::World;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        releases_that_are_made_up_for(),
        a_release_whose_caller_is_gone(),
        two_who_release_at_once(),
        tasks_that_are_seen_after_their_tokens(),
        tasks_by_message(),
        a_list_that_is_closed_and_discarded(),
        what_the_dead_left_in_the_head(),
    ]
}

/// What becomes of tasks on lists is looked at by their tokens: none is expected of the story itself.
fn story(name: &'static str, begin: crate::scenario::Beginning) -> Scenario {
    Scenario::new(name, 0, begin).setting(|setting| setting.sweeps = true)
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

fn begin(world: &World, callers: Vec<Caller>) -> LocalBoxFuture<'static, Result<(), String>> {
    callers.into_iter().for_each(|caller| world.call_list(caller));
    async { Ok(()) }.boxed_local()
}

fn releases_that_are_made_up_for() -> Scenario {
    story("releases that are made up for", |world| {
        let (one, other) = (parcels(6, 2)[..4].to_vec(), parcels(6, 2)[4..].to_vec());
        let calls =
            vec![put(0, "a", &one), release(0, "r", 3), put(0, "b", &other), release(0, "s", 2), release(0, "s", 2)];
        begin(world, vec![Caller::new(&list(), calls)])
    })
}

fn a_release_whose_caller_is_gone() -> Scenario {
    story("a release whose caller is gone", |world| {
        let putter = Caller::new(&list(), vec![put(0, "a", &parcels(4, 2))]);
        let gone = Caller { is_repeated: false, ..Caller::new(&list(), vec![release(2_000, "r", 3)]) };
        begin(world, vec![putter, gone])
    })
}

fn two_who_release_at_once() -> Scenario {
    story("two who release at once", |world| {
        let putter = Caller::new(&list(), vec![put(0, "a", &parcels(6, 2))]);
        let one = Caller::new(&list(), vec![release(2_000, "r", 2), release(0, "s", 1)]);
        let other = Caller { is_repeated: false, ..Caller::new(&list(), vec![release(2_000, "t", 3)]) };
        begin(world, vec![putter, one, other])
    })
}

fn tasks_that_are_seen_after_their_tokens() -> Scenario {
    story("tasks that are seen after their tokens", |world| {
        let calls = vec![put(0, "a", &parcels(4, 1)), release(0, "r", 4)];
        begin(world, vec![Caller::new(&list(), calls)])
    })
    .setting(|setting| setting.lag = Lag { slots_ms: 200, ..Lag::default() })
}

fn tasks_by_message() -> Scenario {
    story("tasks that come to a list by message", |world| {
        let named: Vec<String> = (0..4).map(|n| crate::chaos::naming(&parcel(n, n % 2), &list())).collect();
        world.send(&named);
        world.send_later(500, &named[..2]);
        begin(world, vec![Caller::new(&list(), vec![release(3_000, "r", 3)])])
    })
}

fn a_list_that_is_closed_and_discarded() -> Scenario {
    story("a list that is closed and discarded", |world| {
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
        let late = Caller { is_repeated: false, ..Caller::new(&list(), vec![release(30, "u", 1)]) };
        begin(world, vec![Caller::new(&list(), calls), late])
    })
}

/// More died than may linger: who releases next works off what they left.
fn what_the_dead_left_in_the_head() -> Scenario {
    story("what the dead left in the head", |world| {
        async {
            begin(world, vec![Caller::new(&list(), vec![put(0, "a", &parcels(9, 3))])]).await?;
            world.run_while(|| world.tables().lists().iter().all(|list| list.tail.given.0 < 9)).await?;
            for n in 0..6 {
                world.take_and_die(&list(), &format!("dead{n}")).await?;
            }
            begin(world, vec![Caller::new(&list(), vec![release(1_000, "r", 1), release(0, "s", 1)])]).await
        }
        .boxed_local()
    })
}
