//! Processes: real calls of `Listing`, run up to their next I/O; see [`crate::histories`].

use std::future::Future;
use std::pin::Pin;

use groupage_core::domain::id::ListId;
use groupage_core::steps::list::Listing;

use super::io::{Answer, Op};
use super::ports::Ports;
use super::setting::{Does, NAME, Setting};
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

/// Between sweeps, in milliseconds: more than any reservation is left alone, less than after what a task counts as lost.
const SWEEP_MS: u64 = 70_000;
/// An idle list is removed long after.
const IDLE_MS: u64 = 86_400_000;

impl histories::Calls for Calls {
    type Role = Role;
    type Op = Op;
    type Answer = Answer;

    fn now(role: Role) -> u64 {
        match role {
            Role::One(_) => 0,
            Role::Sweep(number) => SWEEP_MS * (u64::from(number) + 1),
        }
    }

    fn call<'a>(&'a self, role: Role, ports: &'a Ports) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let listing = Listing { store: ports, outbox: ports, env: ports };
        let id = ListId::new(NAME);
        let Role::One(n) = role else {
            return Box::pin(async move {
                let _ = listing.look_after(&id, IDLE_MS).await;
            });
        };
        let does = self.0.who.get(n).copied();
        Box::pin(async move {
            let key = format!("k{n}");
            match does {
                Some(Does::Puts(count)) => {
                    let message = |at| format!("{{\"id\":\"t{n}-{at}\",\"payload\":{{}}}}");
                    let _ = listing.put(&id, &key, &Vec::from_iter((0..count).map(message))).await;
                }
                Some(Does::Releases(count)) => drop(listing.release(&id, &key, count).await),
                Some(Does::Discards) => drop(listing.discard(&id, &key).await),
                Some(Does::Closes) => drop(listing.close(&id).await),
                None => {}
            }
        })
    }
}
