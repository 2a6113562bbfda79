//! The batches: written, and called.

use std::ops::Range;

use groupage_core::domain::batch::{Assumes, FollowUp, Status};

use super::{Laws, World};
use crate::pipeline::promises::{Promise, broken_by_store};
use crate::pipeline::rules::Rule;
use crate::pipeline::tables::{is_express, is_open};
use crate::prelude::*;

impl World {
    pub(super) fn store(&mut self, batch: &Kept<Batch>, assumes: Assumes, laws: Laws) -> Stored {
        let old = self.tables.batch(&batch.id).cloned();
        let records = matches!(batch.status, Status::Settled { follow_up: FollowUp::Pending, .. });
        let blind = !laws.keeps(Rule::Revision) || (records && !laws.keeps(Rule::ClaimAtSettling));
        let holds = match assumes {
            Assumes::Absent => old.is_none(),
            Assumes::At(revision) => match &old {
                Some(old) => old.revision == revision || blind,
                None => !laws.keeps(Rule::IntentFirst),
            },
        };
        if !holds {
            return if old.as_ref() == Some(batch) { Stored::Yes } else { Stored::Conflict };
        }
        if (is_open(batch) && !laws.keeps(Rule::IntentFirst))
            || (batch.status == Status::Void && !laws.keeps(Rule::Void))
            || (batch.status == Status::Void && !laws.keeps(Rule::ExpressVoid) && is_express(&batch.id))
        {
            return Stored::Yes;
        }
        let is_new = |member| old.as_ref().is_none_or(|old| !old.members.contains(member));
        let grows = is_open(batch) && batch.members.iter().any(is_new);
        let led = self.tables.led(&batch.target);
        let taken_over = led.and_then(|led| led.lock.as_ref()).is_some_and(|lock| lock.fence > batch.fence);
        let inherited = led.and_then(|led| led.inherited.as_ref()) == Some(&batch.id);
        self.promise(!grows || !taken_over || inherited, Promise::NoCandidateAfterTakeover);
        if let Some(promise) = broken_by_store(old.as_deref(), batch) {
            self.promise(false, promise);
        }
        self.tables.put_batch(as_written(old.as_deref(), batch, laws));
        Stored::Yes
    }

    pub(super) fn call(&mut self, key: &BatchId, items: &[TaskId], laws: Laws) {
        let (id, part) = part_of(key);
        let as_frozen = self.tables.batch(&id).is_some_and(|batch| {
            let called =
                matches!(batch.status, Status::InProgress { .. } | Status::Paused { .. } | Status::Settled { .. });
            let members = part.map_or(Some(&batch.members[..]), |part| batch.members.get(part));
            let omitted = batch.omitted_ids();
            let ids = |members: &[Member]| members.iter().map(|member| member.id.clone()).collect::<Vec<_>>();
            let wanted = members.map(ids).unwrap_or_default().into_iter().filter(|id| !omitted.contains(id));
            called && wanted.eq(items.iter().cloned())
        });
        self.promise(as_frozen, Promise::CallsAsFrozen);
        if laws.attempts == 1 {
            let first = self.calls.binary_search(key);
            if let Err(at) = first {
                self.calls.insert(at, key.clone());
            }
            self.promise(first.is_err(), Promise::CalledAsAllowed);
        }
    }
}

/// The batch of a call's key, and the part, if it is not the whole.
fn part_of(key: &BatchId) -> (BatchId, Option<Range<usize>>) {
    let part = key.as_str().split_once('.').and_then(|(id, part)| {
        let (first, last) = part.split_once('-')?;
        Some((BatchId::new(id), first.parse::<usize>().ok()?.checked_sub(1)?..last.parse().ok()?))
    });
    part.map_or_else(|| (key.clone(), None), |(id, part)| (id, Some(part)))
}

/// A batch as its table has it after a write.
fn as_written(old: Option<&Batch>, batch: &Kept<Batch>, laws: Laws) -> Kept<Batch> {
    let claims = matches!(batch.status, Status::InProgress { .. });
    match old {
        Some(old) if claims && !laws.keeps(Rule::ClaimCounts) => {
            Kept::new(Batch { attempts: old.attempts, ..(**batch).clone() })
        }
        Some(_) if batch.apart.is_some() && !laws.keeps(Rule::PartsNoted) => {
            Kept::new(Batch { apart: None, ..(**batch).clone() })
        }
        Some(_) | None => batch.clone(),
    }
}
