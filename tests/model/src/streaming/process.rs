//! Processes: real calls of `Streaming`, run up to their next I/O; see [`crate::histories`].

use std::future::Future;
use std::pin::Pin;

use groupage_core::domain::stream::Ending;
use groupage_core::steps::stream::{Event, Refused, Streaming};

use super::io::{Answer, Op};
use super::ports::Ports;
use super::setting::{Does, Setting, event, id, life};
use crate::histories;

/// What a process does.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Role {
    /// One of those of the setting.
    One(usize),
    /// It is the sweep of this number.
    Sweep(u8),
}

/// The calls of a setting.
#[derive(Debug)]
pub struct Calls(pub Setting);

/// A process between two I/Os.
pub type Process = histories::Process<Calls>;

/// Between sweeps, in milliseconds: more than sweep leaves any stream alone.
const SWEEP_MS: u64 = 4_000_000;
/// Longer than any run, in milliseconds: no stream is forgotten.
const RETENTION_MS: u64 = u64::MAX / 2;

impl histories::Calls for Calls {
    type Role = Role;
    type Op = Op;
    type Answer = Answer;

    /// Two that write the same do so at different times.
    fn now(role: Role) -> u64 {
        match role {
            Role::One(place) => place as u64,
            Role::Sweep(number) => SWEEP_MS * (u64::from(number) + 1),
        }
    }

    fn call<'a>(&'a self, role: Role, ports: &'a Ports) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let streaming = Streaming { store: ports, outbox: ports, env: ports };
        Box::pin(async move {
            let name = life().id;
            match role {
                Role::One(n) => match self.0.who.get(n) {
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
                },
                Role::Sweep(_) => drop(streaming.look_after(&name, RETENTION_MS).await),
            }
        })
    }
}

/// Feeds as a source does; says whether all is fed.
async fn feed(streaming: Streaming<'_, Ports, Ports, Ports>, (mut from, to): (u64, u64), content: u8) -> bool {
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
