//! The settings by which a route reads answers.

use schemars::JsonSchema;
use serde::Deserialize;

use super::format::Format;
use super::status::Class;
use crate::routes::expression::Expression;

/// The mapping of answers that are not in one of Groupage's own forms.
///
/// Most fields are JMESPath expressions. Those from `accept` to `failures` see the whole answer, `{"status": …,
/// "headers": {…}, "body": …}`, with the headers' names in lower case. Those from `id` to `output` see one entry of
/// `results` or `failures`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseMapping {
    /// The format of the body.
    pub(super) format: Format,
    /// Accepts an answer, to be read for each member, whatever its status. A 2xx that it does not accept, such as a
    /// login page, counts as an outage. Absent: every 2xx is accepted.
    pub(super) accept: Option<Expression>,
    /// Holds if the downstream turned the call away by a status that does not say so: it is away or has too many calls,
    /// and did nothing of this one.
    pub(super) unavailable: Option<Expression>,
    /// The seconds for which a downstream that turns calls away asks for none.
    pub(super) pause: Option<Expression>,
    /// The reason for which the call is refused or turned away: a short token (letters, digits, `_`, `-`, `.`, `:`).
    /// Absent: of a refusal, the status.
    pub(super) error: Option<Expression>,
    /// The verdict for all members. If it holds, all succeeded. If not, `results` or `failures` say more; without
    /// these, the call is refused.
    pub(super) all_succeeded: Option<Expression>,
    /// Holds if the downstream has carried out this call before. All members succeed, if an earlier call of each may
    /// have been carried out.
    pub(super) call_already_done: Option<Expression>,
    /// The list with an entry for each member, or an object whose keys are the members' ids. Absent: the answer is in
    /// one of Groupage's own forms.
    pub(super) results: Option<Expression>,
    /// The list with an entry for each member that did not succeed, or an object whose keys are their ids. `null`, or
    /// no such field of an object: there are none.
    pub(super) failures: Option<Expression>,
    /// The state of members without an entry. Absent: `retry` beside `results`, `succeeded` beside `failures`.
    pub(super) unmentioned: Option<Unmentioned>,
    /// The member's id. Absent, and without `index`: entries are in the order of the call's items.
    pub(super) id: Option<Expression>,
    /// The member's place among the call's items, from 0.
    pub(super) index: Option<Expression>,
    /// Holds if the member succeeded. Required with `results`.
    pub(super) succeeded: Option<Expression>,
    /// Holds if the downstream has carried out this member before. It succeeds, if an earlier call of it may have been
    /// carried out.
    pub(super) already_done: Option<Expression>,
    /// Holds if another attempt may help a member that did not succeed. Absent: it may not.
    pub(super) retryable: Option<Expression>,
    /// The seconds for which a member to retry is left alone at least.
    pub(super) retry_after: Option<Expression>,
    /// The reason for which the member did not succeed: a short token (letters, digits, `_`, `-`, `.`, `:`).
    pub(super) reason: Option<Expression>,
    /// The output of a member that succeeded or failed, such as an id that the downstream gave it: any JSON of up to
    /// 128 KiB. Groupage keeps it beside the task's outcome. Absent, or `null`: none.
    pub(super) output: Option<Expression>,
    /// Leaves the body unread: status and headers say everything.
    pub(super) ignore_body: bool,
}

/// The state of a member that an answer does not mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unmentioned {
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It is retried in another batch.
    Retry,
}

impl ResponseMapping {
    /// Answers in Groupage's own forms.
    pub(in crate::routes) const OWN: Self = Self {
        format: Format::Json,
        accept: None,
        unavailable: None,
        pause: None,
        error: None,
        all_succeeded: None,
        call_already_done: None,
        results: None,
        failures: None,
        unmentioned: None,
        id: None,
        index: None,
        succeeded: None,
        already_done: None,
        retryable: None,
        retry_after: None,
        reason: None,
        output: None,
        ignore_body: false,
    };

    /// Returns whether status and headers say everything.
    pub const fn ignores_body(&self) -> bool {
        self.ignore_body
    }

    /// Returns whether the body of an answer with this status, which is no 2xx, may decide what it is. Of an outage it
    /// does if such an answer may be accepted: nothing else is worth a wait for a downstream that is away.
    pub fn waits_for(&self, status: u16) -> bool {
        let others = [&self.unavailable, &self.pause, &self.error, &self.call_already_done];
        let decides = Class::of(status) != Class::Outage && others.iter().any(|one| one.is_some());
        !self.ignore_body && (self.accept.is_some() || decides)
    }

    /// Returns whether an expression looks at the whole answer.
    pub fn sees(&self) -> bool {
        self.of_whole().iter().any(|(_, expression)| expression.is_some())
    }

    /// Returns the fields that see the whole answer.
    pub(super) fn of_whole(&self) -> [(&'static str, &Option<Expression>); 8] {
        [
            ("accept", &self.accept),
            ("unavailable", &self.unavailable),
            ("pause", &self.pause),
            ("error", &self.error),
            ("all_succeeded", &self.all_succeeded),
            ("call_already_done", &self.call_already_done),
            ("results", &self.results),
            ("failures", &self.failures),
        ]
    }

    /// Returns the fields that see an entry.
    pub(super) fn of_entry(&self) -> [(&'static str, &Option<Expression>); 8] {
        [
            ("id", &self.id),
            ("index", &self.index),
            ("succeeded", &self.succeeded),
            ("already_done", &self.already_done),
            ("retryable", &self.retryable),
            ("retry_after", &self.retry_after),
            ("reason", &self.reason),
            ("output", &self.output),
        ]
    }
}
