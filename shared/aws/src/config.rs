//! Where the tables and queues are, read once at cold start.
//!
//! Every name comes from the environment, so that the same binaries run on AWS, on an emulator and in tests.

use std::env;
use std::ops::RangeInclusive;

use groupage_core::domain::sender::Senders;
use groupage_core::domain::session::Timing;
use groupage_core::domain::task::RETENTION_DAYS;
use groupage_core::domain::tracker::Patience;
use groupage_core::ports::Destination;
use groupage_core::routes::Allowed;
use groupage_core::steps::track::Lifetimes;

/// A variable the process cannot start without, or one whose value makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The variable is not set.
    #[error("environment variable {0} is not set: template.yaml (or `groupage local`) provides it")]
    Missing(&'static str),
    /// The variable holds something unusable.
    #[error("environment variable {name} is `{value}`, expected {expected}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should hold.
        expected: &'static str,
    },
}

/// The names of the DynamoDB tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Tasks, with the sparse indexes [`Tables::WAITING_INDEX`] and [`Tables::FILED_INDEX`].
    pub tasks: String,
    /// Target locks, and the gates before calls.
    pub locks: String,
    /// Batches, with the sparse index [`Tables::UNFINISHED_INDEX`].
    pub batches: String,
    /// Sessions of workers.
    pub sessions: String,
    /// Trackers with their bits, and the index [`Tables::DUE_INDEX`].
    pub trackers: String,
    /// Lists with their waiting tasks, and the index [`Tables::DUE_INDEX`].
    pub lists: String,
    /// Lanes of ordered routes with who waits in them, and the index [`Tables::STOPPED_INDEX`].
    pub lanes: String,
    /// Streams with their bits, and the index [`Tables::DUE_INDEX`].
    pub streams: String,
    /// The routes file, as `groupage push` wrote it.
    pub routes: String,
}

impl Tables {
    /// The index of tasks that still wait for a batch, on (`Target`, `Status`).
    pub const WAITING_INDEX: &str = "Waiting";

    /// The index of failed tasks, on (`Filed`, `FiledAt`).
    pub const FILED_INDEX: &str = "Filed";

    /// The index of batches with work left, on (`Open`, `Due`).
    pub const UNFINISHED_INDEX: &str = "Unfinished";

    /// The index of trackers, lists or streams by when sweep looks at them, on (`Part`, `Due`).
    pub const DUE_INDEX: &str = "Due";

    /// The index of lanes that a failure stopped, on (`Stopped`, `ActiveAt`).
    pub const STOPPED_INDEX: &str = "Stopped";

    /// Reads `GROUPAGE_{TASK,LOCK,BATCH,SESSION,TRACKER,LIST,LANE,STREAM,ROUTE}_TABLE`.
    /// The error names the first that is not set.
    pub fn from_env() -> Result<Self, Error> {
        Ok(Self {
            tasks: required("GROUPAGE_TASK_TABLE")?,
            locks: required("GROUPAGE_LOCK_TABLE")?,
            batches: required("GROUPAGE_BATCH_TABLE")?,
            sessions: required("GROUPAGE_SESSION_TABLE")?,
            trackers: required("GROUPAGE_TRACKER_TABLE")?,
            lists: required("GROUPAGE_LIST_TABLE")?,
            lanes: required("GROUPAGE_LANE_TABLE")?,
            streams: required("GROUPAGE_STREAM_TABLE")?,
            routes: required("GROUPAGE_ROUTE_TABLE")?,
        })
    }
}

/// The URLs of the SQS queues: one per step, a FIFO one for register-task, one for long calls, and two for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Intake: task messages, read by register-task.
    pub tasks: String,
    /// Intake of tasks that must keep their order, and of what events leave over: a FIFO queue.
    pub in_order: String,
    /// Election messages, read by elect-leader.
    pub elect: String,
    /// Leaders at work, read by group-batch.
    pub group: String,
    /// Frozen batches, read by batch-handler.
    pub handle: String,
    /// Those whose calls may be long, read by the batch-handler that has the time.
    pub long_handle: String,
    /// Task messages that can never be registered, each with its reason.
    pub rejected: String,
    /// Where notifications go whose route says `default`.
    pub notifications: String,
}

impl Queues {
    /// Reads `GROUPAGE_{TASK,IN_ORDER,ELECT,GROUP,HANDLE,LONG_HANDLE,REJECTED,NOTIFICATION}_QUEUE`.
    /// The error names the first that is not set.
    pub fn from_env() -> Result<Self, Error> {
        Ok(Self {
            tasks: required("GROUPAGE_TASK_QUEUE")?,
            in_order: required("GROUPAGE_IN_ORDER_QUEUE")?,
            elect: required("GROUPAGE_ELECT_QUEUE")?,
            group: required("GROUPAGE_GROUP_QUEUE")?,
            handle: required("GROUPAGE_HANDLE_QUEUE")?,
            long_handle: required("GROUPAGE_LONG_HANDLE_QUEUE")?,
            rejected: required("GROUPAGE_REJECTED_QUEUE")?,
            notifications: required("GROUPAGE_NOTIFICATION_QUEUE")?,
        })
    }
}

/// Reads `GROUPAGE_RETENTION_DAYS`, in milliseconds.
///
/// # Errors
/// [`Error::Invalid`] if it is set to something that is no number of days, or to fewer than a message may live.
pub fn retention_ms_from_env() -> Result<u64, Error> {
    const NAME: &str = "GROUPAGE_RETENTION_DAYS";
    let days = number(NAME, 19..=3650, "a number of days from 19 to 3650")?.unwrap_or(RETENTION_DAYS);
    Ok(days * 24 * 60 * 60 * 1000)
}

/// Reads `GROUPAGE_HEARTBEAT_MS` and `GROUPAGE_SESSION_EXPIRY_MS`; sessions beat each second and expire after five if
/// they are not set.
///
/// # Errors
/// [`Error::Invalid`] if one is no number of milliseconds in its range, or the expiry leaves no room for three
/// heartbeats: a session must survive a renewal that was lost.
pub fn timing_from_env() -> Result<Timing, Error> {
    const HEARTBEAT: &str = "GROUPAGE_HEARTBEAT_MS";
    const EXPIRY: &str = "GROUPAGE_SESSION_EXPIRY_MS";
    let Timing { heartbeat_ms, expiry_ms } = Timing::default();
    let heartbeat_ms = number(HEARTBEAT, 50..=60_000, "milliseconds from 50 to 60000")?.unwrap_or(heartbeat_ms);
    let expiry_ms = number(EXPIRY, 3 * heartbeat_ms..=600_000, "at least three heartbeats, at most 600000")?
        .unwrap_or(expiry_ms.max(3 * heartbeat_ms));
    Ok(Timing { heartbeat_ms, expiry_ms })
}

/// Reads `GROUPAGE_ABANDON_OPEN_DAYS`, `GROUPAGE_ABANDON_SEALED_DAYS` and the retention: how long trackers live.
///
/// # Errors
/// [`Error::Invalid`] if one is no positive number of days.
pub fn lifetimes_from_env() -> Result<Lifetimes, Error> {
    let Patience { open_ms, sealed_ms } = Patience::default();
    let ms = |name, default_ms| {
        let days = number(name, 1..=3650, "a number of days from 1 to 3650")?;
        Ok::<_, Error>(days.map_or(default_ms, |days| days * 24 * 60 * 60 * 1000))
    };
    let patience = Patience {
        open_ms: ms("GROUPAGE_ABANDON_OPEN_DAYS", open_ms)?,
        sealed_ms: ms("GROUPAGE_ABANDON_SEALED_DAYS", sealed_ms)?,
    };
    Ok(Lifetimes { patience, retention_ms: retention_ms_from_env()? })
}

/// Reads `GROUPAGE_OWN_SENDERS` and `GROUPAGE_TRUSTED_SENDERS`, ids of users, roles or accounts with commas between
/// them: what the senders of task messages may say. A variable that is not set, or holds `*`, means everybody.
pub fn senders_from_env() -> Senders {
    let listed = |name| env::var(name).ok().and_then(|ids| listed(&ids));
    Senders { own: listed("GROUPAGE_OWN_SENDERS"), trusted: listed("GROUPAGE_TRUSTED_SENDERS") }
}

/// Reads `GROUPAGE_SECRET_HOSTS` (`HOST=SECRET,…`), `GROUPAGE_PRIVATE_HOSTS` (`HOST,…`) and `GROUPAGE_LONG_CALLS`. They
/// say which secret a route may send where, which hosts may be called whose address is not public, and whether a call
/// may be long. Of a variable that is not set, `unset` has the answer.
///
/// # Errors
/// [`Error::Invalid`] if an entry is no host with a secret.
pub fn allowed_from_env(unset: Allowed) -> Result<Allowed, Error> {
    const NAME: &str = "GROUPAGE_SECRET_HOSTS";
    let expected = "HOST=SECRET, several with commas between them";
    let allowed = match env::var(NAME) {
        Ok(list) => unset.with_secrets(&list).map_err(|value| Error::Invalid { name: NAME, value, expected })?,
        Err(_) => unset,
    };
    let allowed = if has_time_for_long_calls() { allowed.with_long_calls(true) } else { allowed };
    Ok(match env::var("GROUPAGE_PRIVATE_HOSTS") {
        Ok(list) => allowed.with_hosts(&list),
        Err(_) => allowed,
    })
}

/// Reads `GROUPAGE_LONG_CALLS`: which queue batch-handler reads. It is that of usual calls if it is not set. `true`
/// says that the function has time for long ones.
pub fn handles_from_env() -> Destination {
    if has_time_for_long_calls() { Destination::LongHandle } else { Destination::Handle }
}

fn has_time_for_long_calls() -> bool {
    env::var("GROUPAGE_LONG_CALLS").is_ok_and(|value| value == "true")
}

/// Reads `GROUPAGE_LOG_TARGETS`: whether logs name Targets. They do if it is not set; `false` says no.
pub fn logs_targets_from_env() -> bool {
    env::var("GROUPAGE_LOG_TARGETS").map_or(true, |value| value != "false")
}

/// The ids in a list; `None` if everybody is meant.
fn listed(ids: &str) -> Option<Vec<String>> {
    let ids: Vec<&str> = ids.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    (!ids.contains(&"*")).then(|| ids.into_iter().map(str::to_owned).collect())
}

fn number(name: &'static str, allowed: RangeInclusive<u64>, expected: &'static str) -> Result<Option<u64>, Error> {
    let Ok(value) = env::var(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) if allowed.contains(&number) => Ok(Some(number)),
        _ => Err(Error::Invalid { name, value, expected }),
    }
}

fn required(name: &'static str) -> Result<String, Error> {
    env::var(name).ok().filter(|value| !value.is_empty()).ok_or(Error::Missing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_of_senders_is_nobody_and_a_star_is_everybody() {
        assert_eq!(listed(""), Some(Vec::new()));
        assert_eq!(listed("AROAAPI, ,AROASWEEP,"), Some(vec!["AROAAPI".to_owned(), "AROASWEEP".to_owned()]));
        assert_eq!(listed("AROAAPI,*"), None);
    }
}
