//! Processes: real calls of `Ordering`, run up to their next I/O; see [`crate::histories`].

use std::future::Future;
use std::pin::Pin;

use groupage_core::domain::task::Status;
use groupage_core::domain::tracker::Outcome;
use groupage_core::routes::Notify;
use groupage_core::steps::lane::{Arrival, Lined, Ordering};

use super::io::{Answer, Op};
use super::ports::Ports;
use super::setting::{Does, Setting, lane, task};
use crate::histories;

/// What a process does.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Role {
    /// One of those of the setting.
    One(usize),
    /// It hands a settled task's turn over.
    FollowsUp {
        /// The task.
        task: u8,
        /// Whether it failed.
        failed: bool,
        /// Whether this is the follow-up's second coming.
        again: bool,
    },
}

/// The calls of a setting.
#[derive(Debug)]
pub struct Calls(pub Setting);

/// A process between two I/Os.
pub type Process = histories::Process<Calls>;

impl histories::Calls for Calls {
    type Role = Role;
    type Op = Op;
    type Answer = Answer;

    /// Two that do the same write the same only if they do it at one time.
    fn now(role: Role) -> u64 {
        match role {
            Role::One(_) | Role::FollowsUp { again: false, .. } => 0,
            Role::FollowsUp { again: true, .. } => 1,
        }
    }

    fn call<'a>(&'a self, role: Role, ports: &'a Ports) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        let ordering = Ordering { store: ports, outbox: ports, env: ports };
        Box::pin(async move {
            let notify = Notify::default();
            match role {
                Role::One(n) => match self.0.who.get(n) {
                    Some(Does::Brings(tasks)) => {
                        let arrivals: Vec<Arrival> = tasks.iter().map(|brought| self.0.arrival(*brought)).collect();
                        let lined = ordering.line_up(&lane(), self.0.numbering(), &arrivals, &notify).await;
                        elect(ports, &arrivals, lined).await;
                    }
                    Some(Does::LetsGoOn) => drop(ordering.resume(&lane(), &notify).await),
                    None => {}
                },
                Role::FollowsUp { task: n, failed, .. } => {
                    let outcome = if failed { Outcome::Failed } else { Outcome::Succeeded };
                    let settled = [(task(n), lane(), outcome)];
                    let _ = ordering.hand_over(&settled, self.0.on_failure, &notify).await;
                }
            }
        })
    }
}

/// As register-task does: a task that waits for a batch, since now or before, needs a leader.
async fn elect<E>(ports: &Ports, arrivals: &[Arrival], lined: Vec<Result<Lined, E>>) {
    let waits = |lined: &Result<Lined, E>| match lined {
        Ok(Lined::First) => true,
        Ok(Lined::Existing(task)) => matches!(task.status, Status::Created { .. }),
        Ok(Lined::Behind | Lined::Used | Lined::TooFarAhead | Lined::OtherNumbering) | Err(_) => false,
    };
    let waiting = arrivals.iter().zip(&lined).filter(|(_, lined)| waits(lined));
    let tasks: Vec<_> = waiting.map(|(arrival, _)| arrival.task.id.clone()).collect();
    if !tasks.is_empty() {
        ports.ask(Op::Elect(tasks)).await;
    }
}
