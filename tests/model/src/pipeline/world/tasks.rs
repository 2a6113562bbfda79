//! The tasks: registered, shown, moved into a batch, put back, settled.

use groupage_core::domain::batch::Status::Void;
use groupage_core::domain::task::Status;
use groupage_core::ports::{Joined, Registered};

use super::{Asker, Comes, Laws, World};
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::is_express;
use crate::prelude::*;

impl World {
    pub(super) fn register(&mut self, task: &Task, laws: Laws) -> Registered {
        match self.task(&task.id) {
            Some(found) if laws.keeps(Rule::PutIfAbsent) => Registered::Existing(Box::new(found)),
            Some(_) => {
                self.tables.put_task(task.clone(), laws.lags);
                Registered::New
            }
            None => {
                self.tables.add_task(task.clone(), laws.lags);
                Registered::New
            }
        }
    }

    pub(super) fn read(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
        comes: Comes,
        asker: &Asker,
        laws: Laws,
    ) -> Vec<Kept<Task>> {
        let trims = freshness == Freshness::Latest && asker.drives && !laws.keeps(Rule::FinishNeverTrim);
        let rows = ids.iter().filter_map(|id| self.tables.row(id));
        let shown = rows.filter_map(|row| row.shown(self.lags(&row.now, comes)).cloned());
        shown.filter(|task| !(trims && waits(task))).collect()
    }

    pub(super) fn waiting(&mut self, target: &Target, comes: Comes, asker: &Asker, laws: Laws) -> Vec<Candidate> {
        if target.shard() != Shard::HOME && !laws.keeps(Rule::EveryShard) {
            return Vec::new();
        }
        if let Some(term) = &asker.term {
            let led = self.tables.led_mut(&term.target);
            if led.lock.as_ref().is_some_and(|lock| lock.fence == term.fence) {
                led.unseen &= !(1 << target.shard().0);
            }
        }
        let shown = self.tables.tasks.iter().filter_map(|row| row.indexed(self.lags(&row.now, comes)));
        shown.filter(|(shard, _)| shard == target).map(|(_, candidate)| candidate).collect()
    }

    pub(super) fn join(&mut self, id: &TaskId, round: Round, batch: &BatchId, laws: Laws) -> Joined {
        let Some(task) = self.task(id) else { return Joined::Elsewhere };
        let in_round = task.round == round || !laws.keeps(Rule::Round);
        if in_round && waits(&task) {
            let status = Status::Batched { batch: batch.clone() };
            self.tables.put_task(Task { status, ..task }, laws.lags);
            Joined::Yes
        } else if names(&task, round, batch) {
            Joined::Yes
        } else {
            Joined::Elsewhere
        }
    }

    pub(super) fn put_back(
        &mut self,
        member: &Candidate,
        batch: &BatchId,
        target: &Target,
        attempts: u32,
        laws: Laws,
    ) -> PutBack {
        let Some(task) = self.task(&member.id) else { return PutBack::MovedOn };
        let round = member.round.next();
        let is_left = is_express(batch) && self.tables.batch(batch).is_some_and(|batch| batch.status == Void);
        if task.waits_in(round) {
            PutBack::Waits
        } else if is_left && !laws.keeps(Rule::VoidedReturn) {
            PutBack::MovedOn
        } else if names(&task, member.round, batch) || !laws.keeps(Rule::ReturnConditional) {
            let status = Status::Created { target: target.clone() };
            self.tables.put_task(Task { status, round, attempts, ..task }, laws.lags);
            PutBack::Waits
        } else {
            PutBack::MovedOn
        }
    }

    pub(super) fn settle(&mut self, member: &Member, batch: &BatchId, settlement: &Settlement, laws: Laws) {
        let Some(task) = self.task(&member.id).filter(|task| names(task, member.round, batch)) else { return };
        let batch = batch.clone();
        let status = match settlement {
            Settlement::Succeeded => Status::Succeeded { batch },
            Settlement::Failed(failure) => Status::Failed { batch: Some(batch), reason: failure.reason.clone() },
            Settlement::Ended { ended, .. } => Status::Failed { batch: Some(batch), reason: ended.reason() },
        };
        self.tables.put_task(Task { status, ..task }, laws.lags);
    }

    fn task(&self, id: &TaskId) -> Option<Task> {
        self.tables.row(id).map(|row| (*row.now).clone())
    }
}

fn waits(task: &Task) -> bool {
    matches!(task.status, Status::Created { .. })
}

fn names(task: &Task, round: Round, batch: &BatchId) -> bool {
    task.round == round && task.status == (Status::Batched { batch: batch.clone() })
}
