//! A job: what an API does with a batch that it has accepted and finishes later.
//!
//! The call has begun the job, and counts as any call. Until the job's outcome is recorded its batch is paused, and
//! each pass *looks* at the job instead of calling: a read of its URL, which uses up no attempt, passes no limit and
//! needs no claim. Two workers may look at once; of their writes, each conditional on the revision that was read, one
//! is refused. A worker that dies in a look costs nothing.
//!
//! The permits of the call are the job's, by leases that last until its deadline. They are acquired for so long before
//! the job is written down, and given back before its follow-up is done, so a crash in between leaves neither a job
//! without permits nor permits without a job.

use serde::{Deserialize, Serialize};

use super::{Batch, Status};
use crate::domain::gate::Scope;
use crate::domain::id::TaskId;
use crate::domain::outcome::{Failure, Fault, JOB_DEADLINE, Reason};
use crate::domain::time::Timestamp;

/// A job that a call of a batch has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Job {
    /// The absolute URL of its status.
    pub url: String,
    /// The time at which it began.
    pub since: Timestamp,
    /// Nobody looks at it after the first look from then on.
    pub deadline: Timestamp,
    /// The reason why the last look came to nothing, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Reason>,
    /// Set if that was its end, which could not be read: then its members fail for the same reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// Members that its call was made without, by position, each with the reason for which it fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncalled: Vec<(usize, Reason)>,
    /// The keys of the limiters whose permits it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<String>,
}

impl Job {
    /// Returns the limiters whose permits it has.
    pub fn scopes(&self) -> Vec<Scope> {
        self.permits.iter().filter_map(|key| Scope::of_key(key)).collect()
    }

    /// Returns when the next look is due that should come so long after `now`: at the deadline at the latest.
    pub fn next_look(&self, now: Timestamp, pause_ms: u64) -> Timestamp {
        now.plus_ms(pause_ms).min(self.deadline.max(now))
    }

    /// Returns whether a look at this time is the last one.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.deadline
    }

    /// The same job after a look that said that it runs.
    #[must_use]
    pub fn runs(self) -> Self {
        Self { failed: None, unread: false, ..self }
    }

    /// The same job after a look that came to nothing. An answer that could not be read, and whatever fails once the
    /// job `has_ended`, says more to people than that its time is over.
    #[must_use]
    pub fn looked_in_vain(self, failure: &Failure, has_ended: bool) -> Self {
        let unread = has_ended || failure.fault == Fault::Settings;
        Self { failed: Some(failure.reason.clone()), unread, ..self }
    }

    /// Returns why its members fail if no look comes to more.
    pub fn reason(&self) -> Reason {
        self.failed.clone().filter(|_| self.unread).unwrap_or_else(|| Reason::new(JOB_DEADLINE))
    }
}

impl Batch {
    /// The job whose end this batch waits for.
    pub fn under_way(&self) -> Option<&Job> {
        self.job.as_deref().filter(|_| matches!(self.status, Status::Paused { .. }))
    }

    /// This batch with its job; the next write keeps it.
    pub fn with_job(self, job: Job) -> Self {
        Self { job: Some(Box::new(job)), ..self }
    }

    /// The ids of the members that its job is about, in their order.
    pub fn called_by(&self, job: &Job) -> Vec<TaskId> {
        let is_called = |position: &usize| {
            self.omission(*position).is_none() && job.uncalled.iter().all(|(uncalled, _)| uncalled != position)
        };
        let members = self.members.iter().enumerate().filter(|(position, _)| is_called(position));
        members.map(|(_, member)| member.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::batch::{Claim, Duty};
    use crate::domain::ended::Ended;
    use crate::domain::id::{BatchId, LimitName, Round, RouteName, SessionId, Target};
    use crate::domain::outcome::Results;
    use crate::domain::task::Candidate;
    use crate::domain::traits::Traits;

    const NOW: Timestamp = Timestamp(50_000);

    fn job() -> Job {
        let (failed, permits) = (None, Vec::new());
        let url = "https://a.example/jobs/1".to_owned();
        Job { url, since: NOW, deadline: NOW.plus_ms(60_000), failed, unread: false, uncalled: Vec::new(), permits }
    }

    fn frozen(members: u32) -> Batch {
        let traits = Traits::default();
        let candidate = |n| Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes: 4, traits };
        let candidates: Vec<Candidate> = (0..members).map(candidate).collect();
        Batch::express(BatchId::new("b"), Target::of(&RouteName::new("r"), "t"), &candidates, NOW)
    }

    fn failure(fault: Fault) -> Failure {
        Failure { reason: Reason::new("answer_xml"), retry_after_ms: None, fault }
    }

    #[test]
    fn a_batch_with_a_job_is_looked_at_when_its_pause_is_over_and_never_called() {
        let called = frozen(2).claimed(Claim { session: SessionId::new("r/s") });
        let paused = called.with_job(job()).paused(NOW.plus_ms(30_000));
        assert_eq!(paused.duty(NOW), Duty::LookAgain { at: NOW.plus_ms(30_000) });
        assert_eq!(paused.duty(NOW.plus_ms(30_000)), Duty::Look);
        let woken = paused.woken(NOW).unwrap();
        assert_eq!((woken.duty(NOW), woken.attempts), (Duty::Look, 1));
        assert_eq!(paused.nudged(NOW).duty(NOW.plus_ms(30_000)), Duty::Look, "sweep has sent its message again");
        let settled = paused.settled(Results::new(), NOW);
        assert_eq!((settled.duty(NOW), settled.under_way()), (Duty::FollowUp, None));
        assert!(settled.job.is_some(), "its permits may still be there");
    }

    #[test]
    fn looks_come_as_often_as_asked_and_the_last_at_the_deadline() {
        assert_eq!(job().next_look(NOW, 30_000), NOW.plus_ms(30_000));
        assert_eq!(job().next_look(NOW.plus_ms(45_000), 30_000), job().deadline);
        assert_eq!(job().next_look(NOW.plus_ms(90_000), 30_000), NOW.plus_ms(90_000), "not in the past");
        assert!(!job().is_over(NOW.plus_ms(59_999)) && job().is_over(NOW.plus_ms(60_000)));
    }

    #[test]
    fn members_fail_for_the_deadline_unless_the_end_could_not_be_read() {
        let reason = |job: Job| job.reason().as_str().to_owned();
        assert_eq!(reason(job()), JOB_DEADLINE);
        assert_eq!(reason(job().looked_in_vain(&failure(Fault::Downstream), false)), JOB_DEADLINE);
        assert_eq!(reason(job().looked_in_vain(&failure(Fault::Downstream), true)), "answer_xml");
        let unread = job().looked_in_vain(&failure(Fault::Settings), false);
        assert_eq!(reason(unread.clone()), "answer_xml");
        assert_eq!(unread.runs(), job());
    }

    #[test]
    fn a_job_is_about_the_members_that_were_called() {
        let batch = frozen(4).leaving_out([(1, 0)], Ended::Cancelled, NOW);
        let uncalled = vec![(2, Reason::new("task_missing"))];
        assert_eq!(batch.called_by(&Job { uncalled, ..job() }), ["t0", "t3"].map(TaskId::new));
    }

    #[test]
    fn permits_are_known_by_the_keys_of_their_limiters() {
        let scopes = [
            Scope::Route(RouteName::new("r")),
            Scope::Target(Target::of(&RouteName::new("r"), "a:b")),
            Scope::Limit(LimitName::new("shared")),
        ];
        let permits = scopes.iter().map(Scope::key).collect();
        assert_eq!(Job { permits, ..job() }.scopes(), scopes);
    }
}
