//! What a downstream's answer says of each member.
//!
//! Three forms need no mapping: nothing or `{}` (all is well), AWS's own `{"batchItemFailures": [{"itemIdentifier":
//! …}]}`, and `{"results": [{"id", "status": "succeeded|failed|retry", "reason", "output"}]}`.
//! [`ResponseMapping`] reads any other. An answer that cannot be believed (no JSON, unknown members) settles nothing:
//! the same call is made again.
//!
//! The HTTP status decides whether an answer is read at all, unless the mapping's expressions over status, headers and
//! body say otherwise. [`Class::of`] is the one table of statuses; the page of downstreams in the docs shows the same.

mod checks;
mod entries;
mod format;
mod mapping;
mod own;
mod said;
mod status;
mod unbelievable;
mod xml;

use std::collections::HashSet;

use self::format::Format;
pub use self::mapping::ResponseMapping;
use self::said::{Verdicts, all_succeeded, millis};
pub use self::status::Class;
pub(super) use self::status::Otherwise;
use self::unbelievable::Unbelievable;
use super::expression::{Data, Expression};
use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::id::TaskId;
use crate::domain::outcome::{Failure, Fault, Reading, Reason, Reply, TIMEOUT};

/// The members of a call that an earlier call may have carried out, although no answer says so. It may run still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier<'a> {
    /// None.
    OfNone,
    /// All, under the same key.
    OfAll,
    /// These, in other batches.
    Of(&'a HashSet<TaskId>),
}

impl Earlier<'_> {
    fn has(self, member: &TaskId) -> bool {
        match self {
            Self::OfNone => false,
            Self::OfAll => true,
            Self::Of(members) => members.contains(member),
        }
    }

    fn has_all(self, members: &[TaskId]) -> bool {
        members.iter().all(|member| self.has(member))
    }
}

/// An answer as expressions see it.
pub(super) struct Seen {
    pub(super) data: Data,
    /// The reason for which `body` is `null` although there is one.
    pub(super) unreadable: Option<Unbelievable>,
}

impl NoAnswer {
    /// Returns the outcome of a call that has no answer.
    fn into_reply(self) -> Reply {
        let failed = |reason, fault| Reply::Unavailable(Failure { reason, retry_after_ms: None, fault });
        let unavailable = |reason| failed(reason, Fault::Downstream);
        match self {
            Self::Connection => unavailable(Reason::new("connection")),
            Self::Timeout => unavailable(Reason::new(TIMEOUT)),
            Self::TooLarge => failed(Reason::new("answer_too_large"), Fault::Settings),
            Self::Unreadable(reason) => failed(reason, Fault::Settings),
            Self::Misconfigured(reason) => failed(reason, Fault::Ours),
            Self::Failed(reason) => failed(reason, Fault::Call),
            Self::Refused(reason) | Self::Oversized(reason) => Reply::Refused(reason),
            Self::Other(reason) => unavailable(reason),
        }
    }

    /// Returns the failure of a look at a job that has no answer. A refusal of the look says nothing of the job.
    pub(super) fn into_failure(self) -> Failure {
        match self.into_reply() {
            Reply::Unavailable(failure) => failure,
            Reply::Refused(reason) => Failure { reason, retry_after_ms: None, fault: Fault::Downstream },
            Reply::PerMember(_) | Reply::Begun(_) => {
                Failure { reason: Reason::new(TIMEOUT), retry_after_ms: None, fault: Fault::Downstream }
            }
        }
    }
}

impl ResponseMapping {
    /// Judges what a call came to. The route says something `otherwise` of statuses.
    pub(super) fn read(
        &self,
        answer: Result<Answer, NoAnswer>,
        members: &[TaskId],
        otherwise: &Otherwise,
        earlier: Earlier<'_>,
    ) -> Reading {
        match answer {
            Err(no_answer) => no_answer.into_reply().into(),
            Ok(answer) => self.read_answer(&answer, members, otherwise, earlier),
        }
    }

    fn read_answer(&self, answer: &Answer, members: &[TaskId], otherwise: &Otherwise, earlier: Earlier<'_>) -> Reading {
        let seen = self.sees().then(|| self.see(answer));
        let holds = |expression: &Option<Expression>| {
            expression.as_ref().zip(seen.as_ref()).is_some_and(|(expression, seen)| expression.holds(&seen.data))
        };
        let text = |expression: &Option<Expression>| expression.as_ref()?.value(&seen.as_ref()?.data).as_text();
        let status = Class::reason(answer.status);
        let error = || text(&self.error).map(|said| Reason::from_downstream(&said));
        let retry_after_ms = answer.retry_after_ms.max(text(&self.pause).and_then(|said| millis(said.parse().ok()?)));
        let failed = |reason, fault| Reply::Unavailable(Failure { reason, retry_after_ms, fault }).into();
        let by_status = otherwise.class(answer.status);
        if by_status != Class::Outage && holds(&self.unavailable) {
            return failed(Reason::turned_away(error().as_ref()), Fault::Downstream);
        }
        if earlier.has_all(members) && holds(&self.call_already_done) {
            return all_succeeded(members).into();
        }
        let class = match by_status {
            _ if holds(&self.accept) => Class::Answer,
            Class::Answer if self.accept.is_some() => {
                let is_too_large = seen.is_some_and(|seen| seen.unreadable == Some(Unbelievable::TooLarge));
                return match is_too_large {
                    true => failed(Reason::new(Unbelievable::TooLarge.as_str()), Fault::Settings),
                    false => failed(Reason::new("answer_not_accepted"), Fault::Downstream),
                };
            }
            class => class,
        };
        match class {
            Class::Answer => match self.read_members(answer, seen.as_ref(), members, earlier) {
                Ok(Some(verdicts)) => verdicts.into(),
                Ok(None) => Reply::Refused(error().unwrap_or(status)).into(),
                Err(why) if why.is_outage() => failed(Reason::new(why.as_str()), Fault::Downstream),
                Err(why) => failed(Reason::new(why.as_str()), Fault::Settings),
            },
            Class::Outage => failed(status, Fault::Downstream),
            Class::Conflict if earlier == Earlier::OfAll => failed(status, Fault::Conflict),
            Class::Conflict | Class::Refusal => Reply::Refused(error().unwrap_or(status)).into(),
        }
    }

    pub(super) fn see(&self, answer: &Answer) -> Seen {
        let is_read = !self.ignore_body && (self.format == Format::Text || !is_blank(&answer.body));
        let body = if is_read { self.format.parse(&answer.body) } else { Ok(Data::null()) };
        let unreadable = body.as_ref().err().copied();
        let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), Data::text(value)));
        let data = Data::object([
            ("status", Data::number(answer.status.into())),
            ("headers", Data::object(headers)),
            ("body", body.unwrap_or_else(|_| Data::null())),
        ]);
        Seen { data, unreadable }
    }

    /// Reads what an accepted answer says of each member; `None` if it refuses the call as a whole.
    fn read_members(
        &self,
        answer: &Answer,
        seen: Option<&Seen>,
        members: &[TaskId],
        earlier: Earlier<'_>,
    ) -> Result<Option<Verdicts>, Unbelievable> {
        if answer.is_cut && !self.ignore_body {
            return Err(Unbelievable::Cut);
        }
        let entries = self.results.as_ref().or(self.failures.as_ref());
        let readable = |seen: &Seen| seen.unreadable.map_or(Ok(()), Err);
        if let (Some(all), Some(seen)) = (&self.all_succeeded, seen) {
            readable(seen)?;
            if all.holds(&seen.data) {
                return Ok(Some(all_succeeded(members)));
            }
            if entries.is_none() {
                return Ok(None);
            }
        }
        // An answer that is no 2xx says by fields of its own that all is well, or not at all.
        let is_good = Class::of(answer.status) == Class::Answer;
        if self.ignore_body || (is_good && self.all_succeeded.is_none() && is_blank(&answer.body)) {
            return Ok(Some(all_succeeded(members)));
        }
        let verdicts = match (entries, seen) {
            (Some(expression), Some(seen)) => {
                readable(seen)?;
                // An object without that field names no failure. Anything else is no such answer.
                let is_object = || seen.data.field("body").is_some_and(|body| body.is_object());
                let is_silent = is_good && self.failures.is_some() && is_object();
                let entries = expression.fitting(&seen.data).filter(|entries| is_silent || !entries.is_null());
                self.read_entries(&entries.ok_or(Unbelievable::WithoutResults)?, members, earlier)
            }
            _ => own::read(&answer.body, members, is_good),
        };
        verdicts.map(Some)
    }
}

impl ResponseMapping {
    /// Returns whether a job's answer has what this mapping reads members from. That of a call may be blank, or silent
    /// about failures, if all is well. A job that has failed may be as silent.
    pub(super) fn has_entries_in(&self, answer: &Answer) -> bool {
        let Some(entries) = self.results.as_ref().or(self.failures.as_ref()) else { return true };
        let seen = self.see(answer).data;
        let all_succeeded = self.all_succeeded.as_ref().is_some_and(|all| all.holds(&seen));
        all_succeeded || (!is_blank(&answer.body) && !entries.value(&seen).is_null())
    }

    /// Returns whether a job's results are blank although this mapping reads members from them.
    pub(super) fn is_blank_in(&self, answer: &Answer) -> bool {
        let has_entries = self.results.is_some() || self.failures.is_some();
        has_entries && self.all_succeeded.is_none() && is_blank(&answer.body)
    }
}

/// The failure of a job's answer that has no results. The next look may see them.
pub(super) fn without_results() -> Failure {
    let reason = Reason::new(Unbelievable::WithoutResults.as_str());
    Failure { reason, retry_after_ms: None, fault: Fault::Settings }
}

fn is_blank(body: &[u8]) -> bool {
    body.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests;
