//! Stories of tracked fan-outs. Sweep runs in all of them: it sends the notice that somebody died before.

use futures::FutureExt;
use groupage_core::domain::tracker::State;

use crate::downstream::fails_alone;
use crate::fan_out::{FanOut, Portion, Work};
use crate::prelude::*;

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("a fan-out, sealed when all is done", 6, |world| start(world, &parcels(6, 2), 8_000)),
        Scenario::new("a fan-out, sealed before the last is done", 6, |world| start(world, &parcels(6, 2), 0))
            .taking(300),
        Scenario::new("a fan-out with members that fail alone", 6, |world| start(world, &parcels(6, 2), 0))
            .answering(fails_alone),
        Scenario::new("a fan-out of two groups", 4, |world| {
            let mut fan_out = FanOut::of(&[&parcels(4, 1)]);
            fan_out.portions.insert(0, portion("done", Work::Done(7_166, Outcome::Failed)));
            world.fan_out_later(0, fan_out);
        }),
        Scenario::new("rejected messages with items", 4, |world| {
            let mut bodies = parcels(4, 1);
            bodies.push(r#"{"id":"bad","payload":7}"#.to_owned());
            bodies.push(parcel(1, 1));
            start(world, &bodies, 0);
        }),
        Scenario::new("an empty fan-out", 0, |world| world.fan_out_later(0, FanOut::of(&[]))),
        Scenario::new("a fan-out that is overdue", 4, |world| {
            let mut fan_out = FanOut::of(&[&parcels(4, 2)]);
            fan_out.portions.push(portion("elsewhere", Work::Elsewhere(1)));
            fan_out.deadline = Some(world.env.now().plus_ms(90_000));
            world.fan_out_later(0, fan_out);
        })
        .answering(|_, _| Ok(status(400, None))),
        // Somebody who acks one item sets the last bit and dies; nobody repeats it.
        Scenario::new("a dead acker's last bit", 3, |world| {
            let mut fan_out = FanOut::of(&[&parcels(3, 1)]);
            fan_out.portions.push(portion("elsewhere", Work::Elsewhere(1)));
            world.fan_out_later(0, fan_out);
        })
        .then(|world| set_the_last_bit_and_die(world).boxed_local()),
    ];
    stories.map(Scenario::swept).into()
}

/// Starts a fan-out of these messages in two portions, sealed after a while.
fn start(world: &World, bodies: &[String], seal_after_ms: u64) {
    let (one, other) = bodies.split_at(bodies.len().div_ceil(2));
    world.fan_out_later(0, FanOut { seal_after_ms: Some(seal_after_ms), ..FanOut::of(&[one, other]) });
}

fn portion(key: &str, work: Work) -> Portion {
    Portion { key: key.to_owned(), after_ms: 0, times: 1, work }
}

async fn set_the_last_bit_and_die(world: &World) -> Result<(), String> {
    let is_left_alone = || {
        let sealed = world.tables().trackers().iter().any(|tracker| tracker.state == State::Sealed);
        let tasks = world.tables().tasks();
        let settled = tasks.len() == 3 && tasks.iter().all(|task| task.status.is_settled());
        sealed && settled && world.tables().batches().iter().all(|batch| batch.unfinished().is_none())
    };
    world.run_while(|| !is_left_alone()).await?;
    let id = FanOut::of(&[]).tracker;
    let looked = world.store.look(&id, &[NodeId::group(0)], Freshness::Latest).await;
    let group = looked.ok().and_then(|looked| looked.nodes.into_iter().next());
    let group = group.unwrap_or_else(|| Node::empty(NodeId::group(0)));
    let last = group.marking(&[Mark { bit: 3, failures: 0 }]).ok_or("the last item is acked already")?;
    world.store.mark(&id, &last).await.map_err(|error| error.to_string())?;
    Ok(())
}
