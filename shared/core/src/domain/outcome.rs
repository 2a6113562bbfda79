//! What a call's answer means for each member of its batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::id::TaskId;
use super::output::Outputs;
use super::traits::{Traits, are_usual};

/// Why something failed: a short token such as `http_400` or `too_heavy`, never prose.
///
/// Reasons reach logs, notifications and `groupage status`. A downstream's sentence could quote a payload or a secret;
/// a token of 64 safe characters is what it may say instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, derive_more::Display)]
#[serde(transparent)]
pub struct Reason(String);

impl Reason {
    /// Takes a token of ours or one that was stored.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Takes what a downstream said; anything but a token becomes `unspecified`.
    #[must_use]
    pub fn from_downstream(said: &str) -> Self {
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if (1..=64).contains(&said.len()) && said.chars().all(safe) {
            Self(said.to_owned())
        } else {
            Self("unspecified".to_owned())
        }
    }

    /// Returns why a call was turned away whose status does not say so. The downstream's own token stands behind ours:
    /// none that it may say is taken for one of ours.
    #[must_use]
    pub fn turned_away(why: Option<&Self>) -> Self {
        let why = why.map_or_else(String::new, |why| format!(":{why}"));
        Self(format!("{TURNED_AWAY}{}", why.chars().take(64 - TURNED_AWAY.len()).collect::<String>()))
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What to change in the route's settings, if answers fail for this reason time and again.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self.as_str() {
            "answer_too_large" => "lower batch.max_items, or set response.ignore_body",
            "answer_encoded" => "set the header Accept-Encoding: identity, or response.ignore_body",
            "answer_xml" => "set response.format to xml, and map the answer; or set response.ignore_body",
            "answer_not_xml" => "correct response.format, or set response.ignore_body",
            "answer_not_json" | "answer_not_understood" | "answer_utf16" => {
                "set response.ignore_body, or map the answer: response.results, failures or all_succeeded"
            }
            "answer_contradicts_itself"
            | "answer_names_unknown_item"
            | "answer_of_wrong_length"
            | "answer_without_id"
            | "answer_without_results" => "correct response.results or failures, and response.id or index",
            _ => return None,
        })
    }
}

/// The reason of a call that a route's `response.unavailable` takes for one that was turned away.
const TURNED_AWAY: &str = "turned_away";
/// Words of which one is in the reason of a member that was turned away since the downstream has too many calls.
const OVERLOADED: [&str; 8] =
    ["429", "503", "throttl", "ratelimit", "toomanyrequests", "rejectedexecution", "slowdown", "overload"];

impl Reason {
    /// Whether a downstream says by it that it has too many calls: `http_429`, `ThrottlingException`.
    pub fn says_overload(&self) -> bool {
        let letters = self.0.chars().filter(char::is_ascii_alphanumeric);
        let said: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
        OVERLOADED.iter().any(|word| said.contains(word))
    }
}

/// Why a member fails or goes round again of which an answer says nothing.
pub const NO_RESULT: &str = "no_result";
/// The reason of a call that was not answered in time: the downstream may work on.
pub const TIMEOUT: &str = "timeout";
/// The reason of tasks whose job has not ended, or was not seen to end, by its deadline.
pub const JOB_DEADLINE: &str = "job_deadline";
/// The reason of tasks whose job the API does not know, or has forgotten: it may be done.
pub const JOB_NOT_FOUND: &str = "job_not_found";
/// The reason of tasks whose call has begun a job and does not say where to look at it.
pub const JOB_URL_MISSING: &str = "job_url_missing";
/// The reason of tasks whose job would be looked at where their route does not call.
pub const JOB_URL_REFUSED: &str = "job_url_refused";
/// The reason of tasks whose call, of a part of a batch, has begun a job: no pass looks at it.
pub const JOB_NOT_FOLLOWED: &str = "job_not_followed";
/// Why a task fails of which the last call that it may be part of has lost its worker.
pub const WORKER_LOST: &str = "worker_lost";

/// Why a task fails whose downstream was away for as long as its route waits. It ends with why the last call failed.
pub fn outage(last: &Reason) -> Reason {
    const BEGINS: &str = "outage:";
    Reason(format!("{BEGINS}{}", last.as_str().chars().take(64 - BEGINS.len()).collect::<String>()))
}

/// What a downstream said of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Done.
    Succeeded,
    /// Refused for good.
    Failed(Reason),
    /// Not now.
    Retry {
        /// The reason.
        reason: Reason,
        /// The time for which the downstream asked to be left alone with it, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked_ms: Option<u64>,
    },
}

/// A call that failed for a reason that says nothing about its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// How long `Retry-After` asked to be left alone, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Whose fault it seems.
    pub fault: Fault,
}

impl Failure {
    /// Whether the downstream surely did nothing of the call: it turned the call away, or never got it.
    pub fn is_undone(&self) -> bool {
        const UNDONE: [&str; 7] =
            ["connection_refused", "dns", "http_401", "http_403", "http_425", "http_429", "token_unavailable"];
        let reason = self.reason.as_str();
        self.fault == Fault::Ours
            || UNDONE.contains(&reason)
            || reason.starts_with("tls_")
            || reason.starts_with(TURNED_AWAY)
    }
}

/// Whose fault a failed call seems, before it is known how other calls fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The downstream is away, or this call drives it away.
    Downstream,
    /// Ours: no call of the route can do better until a person mends that.
    Ours,
    /// That of the route's settings, if other answers cannot be read, either: the downstream was called, and each
    /// repeat is paid for.
    Settings,
    /// That of this call: it counts, whatever becomes of others.
    Call,
    /// An earlier call under the same key runs still, or was carried out: this one counts, and is an answer.
    Conflict,
}

/// What a call came to, before the retry policy has its say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The downstream answered for each member.
    PerMember(BTreeMap<TaskId, Said>),
    /// It refused the call as a whole, for good.
    Refused(Reason),
    /// It has begun a job, and will answer for each member once that has ended.
    Begun(Begun),
    /// The call failed for a reason that says nothing about its tasks: throttled, unreachable, timed out, or its answer
    /// made no sense.
    Unavailable(Failure),
}

/// A job that a call has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The absolute URL of its status.
    pub url: String,
    /// Members that the call was made without, each with the reason for which it fails.
    pub uncalled: BTreeMap<TaskId, Reason>,
}

/// What a route reads out of what a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it means for the batch.
    pub reply: Reply,
    /// The outputs of members that it settles.
    pub outputs: Outputs,
}

impl From<Reply> for Reading {
    fn from(reply: Reply) -> Self {
        Self { reply, outputs: Outputs::new() }
    }
}

impl Reply {
    /// Leaves a member one attempt that was turned away with most others, unless it is too old to be waited for.
    pub fn spare(&self, members: &mut [Attempted], max_attempts: u32, is_too_old: impl Fn(&TaskId) -> bool) {
        let Self::PerMember(said) = self else { return };
        if 2 * said.values().filter(|one| one.is_turned_away()).count() > said.len() {
            let is_spared = |id: &TaskId| said.get(id).is_some_and(Said::is_turned_away) && !is_too_old(id);
            for member in members.iter_mut().filter(|member| is_spared(&member.id)) {
                member.attempts = member.attempts.min(max_attempts.saturating_sub(1));
            }
        }
    }
}

impl Said {
    /// Another attempt may help, at any time.
    pub const fn again(reason: Reason) -> Self {
        Self::Retry { reason, asked_ms: None }
    }

    /// Returns whether it settles the member.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Succeeded | Self::Failed(_) => true,
            Self::Retry { .. } => false,
        }
    }

    fn is_turned_away(&self) -> bool {
        matches!(self, Self::Retry { reason, .. } if reason.says_overload())
    }
}

/// A member's part in its batch's recorded outcome, unless it succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", tag = "Kind")]
pub enum Exception {
    /// Settled as failed.
    #[serde(rename_all = "PascalCase")]
    Failed {
        /// Why.
        reason: Reason,
        /// Calls it was part of, over all rounds, those of an outage included.
        attempts: u32,
    },
    /// Goes back to waiting, in its next round, after a pause.
    #[serde(rename_all = "PascalCase")]
    Returned {
        /// Calls it was part of, over all rounds.
        attempts: u32,
        /// Set if one of these may have been carried out, although no answer says so.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_unsure: bool,
        /// The pause, in milliseconds.
        delay_ms: u64,
        /// Bytes of its payload, which grouping needs again.
        bytes: u32,
        /// Its traits, which grouping needs again.
        #[serde(default, skip_serializing_if = "are_usual")]
        traits: Traits,
    },
}

/// A batch's outcome: every member succeeded except these.
pub type Results = BTreeMap<TaskId, Exception>;

/// One member as the verdict needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// The task.
    pub id: TaskId,
    /// Calls it has been part of, this one included.
    pub attempts: u32,
    /// Calls beside those that used up no attempt, in an outage.
    pub excused: u32,
    /// Set if one of its calls may have been carried out, although no answer says so.
    pub is_unsure: bool,
    /// Bytes of its payload.
    pub bytes: u32,
    /// What else grouping needs to know of it.
    pub traits: Traits,
}

/// Turns a reply into an outcome.
///
/// `delay_ms` gives the pause before a member's next round, from the attempts it has made and what `Retry-After` asked
/// for. Of a batch whose call failed as a whole, for a reason that says nothing about its members, those that have used
/// up their attempts fail and the others return to waiting, since a batch's members never change. A job that has begun
/// has no outcome yet: where nobody is to look at it, all members fail.
pub fn judge(
    reply: Reply,
    members: &[Attempted],
    max_attempts: u32,
    delay_ms: impl Fn(u32, Option<u64>) -> u64,
) -> Results {
    let again =
        |member: &Attempted, reason: &Reason, asked_ms| again(member, reason, max_attempts, asked_ms, &delay_ms);
    let nobody_looks = Reason::new(JOB_NOT_FOLLOWED);
    match reply {
        Reply::PerMember(said) => results(said, members, max_attempts, &delay_ms),
        // It may be done, so it is not repeated.
        Reply::Begun(_) => members.iter().map(|member| (member.id.clone(), failed(member, &nobody_looks))).collect(),
        Reply::Refused(reason) => members.iter().map(|member| (member.id.clone(), failed(member, &reason))).collect(),
        Reply::Unavailable(Failure { reason, retry_after_ms, .. }) => {
            members.iter().map(|member| (member.id.clone(), again(member, &reason, retry_after_ms))).collect()
        }
    }
}

/// What is recorded of members of which each has been spoken; the rest is as in [`judge`].
pub fn results(
    mut said: BTreeMap<TaskId, Said>,
    members: &[Attempted],
    max_attempts: u32,
    delay_ms: impl Fn(u32, Option<u64>) -> u64,
) -> Results {
    let mut of = |member: &Attempted| {
        Some(match said.remove(&member.id).unwrap_or_else(|| Said::again(Reason::new(NO_RESULT))) {
            Said::Succeeded => return None,
            Said::Failed(reason) => failed(member, &reason),
            Said::Retry { reason, asked_ms } => again(member, &reason, max_attempts, asked_ms, &delay_ms),
        })
    };
    members.iter().filter_map(|member| Some((member.id.clone(), of(member)?))).collect()
}

fn failed(member: &Attempted, reason: &Reason) -> Exception {
    Exception::Failed { reason: reason.clone(), attempts: member.attempts.saturating_add(member.excused) }
}

fn again(
    member: &Attempted,
    reason: &Reason,
    max_attempts: u32,
    asked_ms: Option<u64>,
    delay_ms: impl Fn(u32, Option<u64>) -> u64,
) -> Exception {
    let Attempted { attempts, is_unsure, bytes, traits, .. } = *member;
    if attempts >= max_attempts {
        failed(member, reason)
    } else {
        Exception::Returned { attempts, is_unsure, delay_ms: delay_ms(attempts, asked_ms), bytes, traits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, attempts: u32) -> Attempted {
        Attempted { id: TaskId::new(id), attempts, excused: 0, is_unsure: false, bytes: 4, traits: Traits::default() }
    }

    fn down() -> Reply {
        Reply::Unavailable(Failure {
            reason: Reason::new("http_503"),
            retry_after_ms: Some(7),
            fault: Fault::Downstream,
        })
    }

    #[test]
    fn when_one_member_is_exhausted_it_fails_and_the_others_return() {
        let results = judge(down(), &[member("a", 3), member("b", 1)], 3, |_, _| 9);
        assert_eq!(results[&TaskId::new("a")], Exception::Failed { reason: Reason::new("http_503"), attempts: 3 });
        assert_eq!(
            results[&TaskId::new("b")],
            Exception::Returned { attempts: 1, is_unsure: false, delay_ms: 9, bytes: 4, traits: Traits::default() }
        );
    }

    #[test]
    fn a_task_that_fails_tells_of_all_its_calls_and_one_that_returns_of_those_that_count() {
        let members = [Attempted { excused: 7, ..member("a", 3) }, Attempted { excused: 7, ..member("b", 2) }];
        let results = judge(down(), &members, 3, |_, _| 9);
        assert_eq!(results[&TaskId::new("a")], Exception::Failed { reason: Reason::new("http_503"), attempts: 10 });
        assert!(matches!(results[&TaskId::new("b")], Exception::Returned { attempts: 2, .. }));
    }

    #[test]
    fn the_reason_of_an_outage_is_a_token_and_ends_with_the_last_failure() {
        assert_eq!(outage(&Reason::new("http_503")).as_str(), "outage:http_503");
        let longest = outage(&Reason::new("x".repeat(64)));
        assert_eq!(Reason::from_downstream(longest.as_str()), longest);
    }

    #[test]
    fn a_member_the_answer_passes_over_is_not_taken_for_done() {
        let said = BTreeMap::from([(TaskId::new("a"), Said::Succeeded)]);
        let results = judge(Reply::PerMember(said), &[member("a", 1), member("b", 1)], 3, |_, _| 0);
        assert_eq!(results.len(), 1);
        assert!(matches!(results[&TaskId::new("b")], Exception::Returned { .. }));
    }

    /// As a search engine answers a bulk call when it has too many.
    #[test]
    fn members_that_are_turned_away_together_are_waited_for_until_they_are_too_old() {
        let outcome = |reasons: [&str; 3], age: u32| {
            let said = |(id, reason): (&str, &str)| (TaskId::new(id), Said::again(Reason::new(reason)));
            let reply = Reply::PerMember(["a", "b", "c"].into_iter().zip(reasons).map(said).collect());
            let mut members = ["a", "b", "c"].map(|id| member(id, 5));
            reply.spare(&mut members, 5, |_| age > 60);
            let results = judge(reply.clone(), &members, 5, |attempts, _| attempts.into());
            results[&TaskId::new("a")].clone()
        };
        let again =
            Exception::Returned { attempts: 4, is_unsure: false, delay_ms: 4, bytes: 4, traits: Traits::default() };
        let failed = |reason: &str| Exception::Failed { reason: Reason::new(reason), attempts: 5 };
        for turned_away in ["es_rejected_execution_exception", "ThrottlingException", "http_429", "too_many_requests"] {
            assert_eq!(outcome([turned_away, turned_away, "item_failure"], 60), again);
            assert_eq!(outcome([turned_away, turned_away, "item_failure"], 61), failed(turned_away));
            assert_eq!(outcome([turned_away, "item_failure", "item_failure"], 0), failed(turned_away));
        }
    }

    #[test]
    fn each_member_returns_after_the_delay_that_was_asked_for_it() {
        let busy = |asked_ms| Said::Retry { reason: Reason::new("busy"), asked_ms };
        let said = [("a", busy(Some(7_000))), ("b", busy(None))].map(|(id, said)| (TaskId::new(id), said));
        let members = [member("a", 1), member("b", 1)];
        let results = judge(Reply::PerMember(said.into()), &members, 5, |_, asked_ms| asked_ms.unwrap_or(1));
        let delays = results.values().map(|result| match result {
            Exception::Returned { delay_ms, .. } => Some(*delay_ms),
            Exception::Failed { .. } => None,
        });
        assert_eq!(delays.collect::<Vec<_>>(), [Some(7_000), Some(1)]);
    }

    #[test]
    fn prose_from_a_downstream_never_becomes_a_reason() {
        assert_eq!(Reason::from_downstream("too_heavy").as_str(), "too_heavy");
        assert_eq!(Reason::from_downstream("card 4111 1111 refused").as_str(), "unspecified");
        assert_eq!(Reason::from_downstream("").as_str(), "unspecified");
        let [longest, longer] = [64, 65].map(|length| Reason::from_downstream(&"x".repeat(length)).to_string());
        assert_eq!((longest.len(), longer.as_str()), (64, "unspecified"));
        assert_eq!(Reason::from_downstream("E-1.2:a_b").to_string(), "E-1.2:a_b");
    }
}
