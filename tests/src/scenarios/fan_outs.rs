//! Stories of tracked fan-outs. Sweep runs in all of them: it sends the notice that somebody died before.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use groupage_core::domain::tracker::{Mark, Node, NodeId, Outcome, State};
use groupage_core::ports::{Env, Freshness, Trackers};

use crate::downstream::{fails_alone, status};
use crate::fan_out::{FanOut, Portion, Work};
use crate::scenario::{Scenario, parcel, parcels};
use crate::world::World;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        a_fan_out_sealed_last(),
        a_fan_out_sealed_first(),
        a_fan_out_with_members_that_fail_alone(),
        a_fan_out_of_two_groups(),
        rejected_messages_with_items(),
        an_empty_fan_out(),
        a_fan_out_that_is_overdue(),
        a_dead_ackers_last_bit(),
    ]
}

fn story(name: &'static str, tasks: usize, begin: crate::scenario::Beginning) -> Scenario {
    Scenario::new(name, tasks, begin).setting(|setting| setting.sweeps = true)
}

/// Starts a fan-out of these messages in two portions, sealed after a while.
fn start(world: &World, bodies: &[String], seal_after_ms: u64) -> LocalBoxFuture<'static, Result<(), String>> {
    let (one, other) = bodies.split_at(bodies.len().div_ceil(2));
    world.fan_out_later(0, FanOut { seal_after_ms: Some(seal_after_ms), ..FanOut::of(&[one, other]) });
    async { Ok(()) }.boxed_local()
}

fn a_fan_out_sealed_last() -> Scenario {
    story("a fan-out, sealed when all is done", 6, |world| start(world, &parcels(6, 2), 8_000))
}

fn a_fan_out_sealed_first() -> Scenario {
    story("a fan-out, sealed before the last is done", 6, |world| start(world, &parcels(6, 2), 0)).taking(300)
}

fn a_fan_out_with_members_that_fail_alone() -> Scenario {
    story("a fan-out with members that fail alone", 6, |world| start(world, &parcels(6, 2), 0)).answering(fails_alone)
}

fn a_fan_out_of_two_groups() -> Scenario {
    story("a fan-out of two groups", 4, |world| {
        let done = Portion { key: "done".to_owned(), after_ms: 0, times: 1, work: Work::Done(7_166, Outcome::Failed) };
        let mut fan_out = FanOut::of(&[&parcels(4, 1)]);
        fan_out.portions.insert(0, done);
        world.fan_out_later(0, fan_out);
        async { Ok(()) }.boxed_local()
    })
}

fn rejected_messages_with_items() -> Scenario {
    story("rejected messages with items", 4, |world| {
        let mut bodies = parcels(4, 1);
        bodies.push(r#"{"id":"bad","payload":7}"#.to_owned());
        bodies.push(parcel(1, 1));
        start(world, &bodies, 0)
    })
}

fn an_empty_fan_out() -> Scenario {
    story("an empty fan-out", 0, |world| {
        world.fan_out_later(0, FanOut::of(&[]));
        async { Ok(()) }.boxed_local()
    })
}

fn a_fan_out_that_is_overdue() -> Scenario {
    story("a fan-out that is overdue", 4, |world| {
        let elsewhere = Portion { key: "elsewhere".to_owned(), after_ms: 0, times: 1, work: Work::Elsewhere(1) };
        let mut fan_out = FanOut::of(&[&parcels(4, 2)]);
        fan_out.portions.push(elsewhere);
        fan_out.deadline = Some(world.env.now().plus_ms(90_000));
        world.fan_out_later(0, fan_out);
        async { Ok(()) }.boxed_local()
    })
    .answering(|_, _| Ok(status(400, None)))
}

/// Somebody who acks one item sets the last bit and dies; nobody repeats it.
fn a_dead_ackers_last_bit() -> Scenario {
    story("a dead acker's last bit", 3, |world| {
        async move {
            let elsewhere = Portion { key: "elsewhere".to_owned(), after_ms: 0, times: 1, work: Work::Elsewhere(1) };
            let mut fan_out = FanOut::of(&[&parcels(3, 1)]);
            fan_out.portions.push(elsewhere);
            let id = fan_out.tracker.clone();
            world.fan_out_later(0, fan_out);
            let is_left_alone = || {
                let sealed = world.tables().trackers().iter().any(|tracker| tracker.state == State::Sealed);
                let tasks = world.tables().tasks();
                let settled = tasks.len() == 3 && tasks.iter().all(|task| task.status.is_settled());
                sealed && settled && world.tables().batches().iter().all(|batch| batch.unfinished().is_none())
            };
            world.run_while(|| !is_left_alone()).await?;
            let looked = world.store.look(&id, &[NodeId::group(0)], Freshness::Latest).await;
            let group = looked.ok().and_then(|looked| looked.nodes.into_iter().next());
            let group = group.unwrap_or_else(|| Node::empty(NodeId::group(0)));
            let last = group.marking(&[Mark { bit: 3, failures: 0 }]).ok_or("the last item is acked already")?;
            world.store.mark(&id, &last).await.map_err(|error| error.to_string())?;
            Ok(())
        }
        .boxed_local()
    })
}
