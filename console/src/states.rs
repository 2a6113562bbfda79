//! How tasks, batches and fan-outs stand, in the words that the browser and a terminal use.

use groupage_core::domain::batch::{Batch, FollowUp, Status};
use groupage_core::domain::gate::CallState;
use groupage_core::domain::shown::Shown;
use groupage_core::domain::tracker::{State, Tracker};
use groupage_core::domain::why::Why;
use groupage_core::domain::{Exception, Member, Timestamp};

use crate::words::{relative, span};

/// Where a task stands.
pub const fn task(shown: Shown) -> &'static str {
    match shown {
        Shown::Scheduled => "waits for its time",
        Shown::Queued => "queued",
        Shown::Created => "waits for a batch",
        Shown::Batched => "in a batch",
        Shown::InProgress => "being called",
        Shown::Succeeded => "succeeded",
        Shown::Failed => "failed",
        Shown::Cancelled => "cancelled",
        Shown::Expired => "expired",
        Shown::Superseded => "superseded by a newer task",
    }
}

/// Where a batch stands that waits for this.
pub const fn batch(batch: &Batch, why: Option<&Why>) -> &'static str {
    match &batch.status {
        Status::Frozen | Status::Paused { .. } if matches!(why, Some(Why::Held { .. })) => {
            "held: a person holds its calls back"
        }
        Status::Paused { .. } if matches!(why, Some(Why::Away { .. })) => "held back: its downstream is away",
        Status::Paused { .. } if batch.job.is_some() => "called: the downstream works on its job",
        Status::Paused { .. } if batch.attempts == 0 => "held back: it was not called yet",
        Status::Open { .. } => "open: it is filling up",
        Status::Closing => "closing",
        Status::Frozen => "frozen: its members are final",
        Status::InProgress { .. } => "being called",
        Status::Paused { .. } => "paused: its call failed for now",
        Status::Settled { follow_up: FollowUp::Pending, .. } => "settled; statuses and notices are being written",
        Status::Settled { follow_up: FollowUp::Returning, .. } => "settled; members go round again",
        Status::Settled { follow_up: FollowUp::Done, .. } => "settled",
        Status::Empty => "empty: it was never called",
        Status::Void => "void: it was named and never written",
    }
}

/// What became of a member, as far as that is known.
pub fn outcome(batch: &Batch, member: &Member) -> String {
    let Status::Settled { results, .. } = &batch.status else { return "not settled".to_owned() };
    match results.get(&member.id) {
        None => "succeeded".to_owned(),
        Some(Exception::Failed { reason, attempts }) => format!("failed: {reason}, after {}", calls(*attempts)),
        Some(Exception::Returned { attempts, delay_ms, .. }) => {
            format!("goes round again after {}, with a pause of {}", calls(*attempts), span(*delay_ms))
        }
    }
}

/// A number of calls.
pub fn calls(number: u32) -> String {
    if number == 1 { "1 call".to_owned() } else { format!("{number} calls") }
}

/// Whether calls are held back, and how they fare.
pub fn standing(standing: &CallState, now: Timestamp) -> String {
    match standing {
        CallState::Well => "well".to_owned(),
        CallState::Held { since, .. } => format!("held by a person, {}", relative(*since, now)),
        CallState::Away { since, .. } => format!("the downstream is away since {}", relative(*since, now)),
        CallState::Paused { until } => format!("paused, ends {}", relative(*until, now)),
        CallState::InTrouble { since, failures, .. } => {
            format!("in trouble: {} failed since {}", calls(*failures), relative(*since, now))
        }
        CallState::Draining { since } => format!("goes on slowly since {}", relative(*since, now)),
    }
}

/// Items a second so far, and how long the missing ones take at that; nothing if none is done, or none is missing.
pub fn pace(tracker: &Tracker, done: u64, missing: u64, now: Timestamp) -> Option<(f64, u64)> {
    let took_ms = now.since(tracker.opened_at).max(1);
    let is_over = matches!(tracker.state, State::Ended(_));
    let left_ms = u128::from(missing) * u128::from(took_ms) / u128::from(done.max(1));
    (done > 0 && missing > 0 && !is_over)
        .then(|| (done as f64 * 1e3 / took_ms as f64, u64::try_from(left_ms).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::gate::Scope;
    use groupage_core::domain::tracker::Options;
    use groupage_core::domain::{
        BatchId, Candidate, NotificationQueue, Reason, Results, Round, RouteName, Target, TaskId, TrackerId,
    };

    use super::*;
    use groupage_core::domain::Traits;

    #[test]
    fn each_member_says_what_became_of_it() {
        let candidate =
            |id: &str| Candidate { id: TaskId::new(id), round: Round(0), bytes: 1, traits: Traits::default() };
        let candidates = ["a", "b", "c"].map(candidate);
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &candidates, Timestamp(1));
        assert_eq!(outcome(&batch, &batch.members[0]), "not settled");
        let failed = Exception::Failed { reason: Reason::new("too_heavy"), attempts: 2 };
        let returned =
            Exception::Returned { attempts: 1, is_unsure: false, delay_ms: 2_000, bytes: 1, traits: Traits::default() };
        let results = Results::from([(TaskId::new("b"), failed), (TaskId::new("c"), returned)]);
        let settled = batch.settled(results, Timestamp(5));
        let said: Vec<String> = settled.members.iter().map(|member| outcome(&settled, member)).collect();
        assert_eq!(
            said,
            ["succeeded", "failed: too_heavy, after 2 calls", "goes round again after 1 call, with a pause of 2 s"]
        );
    }

    #[test]
    fn a_batch_that_is_held_does_not_say_that_its_call_failed() {
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &[], Timestamp(1)).paused(Timestamp(9));
        let held = Why::Held { of: Scope::Route(RouteName::new("r")), since: Timestamp(1), reason: None };
        let retry = Why::Retry { at: Timestamp(9) };
        assert_eq!(super::batch(&batch, Some(&held)), "held: a person holds its calls back");
        assert_eq!(super::batch(&batch, Some(&retry)), "held back: it was not called yet");
        let called = Batch { attempts: 1, ..batch };
        assert_eq!(super::batch(&called, Some(&retry)), "paused: its call failed for now");
    }

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        let options = Options { deadline: None, notify: NotificationQueue::None };
        let tracker = Tracker::open(TrackerId::new("t"), options, Timestamp(1_000));
        let (a_second, left_ms) = pace(&tracker, 100, 300, Timestamp(11_000)).unwrap();
        assert_eq!((a_second.round() as u64, left_ms), (10, 30_000));
        assert_eq!(pace(&tracker, 0, 300, Timestamp(11_000)), None);
        assert_eq!(pace(&tracker, 300, 0, Timestamp(11_000)), None);
    }
}
