//! Streams: every interleaving of sources, of those who settle events, and of sweep, for a few events.
//!
//! As for lanes, what runs are the real calls of `Streaming`, as histories over a recorder ([`crate::harness`]); one
//! action is one I/O of one process. A source feeds call by call and ends the stream. Another may feed beside it: the
//! same, or something else. The process that settles events begins at any time after they were sent, and may settle
//! what another settles, too. Sweep comes once in between, if the setting says so, and as often as it takes at the end.
//! A process may die after any write, and begins anew.
//!
//! | rule removed | what a run then does |
//! |---|---|
//! | `FedAsRead`, `TracesCompared` | a number is two events' |
//! | `CommitAsRead` | a watermark falls |
//! | `OpenIsFed` | a stream is completed too early |
//! | `PageStays` | a watermark's offset is lost |
//! | `WordsAsRead`, `BitAboveFirst` | a settled event is so no more |
//! | `NothingFedSince`, `TracesWithNumbers`, `AsksAbove` | an event is lost |
//!
//! A group has 7,168 events, so most of them are settled from the beginning where a group's end takes part
//! ([`setting`]). Not covered: a full node above the groups, a full window, sources that give up, lives, streams that
//! are forgotten, tasks that tell a repeat when its page is gone, and ports that answer with an error.

mod ports;
mod promises;
pub mod setting;
mod world;

use groupage_core::domain::stream::Ending;
use groupage_core::steps::stream::{Event, Refused, Streaming};

use self::ports::Sent;
use self::setting::{
    ACKED_TWICE, ALONE, ANEW, BORDER, BORDER_TWICE, Does, FED_TWICE, IDLE, LATE, ONE_BY_ONE, Promise, REJECTS, RIVALS,
    Rule, STANDS, Setting, TWO, event, id, life,
};
use self::world::World;
use crate::prelude::*;

/// What this many sweeps that live do not mend never will be.
const MOST_SWEEPS: u8 = 3;
/// Longer than any run, in milliseconds: no stream is forgotten.
const RETENTION_MS: u64 = u64::MAX / 2;

impl Subject for Setting {
    type Rule = Rule;
    type Promise = Promise;
    type World = World;
    type Shown = ();
    type Event = ();
    type Sent = Sent;

    const LOST: Promise = Promise::NobodyLost;
    const QUICK: &'static [Run<Self>] = &[
        ALONE.dying(2).swept(),
        FED_TWICE.dying(1),
        REJECTS.dying(1),
        STANDS.dying(1).telling(),
        BORDER.dying(1).telling(),
        BORDER_TWICE.dying(1),
        ANEW.dying(1),
        IDLE.dying(1).swept(),
        LATE,
        RIVALS.dying(1),
        ACKED_TWICE,
        TWO,
    ];
    const LONG: &'static [Run<Self>] =
        &[STANDS.swept(), LATE.swept(), ONE_BY_ONE, ACKED_TWICE.dying(1), STANDS.dying(1).swept().telling()];

    fn name(&self) -> String {
        format!("{}, told {}", self.name, self.told)
    }

    fn places(&self) -> usize {
        self.who.len()
    }

    fn most_sweeps(run: &Run<Self>) -> Option<u8> {
        Some(MOST_SWEEPS + u8::from(run.sweeps) + run.left.deaths)
    }

    fn world(&self) -> World {
        World::of(self)
    }

    fn may_begin(&self, place: usize, world: &World, _: &Mishaps) -> bool {
        match self.who.get(place) {
            Some(Does::Feeds { .. }) => true,
            Some(Does::Acks(from, to, _)) => (*from..*to).all(|number| world.is_sent(number, self)),
            None => false,
        }
    }

    fn begin(&self, place: usize, world: &mut World, _: &mut Mishaps) {
        if matches!(self.who.get(place), Some(Does::Acks(..))) {
            world.acking.insert(place);
        }
    }

    /// Two that write the same do so at different times.
    fn now(&self, role: Role) -> u64 {
        match role {
            Role::One(place) => place as u64,
            Role::Sweep(number) => Self::SWEEP_MS * (u64::from(number) + 1),
        }
    }

    async fn call(&self, role: Role, ports: &Ports<Self>) {
        let streaming = Streaming { store: ports, outbox: ports, env: ports };
        let name = life().id;
        let Role::One(n) = role else { return drop(streaming.look_after(&name, RETENTION_MS).await) };
        match self.who.get(n) {
            Some(Does::Feeds { calls, content, ends }) => {
                let mut is_fed = true;
                for call in *calls {
                    is_fed = is_fed && feed(streaming, *call, *content).await;
                }
                if is_fed && *ends {
                    let _ = streaming.end(&name, Ending::Ended).await;
                }
            }
            Some(Does::Acks(from, to, outcome)) => {
                streaming.settle((*from..*to).map(|number| (id(number), *outcome)).collect()).await;
            }
            None => {}
        }
    }

    fn parse(message: &Outgoing) -> Option<Sent> {
        let body: Option<serde_json::Value> = serde_json::from_str(&message.body).ok();
        match message.to {
            Destination::Tasks => {
                let body = body?;
                let id = EventId::parse(body.get("event")?.as_str()?).ok()?;
                Some(Sent::Event(id.number, u8::try_from(body.get("payload")?.get("c")?.as_u64()?).ok()?))
            }
            Destination::Rejected => {
                let (_, id) = message.attributes.iter().find(|(name, _)| *name == "MessageId")?;
                Some(Sent::Rejected(EventId::parse(id).ok()?.number))
            }
            Destination::Notification(_) => Some(Sent::Told(body?.get("data")?.get("watermark")?.as_u64()?)),
            Destination::InOrder(_)
            | Destination::Gather(_)
            | Destination::Elect
            | Destination::Group
            | Destination::Handle
            | Destination::LongHandle => None,
        }
    }

    fn send(act: &mut Act<'_, Self>, sent: &Sent) {
        match sent {
            Sent::Event(number, content) => {
                if act.given.get(number).is_some_and(|given| given != content) {
                    act.breaks(Promise::OneEvent);
                }
                act.sent.insert(*number);
            }
            Sent::Rejected(number) => drop(act.rejected.insert(*number)),
            Sent::Told(watermark) => act.told = act.told.max(*watermark),
        }
    }

    fn judge_write(act: &mut Act<'_, Self>) {
        act.judge();
    }

    fn is_whole(&self, world: &World) -> bool {
        world.is_whole(self)
    }
}

/// Feeds as a source does; says whether all is fed.
async fn feed(
    streaming: Streaming<'_, Ports<Setting>, Ports<Setting>, Ports<Setting>>,
    (mut from, to): (u64, u64),
    content: u8,
) -> bool {
    while from < to {
        let events: Vec<Event> = (from..to).map(|number| event(number, content)).collect();
        match streaming.feed(None, &life().id, from, &events).await {
            Ok(Err(Refused::Behind { watermark, .. })) => from = watermark,
            // It has ended the stream itself, and died before it saw that.
            Ok(Ok(_) | Err(Refused::Over(_))) => return true,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    true
}
