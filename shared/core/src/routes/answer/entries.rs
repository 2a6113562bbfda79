//! The entries of an answer, each for a member of its call.

use std::collections::HashSet;

use super::Earlier;
use super::mapping::{ResponseMapping, Unmentioned};
use super::said::{Verdicts, millis};
use super::unbelievable::Unbelievable;
use crate::domain::id::TaskId;
use crate::domain::outcome::{NO_RESULT, Reason, Said};
use crate::routes::expression::{Data, Expression};

impl ResponseMapping {
    /// Reads what the value of `results` or `failures` says of each member.
    pub(super) fn read_entries(
        &self,
        entries: &Data,
        members: &[TaskId],
        earlier: Earlier<'_>,
    ) -> Result<Verdicts, Unbelievable> {
        let only_failures = self.failures.is_some();
        let known: HashSet<&TaskId> = members.iter().collect();
        let mut verdicts = Verdicts::default();
        // One by one: an expression may make a long id of each.
        for (position, (key, entry)) in self.entries(entries, members)?.into_iter().enumerate() {
            let id = self.member(&entry, key, position, members)?;
            if !known.contains(&id) {
                return Err(Unbelievable::NamesUnknownItem);
            }
            let said = self.entry(&entry, earlier.has(&id));
            let output = self.output.as_ref().filter(|_| said.is_final()).map(|output| output.value(&entry));
            if let Some(output) = output.filter(|output| !output.is_null()) {
                verdicts.add_output(id.clone(), &output.to_json());
            }
            verdicts.add(id, said)?;
        }
        let usual = if only_failures { Unmentioned::Succeeded } else { Unmentioned::Retry };
        let unmentioned = match self.unmentioned.unwrap_or(usual) {
            Unmentioned::Succeeded => Said::Succeeded,
            Unmentioned::Failed => Said::Failed(Reason::new(NO_RESULT)),
            Unmentioned::Retry => return Ok(verdicts),
        };
        for id in members {
            verdicts.said.entry(id.clone()).or_insert_with(|| unmentioned.clone());
        }
        Ok(verdicts)
    }

    /// Returns the entries, those of an object with their keys.
    fn entries<'d>(&self, entries: &'d Data, members: &[TaskId]) -> Result<Vec<(Option<&'d str>, Data)>, Unbelievable> {
        let only_failures = self.failures.is_some();
        if only_failures && entries.is_null() {
            return Ok(Vec::new());
        }
        let says_place = self.id.is_some() || self.index.is_some();
        if let Some(fields) = entries.as_object().filter(|_| !says_place) {
            return Ok(fields.map(|(key, entry)| (Some(key), entry)).collect());
        }
        let list = entries.as_list().ok_or(Unbelievable::WithoutResults)?;
        let list: Vec<_> = list.map(|entry| (None, entry)).collect();
        match list.len() {
            _ if says_place => Ok(list),
            0 if only_failures => Ok(list),
            _ if only_failures => Err(Unbelievable::WithoutId),
            length if length != members.len() => Err(Unbelievable::OfWrongLength),
            _ => Ok(list),
        }
    }

    /// Returns the member that an entry is for.
    fn member(
        &self,
        entry: &Data,
        key: Option<&str>,
        position: usize,
        members: &[TaskId],
    ) -> Result<TaskId, Unbelievable> {
        let place = match (&self.id, &self.index, key) {
            (Some(id), ..) => return id.value(entry).as_text().map(TaskId::new).ok_or(Unbelievable::WithoutId),
            (None, Some(index), _) => index.value(entry).as_whole_number().ok_or(Unbelievable::WithoutId)?,
            (None, None, Some(key)) => return Ok(TaskId::new(key)),
            (None, None, None) => position as u64,
        };
        let member = usize::try_from(place).ok().and_then(|place| members.get(place));
        member.cloned().ok_or(Unbelievable::NamesUnknownItem)
    }

    fn entry(&self, entry: &Data, may_be_done: bool) -> Said {
        let holds =
            |expression: &Option<Expression>| expression.as_ref().is_some_and(|expression| expression.holds(entry));
        if holds(&self.succeeded) || (may_be_done && holds(&self.already_done)) {
            return Said::Succeeded;
        }
        let text = |expression: &Option<Expression>| expression.as_ref()?.value(entry).as_text();
        let reason = Reason::from_downstream(&text(&self.reason).unwrap_or_default());
        if holds(&self.retryable) {
            Said::Retry { reason, asked_ms: text(&self.retry_after).and_then(|seconds| millis(seconds.parse().ok()?)) }
        } else {
            Said::Failed(reason)
        }
    }
}
