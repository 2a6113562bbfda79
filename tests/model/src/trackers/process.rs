//! Processes: real calls of `Tracking`, run up to their next I/O; see [`crate::histories`].

use std::future::Future;
use std::pin::Pin;

use groupage_core::domain::id::TrackerId;
use groupage_core::domain::tracker::{ItemId, Place};
use groupage_core::steps::track::{Lifetimes, Tracking};

use super::io::{Answer, Op};
use super::ports::Ports;
use super::setting::{NAME, Setting};
use crate::histories;

/// What a process does.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Role {
    /// It adds items and seals.
    Owner,
    /// It acks.
    Acker(usize),
    /// It is the sweep of this number.
    Sweep(u8),
}

/// The calls of a setting.
#[derive(Debug)]
pub struct Calls(pub Setting);

/// A process between two I/Os.
pub type Process = histories::Process<Calls>;

/// Between sweeps, in milliseconds: more than sweep leaves any tracker alone.
const SWEEP_MS: u64 = 4_000_000;

impl histories::Calls for Calls {
    type Role = Role;
    type Op = Op;
    type Answer = Answer;

    fn now(role: Role) -> u64 {
        match role {
            Role::Owner | Role::Acker(_) => 0,
            Role::Sweep(number) => SWEEP_MS * (u64::from(number) + 1),
        }
    }

    fn call<'a>(&'a self, role: Role, ports: &'a Ports) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let tracking = Tracking { store: ports, outbox: ports, env: ports };
        let (id, setting) = (TrackerId::new(NAME), &self.0);
        match role {
            Role::Owner => Box::pin(async move {
                for (n, count) in setting.adds.iter().enumerate() {
                    let _ = tracking.add(&id, &format!("k{n}"), *count).await;
                }
                let _ = tracking.seal(&id).await;
            }),
            // Items of tasks and items that somebody acks by a call go different ways at first.
            Role::Acker(n) => Box::pin(async move {
                let Some((range, outcome)) = setting.range(n) else { return };
                if n == 0 {
                    let at = Place { group: range.group, index: range.first };
                    let _ = tracking.settle(vec![(ItemId { tracker: id, at }, outcome)]).await;
                } else {
                    let _ = tracking.ack(&id, &[(range, outcome)]).await;
                }
            }),
            Role::Sweep(_) => Box::pin(async move {
                let _ = tracking.look_after(&id, Lifetimes::default()).await;
            }),
        }
    }
}
