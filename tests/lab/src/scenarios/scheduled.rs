//! Stories of tasks that wait for their time: for seconds, by a delayed message, and for longer, by sweep alone.

use futures::FutureExt;

use crate::fan_out::FanOut;
use crate::scenario::{Scenario, expiring, parcels, scheduled};

pub(super) fn all() -> Vec<Scenario> {
    let stories = [
        Scenario::new("tasks that wait for their time", 5, |world| {
            let parcels = parcels(5, 2);
            let later = |n: usize, seconds| scheduled(&parcels[n], seconds);
            world.send(&[later(0, 5), parcels[1].clone(), later(2, 5), later(3, 1_000), later(4, 1_000)]);
        }),
        Scenario::new("a task that waits for its time, sent twice", 1, |world| {
            let body = scheduled(&parcels(1, 1)[0], 5);
            world.send(std::slice::from_ref(&body));
            world.send_later(2_000, &[body]);
        }),
        Scenario::new("tasks that wait for their time, and whose message is lost", 2, |_| {}).then(|world| {
            async {
                world.register(&parcels(2, 1).iter().map(|body| scheduled(body, 5)).collect::<Vec<_>>()).await;
                world.queues.lose_everything();
                Ok(())
            }
            .boxed_local()
        }),
        Scenario::new("items whose tasks wait for their time", 2, |world| {
            let parcels = parcels(2, 1);
            let bodies = [scheduled(&parcels[0], 5), expiring(&scheduled(&parcels[1], 5), 6)];
            world.fan_out_later(0, FanOut::of(&[&bodies]));
        }),
        Scenario::new("a task that is cancelled before its time", 2, |world| {
            let parcels = parcels(2, 1);
            world.send(&[scheduled(&parcels[0], 1_000), parcels[1].clone()]);
            world.cancel_later(2_000, &["p0"]);
        }),
    ];
    stories.map(Scenario::swept).into()
}
