//! Lanes: every interleaving of those who bring tasks, of the pipeline, of those who hand turns over and of people who
//! let a lane go on, for a few tasks of one lane.
//!
//! As for lists, what runs are the real calls of `Ordering`, as histories over a recorder ([`crate::harness`]). The
//! pipeline is one action: a task that waits for a batch is settled, well or badly, at any time; whether its message
//! was sent makes no difference, since a leader may find it in the index. Then its follow-up hands its turn over. A
//! process may die after any write; it begins anew, as its message comes again or the person tries again. A follow-up
//! may come once more, at once or at any later time.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `LinedUpAsRead`, `FreeTurn` | two tasks have one turn |
//! | `LetInOnce` | a task has its turn twice |
//! | `OwnTurn`, `PassedOverFirst` | a task is let in before one ahead of it is settled |
//! | `StoppedForAll` | a task is let in behind a failure |
//! | `LaneAsRead`, `NewTask`, `SentBeforeLeft`, `LeavesItsOwn` | a task is lost |
//!
//! That only queued tasks are passed over shows nothing here: the task that has the turn is forgotten before the head
//! moves past it.
//!
//! Not covered: more than one lane, the record's way into `line_up`, tasks that return to waiting, trackers, lanes that
//! are forgotten, pages, and ports that answer with an error.

mod ports;
pub mod setting;
mod world;

use groupage_core::domain::lane::OnFailure::{FailRest, Hold, Skip};
use groupage_core::domain::task::Status;
use groupage_core::routes::Notify;
use groupage_core::steps::lane::{Arrival, Lined, Ordering, Over};

use self::ports::Sent;
use self::setting::{
    Does, FollowUp, Promise, RESUMED, Rule, Setting, TWICE, TWO, TWO_PEOPLE, USED, WRONG_WAY, lane, number, task,
};
use self::world::World;
use crate::prelude::*;

/// Those of the setting come first, then the follow-ups; no sweep. The pipeline is what happens by itself.
impl Subject for Setting {
    type Rule = Rule;
    type Promise = Promise;
    type World = World;
    type Shown = ();
    /// This task, which waits for a batch, is settled, and fails or does not.
    type Event = (u8, bool);
    type Sent = Sent;

    const LOST: Promise = Promise::NobodyLost;
    const QUICK: &'static [Run<Self>] = &[
        TWO_PEOPLE.on(Hold).dying(1),
        TWO_PEOPLE.on(FailRest).dying(1),
        WRONG_WAY.on(Skip).dying(1),
        RESUMED.on(FailRest).copied(1),
        USED.on(Hold).dying(1),
    ];
    const LONG: &'static [Run<Self>] = &[
        TWO.on(Skip).dying(1).copied(1),
        TWICE.on(Skip).dying(1),
        RESUMED.on(Hold).dying(1),
        USED.on(FailRest).copied(1),
        TWO_PEOPLE.on(Hold).dying(1).copied(1),
        TWO_PEOPLE.on(FailRest).dying(1).copied(1),
        USED.on(FailRest).dying(1),
        RESUMED.on(FailRest).dying(1),
    ];
    const COMES_BACK_AT_ONCE: bool = true;

    fn name(&self) -> String {
        format!("{}, {:?}", self.name, self.on_failure)
    }

    fn places(&self) -> usize {
        self.who.len() + self.follow_ups()
    }

    fn most_sweeps(_: &Run<Self>) -> Option<u8> {
        None
    }

    fn world(&self) -> World {
        World::default()
    }

    fn may_begin(&self, place: usize, world: &World, left: &Mishaps) -> bool {
        match (self.who.get(place), self.follow_up(place)) {
            (Some(Does::Brings(_)), _) => true,
            (Some(Does::LetsGoOn), _) => world.is_stopped(),
            (None, Some(FollowUp { task, failed, again })) => {
                world.failed_in_a_call(task) == Some(failed) && (!again || left.copies > 0)
            }
            (None, None) => false,
        }
    }

    fn may_stay_away(&self, place: usize) -> bool {
        self.is_person(place) || self.follow_up(place).is_some_and(|follow_up| follow_up.again)
    }

    fn begin(&self, place: usize, _: &mut World, left: &mut Mishaps) {
        left.copies -= u8::from(self.follow_up(place).is_some_and(|follow_up| follow_up.again));
    }

    /// Two that do the same write the same only if they do it at one time.
    fn now(&self, role: Role) -> u64 {
        match role {
            Role::One(place) => self.follow_up(place).is_some_and(|follow_up| follow_up.again).into(),
            Role::Sweep(_) => 0,
        }
    }

    async fn call(&self, role: Role, ports: &Ports<Self>) {
        let Role::One(place) = role else { return };
        let ordering = Ordering { store: ports, outbox: ports, env: ports };
        let notify = Notify::default();
        match self.who.get(place) {
            Some(Does::Brings(tasks)) => {
                let arrivals: Vec<Arrival> = tasks.iter().map(|brought| self.arrival(*brought)).collect();
                let lined = ordering.line_up(&lane(), self.numbering(), &arrivals, &notify).await;
                elect(ports, &arrivals, lined).await;
            }
            Some(Does::LetsGoOn) => drop(ordering.resume(&lane(), &notify).await),
            None => {
                let Some(FollowUp { task: n, failed, .. }) = self.follow_up(place) else { return };
                let outcome = if failed { Outcome::Failed } else { Outcome::Succeeded };
                let settled = [Over { task: task(n), round: Round(0), lane: lane(), outcome }];
                let _ = ordering.hand_over(&settled, self.on_failure, &notify).await;
            }
        }
    }

    fn parse(message: &Outgoing) -> Option<Sent> {
        let ids = |election: Election| election.tasks.into_iter().map(|task| task.id);
        match message.to {
            Destination::Elect => match serde_json::from_str(&message.body).ok()? {
                Elect::Waiting(election) => Some(Sent::Elect(ids(election).collect())),
                Elect::Several(elections) => Some(Sent::Elect(elections.into_iter().flat_map(ids).collect())),
                Elect::Returning(_) | Elect::Due(_) => None,
            },
            Destination::Notification(_) => {
                let event: serde_json::Value = serde_json::from_str(&message.body).ok()?;
                Some(Sent::Tell(TaskId::new(event.get("data")?.get("task")?.as_str()?)))
            }
            Destination::Tasks
            | Destination::InOrder(_)
            | Destination::Gather(_)
            | Destination::Group
            | Destination::Handle
            | Destination::LongHandle
            | Destination::Rejected => None,
        }
    }

    fn send(act: &mut Act<'_, Self>, sent: &Sent) {
        match sent {
            Sent::Elect(ids) => act.elected.extend(ids.iter().map(number)),
            Sent::Tell(id) => drop(act.told.insert(number(id))),
        }
    }

    fn events(&self, world: &World, _: &Mishaps) -> Vec<(u8, bool)> {
        world.waiting().flat_map(|task| [(task, false), (task, true)]).collect()
    }

    fn happen(act: &mut Act<'_, Self>, (task, failed): (u8, bool)) {
        act.settle(task, failed);
    }

    fn is_whole(&self, world: &World) -> bool {
        world.is_whole(self)
    }
}

/// As register-task does: a task that waits for a batch, since now or before, needs a leader.
async fn elect<E>(ports: &Ports<Setting>, arrivals: &[Arrival], lined: Vec<Result<Lined, E>>) {
    let waits = |lined: &Result<Lined, E>| match lined {
        Ok(Lined::First) => true,
        Ok(Lined::Existing(task)) => matches!(task.status, Status::Created { .. }),
        Ok(Lined::Behind | Lined::Used | Lined::TooFarAhead | Lined::OtherNumbering) | Err(_) => false,
    };
    let waiting = arrivals.iter().zip(&lined).filter(|(_, lined)| waits(lined));
    let tasks: Vec<_> = waiting.map(|(arrival, _)| arrival.task.id.clone()).collect();
    if !tasks.is_empty() {
        ports.post(Sent::Elect(tasks)).await;
    }
}
