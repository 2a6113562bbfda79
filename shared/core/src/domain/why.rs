//! Why something waits, as people are told. It is decided from what was read, and nothing is decided from it.

use super::batch::{Batch, FollowUp, Status};
use super::gate::{CallState, Gate, Limits, Scope};
use super::id::SessionId;
use super::lock::Lock;
use super::outcome::Reason;
use super::time::Timestamp;

/// What a task, a Target's tasks or a batch wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its time has not come.
    NotBefore {
        /// When it comes.
        due: Timestamp,
    },
    /// A task before it in its lane is not settled.
    Turn,
    /// Its route, which the routes file does not have (any more).
    Route,
    /// No leader yet: its election is on the way, or sweep makes up for it.
    Election,
    /// Its leader is at work, and has no batch open.
    Leader {
        /// Until when others leave the leader alone.
        until: Timestamp,
    },
    /// Its leader is lost: the next election takes over, or sweep starts one.
    LostLeader {
        /// When its lease ended.
        since: Timestamp,
    },
    /// Its batch is not full, and its window is open.
    Window {
        /// When the window is over.
        until: Timestamp,
    },
    /// Its batch takes no more tasks, and its members are being fixed.
    Freezing,
    /// A message to the batch-handler is on its way.
    Handler,
    /// A worker that pulls.
    Worker,
    /// A person holds calls back.
    Held {
        /// Whose.
        of: Scope,
        /// Since when.
        since: Timestamp,
        /// What the person said.
        reason: Option<String>,
    },
    /// The downstream counts as away: one call at a time probes it.
    Away {
        /// Whose calls were not answered.
        of: Scope,
        /// Since when.
        since: Timestamp,
        /// Why the last one failed.
        reason: Reason,
        /// No probe before this time.
        next_probe: Timestamp,
    },
    /// The downstream asked for a pause.
    Pause {
        /// Whose calls are held back.
        of: Scope,
        /// When it ends.
        until: Timestamp,
    },
    /// All places in flight are taken.
    Places {
        /// Whose places.
        of: Scope,
        /// How many there are.
        most: usize,
    },
    /// The rate: its ticket's time has not come.
    Rate {
        /// At which gate.
        of: Scope,
        /// The ticket's time.
        at: Timestamp,
    },
    /// Its call failed, and is made again.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// Its call has begun a job at the downstream.
    Job {
        /// The time at which the job began.
        since: Timestamp,
        /// The time of the next look.
        next_look: Timestamp,
        /// The time of the last look.
        deadline: Timestamp,
        /// The reason why the last look came to nothing, if it did.
        failed: Option<Reason>,
    },
    /// It is being called.
    Call {
        /// By this session.
        session: SessionId,
    },
    /// The outcome is recorded; statuses and notices are being written.
    FollowUp,
    /// Members that failed alone are on their way back to waiting.
    Return,
}

/// A gate as it was seen, and what it lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whose calls it counts.
    pub of: Scope,
    /// What it lets through.
    pub limits: Limits,
    /// The gate.
    pub gate: Gate,
}

impl Seen {
    /// What holds all of its calls back, limits apart.
    pub fn closed(&self, now: Timestamp) -> Option<Why> {
        let of = self.of.clone();
        match self.gate.call_state(now) {
            CallState::Held { since, reason } => Some(Why::Held { of, since, reason }),
            CallState::Away { since, reason, next_probe } => Some(Why::Away { of, since, reason, next_probe }),
            CallState::Paused { until } => Some(Why::Pause { of, until }),
            // Calls are made.
            CallState::Well | CallState::InTrouble { .. } | CallState::Draining { .. } => None,
        }
    }

    /// What the gate lets a batch wait for, if it does.
    pub fn holds(&self, batch: Option<&Batch>, now: Timestamp) -> Option<Why> {
        let Self { of, limits, gate } = self;
        if let Some(closed) = self.closed(now) {
            return Some(closed);
        }
        let others = gate
            .permits
            .leases
            .iter()
            .filter(|(id, lease)| **lease > now && batch.is_none_or(|batch| batch.id != **id));
        if let Some(most) = limits.in_flight.filter(|most| others.count() >= *most) {
            return Some(Why::Places { of: of.clone(), most });
        }
        let ticket = batch.and_then(|batch| batch.ticket).filter(|ticket| ticket.of == of.of())?;
        let cost = |of| batch.map_or(1, |batch| batch.cost(of));
        let rate = Limits { in_flight: None, rates: limits.rates.costing(cost), ..*limits };
        let at = gate.time_of(ticket.number, rate, now, now)?;
        Some(Why::Rate { of: of.clone(), at })
    }
}

impl Batch {
    /// What it waits for, if these are the gates that its call passes; `None` if nothing is left to do.
    pub fn waits_for(&self, gates: &[Seen], now: Timestamp) -> Option<Why> {
        let before_its_call = || {
            let held = gates.iter().find_map(|gate| gate.holds(Some(self), now));
            held.unwrap_or(if self.pulled { Why::Worker } else { Why::Handler })
        };
        if let (Status::Paused { until }, Some(job)) = (&self.status, self.under_way()) {
            let (since, next_look, deadline, failed) = (job.since, *until, job.deadline, job.failed.clone());
            return Some(Why::Job { since, next_look, deadline, failed });
        }
        Some(match &self.status {
            Status::Open { until } => Why::Window { until: *until },
            Status::Closing => Why::Freezing,
            Status::Frozen => before_its_call(),
            Status::InProgress { claim } => Why::Call { session: claim.session.clone() },
            // What the downstream asked for says more than when the batch comes back.
            Status::Paused { until } if *until > now => {
                gates.iter().find_map(|gate| gate.closed(now)).unwrap_or(Why::Retry { at: *until })
            }
            Status::Paused { .. } => before_its_call(),
            Status::Settled { follow_up: FollowUp::Pending, .. } => Why::FollowUp,
            Status::Settled { follow_up: FollowUp::Returning, .. } => Why::Return,
            Status::Settled { follow_up: FollowUp::Done, .. } | Status::Empty | Status::Void => return None,
        })
    }
}

impl Why {
    /// What a Target's waiting tasks wait for, if this is its lock and this the batch that the lock names as open.
    #[must_use]
    pub fn of_waiting(lock: Option<&Lock>, open: Option<&Batch>, now: Timestamp) -> Self {
        let Some(holder) = lock.and_then(|lock| lock.holder.as_ref()) else { return Self::Election };
        if holder.lease_until <= now {
            return Self::LostLeader { since: holder.lease_until };
        }
        match open.map(|batch| &batch.status) {
            Some(Status::Open { until }) => Self::Window { until: *until },
            Some(Status::Closing) => Self::Freezing,
            // What is frozen takes no more: they wait for the leader's next batch.
            Some(
                Status::Frozen
                | Status::InProgress { .. }
                | Status::Paused { .. }
                | Status::Settled { .. }
                | Status::Empty
                | Status::Void,
            )
            | None => Self::Leader { until: holder.lease_until },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::Claim;
    use crate::domain::gate::{BreakerPolicy, Flow, OPENS_AFTER, RateLimiter, Rates, Ticket, WaitQueue};
    use crate::domain::id::{BatchId, Fence, Round, RouteName, Seq, Target, TaskId, WorkflowId};
    use crate::domain::lock::Holder;
    use crate::domain::outcome::{Failure, Fault, Results};
    use crate::domain::task::Candidate;

    const NOW: Timestamp = Timestamp(1_000);

    fn open() -> Batch {
        let candidate =
            Candidate { id: TaskId::new("t"), round: Round(0), bytes: 1, traits: crate::domain::Traits::default() };
        Batch::open(BatchId::new("b"), Target::new("r:t"), Fence(1), &[candidate], Timestamp(900), 500)
    }

    fn frozen() -> Batch {
        open().frozen(open().members)
    }

    fn route() -> Scope {
        Scope::Route(RouteName::new("r"))
    }

    fn seen(of: Scope, limits: Limits, gate: Gate) -> Seen {
        Seen { of, limits, gate }
    }

    #[test]
    fn a_batch_waits_for_its_window_then_for_its_call_and_then_for_what_follows() {
        let waits = |batch: &Batch| batch.waits_for(&[], NOW);
        assert_eq!(waits(&open()), Some(Why::Window { until: Timestamp(1_400) }));
        assert_eq!(waits(&open().closing()), Some(Why::Freezing));
        assert_eq!(waits(&frozen()), Some(Why::Handler));
        assert_eq!(waits(&Batch { pulled: true, ..frozen() }), Some(Why::Worker));
        let session = SessionId::new("r/s");
        let called = frozen().claimed(Claim { session: session.clone() });
        assert_eq!(waits(&called), Some(Why::Call { session }));
        assert_eq!(waits(&called.paused(Timestamp(1_001))), Some(Why::Retry { at: Timestamp(1_001) }));
        let paused = seen(route(), Limits::default(), Gate { paused_until: Timestamp(2_000), ..Gate::default() });
        let pause = Why::Pause { of: route(), until: Timestamp(2_000) };
        assert_eq!(
            called.paused(Timestamp(1_001)).waits_for(&[paused], NOW),
            Some(pause),
            "its downstream asked for it"
        );
        assert_eq!(waits(&called.paused(NOW)), Some(Why::Handler), "its pause is over");
        let settled = called.settled(Results::new(), NOW);
        assert_eq!(waits(&settled), Some(Why::FollowUp));
        assert_eq!(waits(&settled.followed_up()), None);
        assert_eq!(waits(&open().frozen(Vec::new())), None, "it is empty");
    }

    #[test]
    fn a_gate_holds_a_batch_by_its_pause_its_permits_or_its_turn_in_this_order() {
        let limits = Limits { in_flight: Some(1), rates: Rates::every(100), share: None };
        let queue = WaitQueue { flows: [(0, Flow { first: 1, last: 30, stride: 1 })].into(), ..WaitQueue::default() };
        let mut rate = RateLimiter::default();
        rate.reserve(&limits.rates, Timestamp(1_000));
        let gate = Gate { queue, rate, ..Gate::default() };
        let other = |lease| gate.clone().with(BatchId::new("other"), lease);
        let batch = Batch { ticket: Some(Ticket { of: route().of(), number: 20, attempts: 0 }), ..frozen() };
        let why = |gate: Gate| batch.waits_for(&[seen(route(), limits, gate)], NOW);
        let paused = Gate { paused_until: Timestamp(1_001), ..other(Timestamp(1_001)) };
        assert_eq!(why(paused), Some(Why::Pause { of: route(), until: Timestamp(1_001) }));
        assert_eq!(why(other(Timestamp(1_001))), Some(Why::Places { of: route(), most: 1 }));
        assert_eq!(why(other(NOW)), Some(Why::Rate { of: route(), at: Timestamp(2_950) }), "that lease is over");
        let own = Gate::default().with(batch.id.clone(), Timestamp(2_000));
        assert_eq!(why(own), Some(Why::Handler), "the permit is its own, and it has no ticket of the queue");
    }

    #[test]
    fn a_gate_that_a_person_closed_or_whose_downstream_is_away_holds_whatever_else_is_true() {
        let limits = Limits { in_flight: Some(1), ..Limits::default() };
        let held = Gate::default().held(Some("deploy".to_owned()), NOW).unwrap();
        let reason = Some("deploy".to_owned());
        let why = frozen().waits_for(&[seen(route(), limits, held)], NOW);
        assert_eq!(why, Some(Why::Held { of: route(), since: NOW, reason }));
        let (key, failure) = (
            BatchId::new("k"),
            Failure { reason: Reason::new("http_503"), retry_after_ms: None, fault: Fault::Downstream },
        );
        let policy = BreakerPolicy { longest_pause_ms: 60_000, notifies: true };
        let failed = |gate: Gate| gate.failed((&key, &key), &failure, policy, NOW).0.unwrap_or(gate);
        let away = (0..OPENS_AFTER).fold(Gate::default(), |gate, _| failed(gate));
        let waits = frozen().claimed(Claim { session: SessionId::new("r/s") }).paused(Timestamp(2_000));
        let why = waits.waits_for(&[seen(Scope::Target(Target::new("r:t")), limits, away)], NOW);
        assert!(matches!(why, Some(Why::Away { of: Scope::Target(_), since: NOW, .. })), "{why:?}");
    }

    #[test]
    fn a_batch_that_is_pulled_waits_at_no_worker_while_its_route_is_paused() {
        let paused = Gate { paused_until: Timestamp(1_001), ..Gate::default() };
        let gates = [seen(Scope::Target(Target::new("r:t")), Limits::default(), paused)];
        let why = Batch { pulled: true, ..frozen() }.waits_for(&gates, NOW);
        assert_eq!(why, Some(Why::Pause { of: Scope::Target(Target::new("r:t")), until: Timestamp(1_001) }));
    }

    #[test]
    fn waiting_tasks_wait_for_a_leader_or_for_what_it_does() {
        let lock = |lease_until| {
            let holder = Holder { workflow: WorkflowId::new("w"), waits_since: NOW, lease_until };
            let open = Some(BatchId::new("b"));
            Lock { holder: Some(holder), fence: Fence(1), seq: Seq(0), signals: 0, open }
        };
        let (leads, until) = (lock(Timestamp(1_001)), Timestamp(1_001));
        assert_eq!(Why::of_waiting(None, None, NOW), Why::Election);
        let free = Lock { holder: None, ..leads.clone() };
        assert_eq!(Why::of_waiting(Some(&free), None, NOW), Why::Election);
        assert_eq!(Why::of_waiting(Some(&lock(NOW)), Some(&open()), NOW), Why::LostLeader { since: NOW });
        let window = Why::Window { until: Timestamp(1_400) };
        assert_eq!(Why::of_waiting(Some(&leads), Some(&open()), NOW), window);
        assert_eq!(Why::of_waiting(Some(&leads), Some(&open().closing()), NOW), Why::Freezing);
        for other in [None, Some(frozen())] {
            assert_eq!(Why::of_waiting(Some(&leads), other.as_ref(), NOW), Why::Leader { until });
        }
    }

    impl Gate {
        fn with(mut self, batch: BatchId, lease: Timestamp) -> Self {
            self.permits.leases.insert(batch, lease);
            self
        }
    }
}
