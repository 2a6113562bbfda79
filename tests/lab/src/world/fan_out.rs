//! A tracked fan-out's owner: a process of its own that opens a tracker, adds items, sends the tasks that they are for
//! and seals. It repeats every call until that is answered, and when it dies another makes the same calls again.

use groupage_core::domain::tracker::{Addition, Options, Place};
use groupage_core::steps::track::Refused;

use super::World;
use crate::prelude::*;

/// What an owner does, in this order.
#[derive(Clone, Debug)]
pub struct FanOut {
    /// The tracker's id.
    pub tracker: TrackerId,
    /// When the tracker ends, complete or not.
    pub deadline: Option<Timestamp>,
    /// What is added, portion by portion.
    pub portions: Vec<Portion>,
    /// The pause before it is sealed, in milliseconds; `None` if it never is.
    pub seal_after_ms: Option<u64>,
}

/// Items added by one call, and what is done about them.
#[derive(Clone, Debug)]
pub struct Portion {
    /// The call's key.
    pub key: String,
    /// The pause before it, in milliseconds.
    pub after_ms: u64,
    /// How often the call is made.
    pub times: usize,
    /// What the items are.
    pub work: Work,
}

/// What items stand for.
#[derive(Clone, Debug)]
pub enum Work {
    /// A message of the task queue for each.
    Tasks(Vec<String>),
    /// This many things that the owner does itself, and acks.
    Done(u64, tracker::Outcome),
    /// This many things of which no more is heard from the owner.
    Elsewhere(u64),
}

/// A call that was not answered is made again after this many milliseconds.
pub(super) const AGAIN_MS: u64 = 500;

impl FanOut {
    /// A fan-out of one portion for each of these messages' groups, sealed when it is sent.
    pub fn of(tasks: &[&[String]]) -> Self {
        let portion = |(n, bodies): (usize, &&[String])| Portion {
            key: format!("k{n}"),
            after_ms: 0,
            times: 1 + n % 2,
            work: Work::Tasks(bodies.to_vec()),
        };
        let portions = tasks.iter().enumerate().map(portion).collect();
        Self { tracker: TrackerId::new("fan-out"), deadline: None, portions, seal_after_ms: Some(0) }
    }

    /// How many items its owner wants it to have.
    pub fn items(&self) -> u64 {
        self.portions.iter().map(|portion| portion.work.items()).sum()
    }

    /// How long its owner pauses in all, in milliseconds.
    pub fn pauses_ms(&self) -> u64 {
        self.portions.iter().map(|portion| portion.after_ms).sum::<u64>() + self.seal_after_ms.unwrap_or_default()
    }

    fn options(&self) -> Options {
        Options { deadline: self.deadline, notify: NotificationQueue::Default }
    }
}

impl Work {
    /// How many items it has.
    pub fn items(&self) -> u64 {
        match self {
            Self::Tasks(bodies) => bodies.len() as u64,
            Self::Done(count, _) | Self::Elsewhere(count) => *count,
        }
    }
}

impl World {
    /// An owner's life.
    pub(crate) async fn own_as(&self, process: &Process, fan_out: &FanOut) {
        match self.own(process, fan_out).await {
            // Its deadline came first.
            Ok(()) | Err(Refused::Over(_)) => {}
            Err(refused) => self.complain(format!("owners are served: {} was told: {refused}", fan_out.tracker)),
        }
    }

    async fn own(&self, process: &Process, fan_out: &FanOut) -> Result<(), Refused> {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let (env, id) = (process.env(), &fan_out.tracker);
        let tracking = Tracking { store, outbox, env };
        insist(env, async || tracking.open(id.clone(), fan_out.options()).await).await?;
        for portion in &fan_out.portions {
            env.sleep(portion.after_ms).await;
            let mut added = Vec::new();
            for _ in 0..portion.times {
                let count = portion.work.items();
                let answer = insist(env, async || tracking.add(id, &portion.key, count).await).await;
                added.push(answer.map(|(addition, _)| addition));
            }
            if !added.iter().all(|one| *one == added[0]) {
                self.complain(format!("items are added once: {id} answered {} with {added:?}", portion.key));
            }
            match (&portion.work, added.swap_remove(0)) {
                (Work::Tasks(bodies), Ok(addition)) => self.send_for(process, bodies_of(id, &addition, bodies)).await,
                // Nobody counts any more, and the work is done all the same.
                (Work::Tasks(bodies), Err(Refused::Over(_))) => self.send_for(process, bodies.clone()).await,
                (Work::Done(_, outcome), Ok(addition)) => {
                    let ranges = ranges_of(id, &addition, *outcome);
                    match insist(env, async || tracking.ack(id, &ranges).await).await {
                        Ok(_) | Err(Refused::Over(_)) => {}
                        Err(refused) => return Err(refused),
                    }
                }
                (Work::Elsewhere(_), Ok(_)) | (_, Err(Refused::Over(_))) => {}
                (_, Err(refused)) => return Err(refused),
            }
        }
        if let Some(after_ms) = fan_out.seal_after_ms {
            env.sleep(after_ms).await;
            insist(env, async || tracking.seal(id).await).await?;
        }
        Ok(())
    }

    /// Sends to the task queue until that is answered.
    async fn send_for(&self, process: &Process, bodies: Vec<String>) {
        let send = async || {
            let sent = async {
                self.send(&bodies);
                Ok(())
            };
            process.around("send", sent).await
        };
        while send().await.is_err() {
            process.env().sleep(AGAIN_MS).await;
        }
    }
}

/// Makes a call until it is answered.
pub(super) async fn insist<T, R, E>(env: &TestEnv, call: impl AsyncFn() -> Result<Result<T, R>, E>) -> Result<T, R> {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(_) => env.sleep(AGAIN_MS).await,
        }
    }
}

/// These messages, each with one of the items that were added for them.
fn bodies_of(id: &TrackerId, addition: &Addition, bodies: &[String]) -> Vec<String> {
    let items = (addition.start..).filter_map(Place::of).map(|at| ItemId { tracker: id.clone(), at });
    bodies.iter().zip(items).map(|(body, item)| with_item(body, &item)).collect()
}

/// A message that is for an item.
fn with_item(body: &str, item: &ItemId) -> String {
    format!(r#"{},"item":"{item}"}}"#, body.strip_suffix('}').unwrap_or(body))
}

fn ranges_of(id: &TrackerId, addition: &Addition, outcome: tracker::Outcome) -> Vec<(ItemRange, tracker::Outcome)> {
    let range = |group: tracker::Group| ItemRange {
        tracker: id.clone(),
        group: group.group,
        first: group.first,
        last: group.first + group.size - 1,
    };
    addition.groups().map(|group| (range(group), outcome)).collect()
}
