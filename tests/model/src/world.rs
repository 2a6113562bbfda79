//! What an I/O does to the tables, what it answers, and which promise it breaks.

use shared::domain::batch::{Assumes, Batch, FollowUp, Status};
use shared::domain::id::{BatchId, Fence, Seq, Target};
use shared::domain::lock::{self, Lock, Term};
use shared::domain::task::{self, Task};
use shared::ports::{Advanced, Ended, Freshness, Joined, PutBack, Registered, Released, Renewed, Stored};

use crate::io::{Answer, Op, Says};
use crate::kept::Kept;
use crate::promises::{Promise, broken_by_store};
use crate::rules::{Removed, Rule};
use crate::tables::{Tables, is_open, lives};

/// The tables, with what nobody in the protocol sees.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct World {
    /// The tables.
    pub tables: Tables,
    /// The open batch that the present holder of the lock found when it took over.
    pub inherited: Option<BatchId>,
    /// Whether the holder must look again before it releases.
    pub look_again: bool,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
}

/// How an I/O comes out, where that is open.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Comes {
    /// As the tables have it.
    AsIs,
    /// Showing what this task was before its latest write.
    Lagging(u8),
    /// With these words of the downstream.
    Saying(Says),
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The fence of the term it leads under, if it is a leader.
    pub fence: Option<Fence>,
    /// Whether it is about to drive a batch's candidates to their fates.
    pub drives: bool,
}

/// What is fixed for a run of the model.
#[derive(Clone, Copy, Debug)]
pub struct Laws<'a> {
    /// The only Target.
    pub target: &'a Target,
    /// What is not kept.
    pub removed: Removed,
    /// Whether reads may lag behind the writes of now.
    pub lags: bool,
}

impl World {
    /// Does one I/O.
    pub fn apply(&mut self, op: &Op, comes: Comes, asker: Asker, laws: Laws<'_>) -> Answer {
        match op {
            Op::Register(task) => self.register(task, laws),
            Op::Read(ids, freshness) => {
                let rows = ids.iter().filter_map(|id| self.tables.row(id)).cloned();
                let trims =
                    *freshness == Freshness::Latest && asker.drives && !laws.removed.keeps(Rule::FinishNeverTrim);
                let shown = rows.filter_map(|row| row.shown(self.lags(&row.now, comes)).cloned());
                Answer::Tasks(shown.filter(|task| !(trims && waits(task))).collect())
            }
            Op::Waiting => {
                if asker.fence.is_some() && asker.fence == self.tables.lock.as_ref().map(|lock| lock.fence) {
                    self.look_again = false;
                }
                let rows = self.tables.tasks.iter();
                Answer::Page(Kept::new(rows.filter_map(|row| row.indexed(self.lags(&row.now, comes))).collect()))
            }
            Op::Join(id, round, batch) => {
                let Some(row) = self.tables.row(id) else { return Answer::Joined(Kept::new(Joined::Elsewhere)) };
                let task = (*row.now).clone();
                let in_round = task.round == *round || !laws.removed.keeps(Rule::Round);
                let joined = if in_round && waits(&task) {
                    let status = task::Status::Batched { batch: batch.clone() };
                    self.tables.put_task(Task { status, ..task }, laws.lags);
                    Joined::Yes
                } else if task.round == *round && task.status == (task::Status::Batched { batch: batch.clone() }) {
                    Joined::Yes
                } else {
                    Joined::Elsewhere
                };
                Answer::Joined(Kept::new(joined))
            }
            Op::PutBack(member, batch, attempts) => {
                let Some(row) = self.tables.row(&member.id) else {
                    return Answer::PutBack(Kept::new(PutBack::MovedOn));
                };
                let task = (*row.now).clone();
                let named =
                    task.round == member.round && task.status == (task::Status::Batched { batch: batch.clone() });
                let put_back = if task.waits_in(member.round.next()) {
                    PutBack::Waits
                } else if named || !laws.removed.keeps(Rule::ReturnConditional) {
                    let status = task::Status::Created { target: laws.target.clone() };
                    let round = member.round.next();
                    self.tables.put_task(Task { status, round, attempts: *attempts, ..task }, laws.lags);
                    PutBack::Waits
                } else {
                    PutBack::MovedOn
                };
                Answer::PutBack(Kept::new(put_back))
            }
            Op::Settle(member, batch, settlement) => {
                if let Some(row) = self.tables.row(&member.id)
                    && row.now.round == member.round
                    && row.now.status == (task::Status::Batched { batch: batch.clone() })
                {
                    let batch = batch.clone();
                    let status = match settlement {
                        shared::ports::Settlement::Succeeded => task::Status::Succeeded { batch },
                        shared::ports::Settlement::Failed(reason) => {
                            task::Status::Failed { batch, reason: reason.clone() }
                        }
                    };
                    let task = Task { status, ..(*row.now).clone() };
                    self.tables.put_task(task, laws.lags);
                }
                Answer::Done
            }
            Op::Lock => Answer::Lock(self.tables.lock.clone()),
            Op::Acquire(acquisition) => self.acquire(acquisition, laws),
            Op::Signal(held) => self.signal(held, laws),
            Op::Advance(term, seq, lease_until) => {
                let Some(mut lock) = self.led_by(term, Rule::FenceAtAdvance, laws) else {
                    return Answer::Advanced(Kept::new(Advanced::Lost));
                };
                if lock.seq == *seq {
                    lock.seq = seq.next();
                    lock.open = Some(term.batch_id(lock.seq));
                    if let Some(holder) = &mut lock.holder {
                        holder.lease_until = *lease_until;
                    }
                    self.tables.put_lock(lock.clone());
                } else if lock.seq != seq.next() {
                    return Answer::Advanced(Kept::new(Advanced::Lost));
                }
                Answer::Advanced(Kept::new(Advanced::Kept(lock)))
            }
            Op::Release(term, signals, seq) => Answer::Released(Kept::new(self.release(term, *signals, *seq, laws))),
            Op::Batch(id) => Answer::Batch(self.tables.batch(id).cloned()),
            Op::Store(batch, assumes) => Answer::Stored(Kept::new(self.store(batch, *assumes, laws))),
            Op::OpenSession(session) => {
                let stored = match self.tables.session(&session.id) {
                    Some(old) if old == session => Stored::Yes,
                    Some(_) => Stored::Conflict,
                    None => {
                        self.tables.put_session(session.clone());
                        Stored::Yes
                    }
                };
                Answer::Stored(Kept::new(stored))
            }
            Op::Renew(session) => {
                let renewed = match self.tables.session(&session.id) {
                    Some(old) if old.beat.next() == session.beat => {
                        self.tables.put_session(session.clone());
                        Renewed::Kept
                    }
                    Some(old) if old == session => Renewed::Kept,
                    Some(_) | None => Renewed::Lost,
                };
                Answer::Renewed(Kept::new(renewed))
            }
            Op::EndSession(id, beat) => {
                let ended = match self.tables.session(id) {
                    Some(session) if session.beat != *beat && laws.removed.keeps(Rule::BeatUnchanged) => {
                        Ended::Lives((**session).clone())
                    }
                    found => {
                        if found.is_some_and(|session| session.beat != *beat && lives(session)) {
                            self.broken = self.broken.or(Some(Promise::RenewedLives));
                        }
                        self.tables.sessions.retain(|session| session.id != *id);
                        Ended::Yes
                    }
                };
                Answer::Ended(Kept::new(ended))
            }
            Op::Session(id) => Answer::Session(self.tables.session(id).cloned()),
            Op::Call(id, items) => {
                let as_frozen = self.tables.batch(id).is_some_and(|batch| {
                    let members = batch.members.iter().map(|member| &member.id);
                    let called = matches!(
                        batch.status,
                        Status::InProgress { .. } | Status::Paused { .. } | Status::Settled { .. }
                    );
                    called && members.eq(items)
                });
                self.promise(as_frozen, Promise::CallsAsFrozen);
                match comes {
                    Comes::Saying(says) => Answer::Reply(says),
                    Comes::AsIs | Comes::Lagging(_) => Answer::Reply(Says::Accepted),
                }
            }
            Op::Send(_) | Op::Sleep => Answer::Done,
        }
    }

    fn promise(&mut self, kept: bool, promise: Promise) {
        if !kept {
            self.broken = self.broken.or(Some(promise));
        }
    }

    fn lags(&self, task: &Task, comes: Comes) -> bool {
        match comes {
            Comes::Lagging(n) => self.tables.tasks.get(usize::from(n)).is_some_and(|row| row.now.id == task.id),
            Comes::AsIs | Comes::Saying(_) => false,
        }
    }

    fn register(&mut self, task: &Task, laws: Laws<'_>) -> Answer {
        let found = self.tables.row(&task.id).map(|row| (*row.now).clone());
        let registered = match found {
            Some(found) if laws.removed.keeps(Rule::PutIfAbsent) => Registered::Existing(found),
            Some(_) | None => {
                self.tables.put_task(task.clone(), laws.lags);
                Registered::New
            }
        };
        Answer::Registered(Kept::new(registered))
    }

    /// The lock, if it is held under this term.
    fn led_by(&self, term: &Term, rule: Rule, laws: Laws<'_>) -> Option<Lock> {
        let lock = self.tables.lock.as_deref()?;
        (lock.is_led_by(term) || !laws.removed.keeps(rule)).then(|| lock.clone())
    }

    fn acquire(&mut self, acquisition: &lock::Acquisition, laws: Laws<'_>) -> Answer {
        let old = self.tables.lock.as_deref();
        let holds = match &acquisition.assumes {
            lock::Assumes::Free => {
                old.is_none_or(|old| old.holder.is_none() && old.open.is_none() && old.fence < acquisition.next.fence)
            }
            lock::Assumes::Unchanged(seen) => {
                let unchanged = old.is_some_and(|old| Lock { signals: seen.signals, ..old.clone() } == *seen);
                unchanged || !laws.removed.keeps(Rule::AcquireUnchanged)
            }
        };
        let mut next = Lock { signals: old.map_or(0, |old| old.signals), ..acquisition.next.clone() };
        if !holds {
            return if old == Some(&next) { Answer::Done } else { Answer::Lock(self.tables.lock.clone()) };
        }
        if !laws.removed.keeps(Rule::OpenBatchNamed) {
            next.open = Some(BatchId::derive(laws.target, next.fence, Seq(0)));
        }
        self.inherited = next.open.clone();
        self.look_again = true;
        self.tables.put_lock(next);
        Answer::Done
    }

    fn signal(&mut self, held: &lock::Held, laws: Laws<'_>) -> Answer {
        let term = Term { target: laws.target.clone(), workflow: held.workflow.clone(), fence: held.fence };
        match self.tables.lock.as_deref() {
            Some(lock) if lock.is_led_by(&term) || !laws.removed.keeps(Rule::SignalConditional) => {
                let answered = lock.holder.is_some();
                let next = Lock { signals: lock.signals + 1, ..lock.clone() };
                self.promise(answered, Promise::SignalsAnswered);
                self.tables.put_lock(next);
                self.look_again = true;
                Answer::Done
            }
            Some(_) | None => Answer::Lock(self.tables.lock.clone()),
        }
    }

    fn release(&mut self, term: &Term, signals: u64, seq: Seq, laws: Laws<'_>) -> Released {
        if let Some(lock) = self.led_by(term, Rule::FenceAtRelease, laws) {
            if lock.seq != seq && laws.removed.keeps(Rule::ReleaseAtSeq) {
                return Released::Lost;
            }
            if lock.signals != signals && laws.removed.keeps(Rule::SignalAtRelease) {
                return Released::Signalled(lock.signals);
            }
            self.promise(!self.look_again, Promise::SignalsAnswered);
            self.inherited = None;
            self.look_again = false;
            self.tables.put_lock(Lock { holder: None, open: None, ..lock });
            return Released::Yes;
        }
        match self.tables.lock.as_deref() {
            Some(lock) if lock.holder.is_none() && lock.fence == term.fence => Released::Yes,
            Some(_) | None => Released::Lost,
        }
    }

    fn store(&mut self, batch: &Kept<Batch>, assumes: Assumes, laws: Laws<'_>) -> Stored {
        let old = self.tables.batch(&batch.id).cloned();
        let records = matches!(batch.status, Status::Settled { follow_up: FollowUp::Pending, .. });
        let blind = !laws.removed.keeps(Rule::Revision) || (records && !laws.removed.keeps(Rule::ClaimAtSettling));
        let holds = match assumes {
            Assumes::Absent => old.is_none(),
            Assumes::At(revision) => match &old {
                Some(old) => old.revision == revision || blind,
                None => !laws.removed.keeps(Rule::IntentFirst),
            },
        };
        if !holds {
            return if old.as_ref() == Some(batch) { Stored::Yes } else { Stored::Conflict };
        }
        if (is_open(batch) && !laws.removed.keeps(Rule::IntentFirst))
            || (batch.status == Status::Void && !laws.removed.keeps(Rule::Void))
        {
            return Stored::Yes;
        }
        let grows = is_open(batch) && old.as_ref().map_or(0, |old| old.members.len()) < batch.members.len();
        let taken_over = self.tables.lock.as_ref().is_some_and(|lock| lock.fence > batch.fence);
        self.promise(
            !grows || !taken_over || self.inherited.as_ref() == Some(&batch.id),
            Promise::NoCandidateAfterTakeover,
        );
        if let Some(promise) = broken_by_store(old.as_deref(), batch) {
            self.promise(false, promise);
        }
        self.tables.put_batch(batch.clone());
        Stored::Yes
    }
}

fn waits(task: &Task) -> bool {
    matches!(task.status, task::Status::Created { .. })
}
