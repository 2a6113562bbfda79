//! The tables and what was called, and what an I/O breaks.

use std::collections::BTreeMap;

use groupage_core::domain::batch::{Assumes, FollowUp, Status};
use groupage_core::domain::gate::Scope;

use super::promises::{Promise, Rule};
use super::setting::{Setting, batch_id, number};
use crate::prelude::*;
use crate::steps::io::{Op, Says, told};
use crate::steps::process::is_claim;
use crate::steps::sessions::Sessions;

/// The tables, with what nobody in the protocol sees.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    /// The time, in milliseconds.
    pub now: u64,
    pub(super) gates: BTreeMap<Scope, Kept<Gate>>,
    /// By number.
    pub(super) batches: Vec<Kept<Batch>>,
    pub(super) sessions: Sessions,
    /// Members that are settled, and why they failed.
    pub(super) settled: BTreeMap<TaskId, Option<String>>,
    /// The calls under each key.
    pub(super) calls: BTreeMap<BatchId, Vec<Began>>,
    /// Of each batch: claims that were calls, and claims whose worker was lost right before its call.
    pub(super) claims: Vec<(u8, u8)>,
    /// When each batch was first let through or got a ticket, in their order.
    pub(super) arrived: Vec<(u8, u64)>,
    /// Batches with which something went wrong: they may be overtaken. A bit for each.
    pub(super) disturbed: u8,
    /// Batches whose messages are lost. A bit for each.
    pub(super) lost: u8,
    /// When the last pause was written down.
    pub(super) paused_at: u64,
    /// Until when.
    pub(super) paused_until: u64,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
}

/// A call, when it began.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct Began {
    /// When, in milliseconds.
    pub(super) at: u64,
    /// Its worker had stood still after it looked last.
    pub(super) is_late: bool,
}

/// Who asks, and what is fixed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) of: &'a Setting,
    pub(super) removed: Option<Rule>,
    /// The batch that it handles; `None` is sweep.
    pub(super) batch: Option<u8>,
    /// It has stood still after it looked last.
    pub(super) is_late: bool,
    /// It has written a gate.
    pub(super) has_passed: bool,
    /// It has claimed its batch.
    pub(super) has_claimed: bool,
    /// It has called before.
    pub(super) has_called: bool,
    pub(super) says: Says,
}

impl Asker<'_> {
    pub(super) fn without(&self, rule: Rule) -> bool {
        self.removed == Some(rule)
    }
}

impl World {
    pub(super) fn of(setting: &Setting, now: u64) -> Self {
        let batches: Vec<_> = (0..).map_while(|n| setting.batch(n)).map(Kept::new).collect();
        Self {
            now,
            gates: BTreeMap::new(),
            claims: vec![(0, 0); batches.len()],
            batches,
            sessions: Sessions::default(),
            settled: BTreeMap::new(),
            calls: BTreeMap::new(),
            arrived: Vec::new(),
            disturbed: 0,
            lost: 0,
            paused_at: 0,
            paused_until: 0,
            broken: None,
        }
    }

    pub(super) fn promise(&mut self, kept: bool, promise: Promise) {
        if !kept {
            self.broken = self.broken.or(Some(promise));
        }
    }

    /// Does one I/O.
    pub(super) fn apply(&mut self, op: &Op, asker: Asker<'_>) -> Answer {
        match op {
            Op::Gate(scope) => Answer::of(self.shown_gate(scope, asker)),
            Op::StoreGate(scope, gate) => told(self.store_gate(scope, gate, asker)),
            Op::TakeTicket(scope, flow, behind) => Answer::of(self.take_ticket(scope, (*flow, *behind), asker)),
            Op::GiveBack(scope, batch, lease, ended) => told(self.give_back(scope, (batch, *lease, *ended), asker)),
            Op::Batch(id) => {
                let is_shown = !asker.without(Rule::OthersPlaceStays) || !asker.has_passed || asker.has_claimed;
                Answer::of(self.batches.get(usize::from(number(id))).filter(|_| is_shown).cloned())
            }
            Op::Store(batch, assumes) => told(self.store(batch, *assumes, asker)),
            Op::Unfinished(before) => told(self.unfinished(*before)),
            Op::OpenSession(session) => {
                if asker.without(Rule::OnlyCallsCount) {
                    self.count_early(asker);
                }
                told(self.sessions.open(session))
            }
            Op::Renew(session) => told(self.sessions.renew(session)),
            Op::EndSession(id, beat) => told(self.sessions.end(id, *beat)),
            Op::Session(id) => Answer::of(self.sessions.get(id).cloned()),
            Op::Sessions(pool) => {
                let found = self.sessions.values().filter(|session| session.id.pool() == *pool);
                told(found.map(|session| (**session).clone()).collect::<Vec<Session>>())
            }
            Op::Read(ids, _) => {
                Answer::of(ids.iter().filter_map(|id| asker.of.task(id)).map(Kept::new).collect::<Vec<Kept<Task>>>())
            }
            Op::Settle(member, _, settlement) => {
                let failed = match settlement {
                    Settlement::Succeeded => None,
                    Settlement::Failed(failure) => Some(failure.reason.to_string()),
                    Settlement::Ended { ended, .. } => Some(ended.reason().to_string()),
                };
                self.settled.insert(member.id.clone(), failed);
                Answer::of(())
            }
            Op::Call(key, items) => {
                self.call(key, items, asker);
                told(asker.says)
            }
            Op::Send(_) | Op::Sleep(_) | Op::Pause => Answer::of(()),
            // Nobody registers, waits for a batch or leads.
            Op::Register(_)
            | Op::Waiting(_)
            | Op::Join(..)
            | Op::PutBack(..)
            | Op::Lock(_)
            | Op::Acquire(..)
            | Op::Signal(..)
            | Op::Advance(..)
            | Op::Release(..) => Answer::of(()),
        }
    }

    fn gate(&self, scope: &Scope) -> Gate {
        self.gates.get(scope).map(|gate| (**gate).clone()).unwrap_or_default()
    }

    fn shown_gate(&self, scope: &Scope, asker: Asker<'_>) -> Kept<Gate> {
        let mut gate = self.gate(scope);
        if asker.without(Rule::LeaseEnds) {
            gate.permits.leases.values_mut().for_each(|lease| *lease = Timestamp(u64::MAX));
        }
        if asker.without(Rule::CountsAllRoutes) && matches!(scope, Scope::Limit(_)) {
            let target = |n: u8| asker.of.batches.get(usize::from(n)).map_or(0, |arrival| arrival.target);
            let own = asker.batch.map(target);
            gate.permits.leases.retain(|batch, _| own.is_none_or(|own| target(number(batch)) % 2 == own % 2));
        }
        let has_session =
            asker.batch.is_some_and(|n| self.sessions.values().any(|session| session.claims.contains(&batch_id(n))));
        if asker.without(Rule::LooksAgain) && has_session {
            gate.paused_until = Timestamp(0);
        }
        Kept::new(gate)
    }

    fn store_gate(&mut self, scope: &Scope, gate: &Kept<Gate>, asker: Asker<'_>) -> Stored {
        let old = self.gate(scope);
        if old == **gate {
            return Stored::Yes;
        }
        if old.revision.next() != gate.revision && !asker.without(Rule::GateAsRead) {
            return Stored::Conflict;
        }
        let mut next = (**gate).clone();
        if next.paused_until > old.paused_until {
            self.paused_at = self.now;
            self.paused_until = next.paused_until.0;
            // Those whose turn it was may overtake each other.
            let waiting = self.arrived.iter().filter(|(n, _)| !self.is_called(*n));
            self.disturbed = waiting.fold(self.disturbed, |all, (n, _)| all | 1 << n);
            if asker.without(Rule::PauseForAll) {
                next.paused_until = old.paused_until;
            }
        }
        if asker.without(Rule::TurnKept) {
            next.queue.served = u64::MAX;
        }
        if asker.without(Rule::StartReserved) {
            next.rate.tats_us.clear();
        }
        if asker.without(Rule::RenewedIsLater) {
            let kept = |(batch, lease): (&BatchId, &Timestamp)| {
                let was = old.permits.leases.get(batch).filter(|was| was.plus_ms(1) == *lease)?;
                Some((batch.clone(), *was))
            };
            let kept: Vec<_> = next.permits.leases.iter().filter_map(kept).collect();
            next.permits.leases.extend(kept);
        }
        if asker.without(Rule::PlaceGivenBack)
            || asker.without(Rule::LeftAfterWait) && !asker.has_passed && asker.batch.is_some_and(|n| self.is_over(n))
        {
            next.permits.leases.extend(old.permits.leases.into_iter().filter(|(_, lease)| lease.0 > self.now));
        }
        self.gates.insert(scope.clone(), Kept::new(next));
        self.arrives(scope, asker);
        Stored::Yes
    }

    fn take_ticket(&mut self, scope: &Scope, (flow, behind): (u64, u64), asker: Asker<'_>) -> Option<Kept<Gate>> {
        let taken = Kept::new(self.gate(scope).with_ticket(flow, behind)?);
        self.gates.insert(scope.clone(), taken.clone());
        self.arrives(scope, asker);
        Some(taken)
    }

    fn give_back(
        &mut self,
        scope: &Scope,
        (batch, lease, ended): (&BatchId, Timestamp, Option<Timestamp>),
        asker: Asker<'_>,
    ) -> Stored {
        let is_ignored = asker.without(Rule::PlaceGivenBack)
            || asker.without(Rule::LoserLeaves) && !asker.has_claimed
            || asker.without(Rule::LeftOnceSettled) && lease == Timestamp(u64::MAX);
        let left = self.gate(scope).given_back(batch, lease, ended).filter(|_| !is_ignored);
        let is_written = left.is_some();
        self.gates.extend(left.map(|left| (scope.clone(), Kept::new(left))));
        Stored::when(is_written)
    }

    /// A batch has got its turn at the last gate.
    fn arrives(&mut self, scope: &Scope, asker: Asker<'_>) {
        if let Some(n) = asker.batch
            && matches!((scope, asker.of.shares), (Scope::Route(_), false) | (Scope::Limit(_), true))
            && !self.arrived.iter().any(|(arrived, _)| *arrived == n)
        {
            self.arrived.push((n, self.now));
        }
    }

    fn store(&mut self, batch: &Kept<Batch>, assumes: Assumes, asker: Asker<'_>) -> Stored {
        let Some(old) = self.batches.get(usize::from(number(&batch.id))).cloned() else { return Stored::Conflict };
        let holds = matches!(assumes, Assumes::At(revision) if revision == old.revision);
        if !holds {
            return Stored::when(old == *batch);
        }
        let mut next = (**batch).clone();
        if asker.without(Rule::ClaimCounts) && is_claim(batch) {
            next.attempts = old.attempts;
        }
        if asker.without(Rule::PartsNoted) {
            next.apart = None;
        }
        if asker.without(Rule::NudgeKeepsCount) && asker.batch.is_none() {
            next.attempts = 0;
        }
        self.batches[usize::from(number(&batch.id))] = Kept::new(next);
        Stored::Yes
    }

    fn unfinished(&self, before: Timestamp) -> Vec<BatchId> {
        let is_due = |batch: &&Kept<Batch>| batch.unfinished().is_some_and(|due| due < before);
        self.batches.iter().filter(is_due).map(|batch| batch.id.clone()).collect()
    }

    /// As if a batch were claimed before all that can fail is done.
    fn count_early(&mut self, asker: Asker<'_>) {
        if let Some(batch) = asker.batch.and_then(|n| self.batches.get_mut(usize::from(n))) {
            *batch = Kept::new(Batch { attempts: batch.attempts + 1, ..(**batch).clone() });
        }
    }

    /// Whether a batch has ended and all that follows is done.
    pub(super) fn is_over(&self, n: u8) -> bool {
        self.batches
            .get(usize::from(n))
            .is_some_and(|batch| matches!(batch.status, Status::Settled { follow_up: FollowUp::Done, .. }))
    }

    /// Whether all batches have ended but those whose messages are lost.
    pub(super) fn are_over(&self) -> bool {
        (0..).zip(&self.batches).all(|(n, _)| self.is_over(n) || self.lost & (1 << n) != 0)
    }

    /// Whether a gate still counts a call.
    pub(super) fn holds_places(&self) -> bool {
        self.gates.values().flat_map(|gate| gate.permits.leases.values()).any(|lease| lease.0 > self.now)
    }

    /// Whether a batch's attempts are the claims that came to a call or to their worker's end.
    pub(super) fn counts_calls(&self, n: u8) -> bool {
        let (calls, lost) = self.claims[usize::from(n)];
        self.batches.get(usize::from(n)).is_some_and(|batch| batch.attempts == u32::from(calls + lost))
    }

    pub(super) fn names(&self) -> Names {
        let batches = self.batches.iter().map(Kept::names);
        batches.chain(self.sessions.values().map(Kept::names)).fold(0, |all, names| all | names)
    }
}
