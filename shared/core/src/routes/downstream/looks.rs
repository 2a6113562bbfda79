//! Looks at jobs: which answer has begun one, where to look at it, and what a look says.
//!
//! A URL that an answer gives is looked at only where the route calls: a look carries the route's secrets.

use std::collections::BTreeMap;

use url::Url;

use super::filled::Filling;
use super::http::Http;
use super::job::Progress;
use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::id::{BatchId, Target, TaskId};
use crate::domain::outcome::{Failure, Fault, JOB_NOT_FOUND, JOB_URL_MISSING, JOB_URL_REFUSED, Reading, Reason, Reply};
use crate::routes::answer::{Class, Earlier, Otherwise, ResponseMapping, without_results};
use crate::routes::expression::Data;

/// The longest URL of a job, in bytes: the batch keeps it.
const MAX_URL_BYTES: usize = 2_048;

impl Http {
    /// Returns the mapping that reads a job's results.
    pub fn results_mapping(&self) -> &ResponseMapping {
        self.job.as_ref().and_then(|job| job.response.as_deref()).unwrap_or(&self.response)
    }

    /// Returns the URL of the job that a call's answer has begun, or why it cannot be followed; `None`: it has begun
    /// none.
    pub(in crate::routes) fn begun(
        &self,
        answer: &Answer,
        batch: &BatchId,
        target: &Target,
    ) -> Option<Result<String, Reason>> {
        let job = self.job.as_deref()?;
        if Class::of(answer.status) != Class::Answer {
            return None;
        }
        let seen = self.response.see(answer).data;
        let is_accepted = job.accepted.as_ref().map_or(answer.status == 202, |accepted| accepted.holds(&seen));
        is_accepted.then(|| {
            // A secret in the call's path is none of a job's URL, which is stored.
            let filling = Filling { batch, target, secrets: &BTreeMap::new() };
            let base = self.url.filled(filling).map_err(|_| Reason::new(JOB_URL_REFUSED))?;
            resolved(&job.url.value(&seen), &base)
        })
    }

    /// Judges a look at the job at this URL.
    pub(in crate::routes) fn looked(
        &self,
        answer: Result<Answer, NoAnswer>,
        url: &str,
        otherwise: &Otherwise,
    ) -> Progress {
        let Some(job) = self.job.as_deref() else { return Progress::Runs { asked_ms: None } };
        let answer = match answer {
            Ok(answer) => answer,
            Err(no_answer) => return Progress::Failed(no_answer.into_failure()),
        };
        let failed = |reason, fault| Progress::Failed(Failure { reason, retry_after_ms: answer.retry_after_ms, fault });
        let (class, reason) = (otherwise.class(answer.status), Class::reason(answer.status));
        match (class, answer.status) {
            (Class::Answer, _) | (Class::Refusal, ..=399) => {}
            (Class::Refusal, 404 | 410) => return Progress::Lost(Reason::new(JOB_NOT_FOUND)),
            (Class::Outage | Class::Conflict | Class::Refusal, _) => return failed(reason, Fault::Downstream),
        }
        let seen = self.response.see(&answer);
        if job.ended.holds(&seen.data) {
            let results = job.results.as_ref().map(|results| results.value(&seen.data));
            return match results.filter(|results| !results.is_null()) {
                // Then the answer itself must say what has become of the members.
                None if job.results.is_some() && !self.results_mapping().has_entries_in(&answer) => {
                    Progress::Failed(without_results())
                }
                None => Progress::Ended(answer),
                Some(results) => match Url::parse(url).map(|base| resolved(&results, &base)) {
                    Ok(Ok(url)) => Progress::EndedAt(url),
                    Ok(Err(reason)) => failed(reason, Fault::Settings),
                    Err(_) => failed(Reason::new(JOB_URL_REFUSED), Fault::Settings),
                },
            };
        }
        match seen.unreadable {
            _ if class != Class::Answer => failed(reason, Fault::Downstream),
            None => Progress::Runs { asked_ms: answer.retry_after_ms },
            Some(why) if why.is_outage() => failed(Reason::new(why.as_str()), Fault::Downstream),
            Some(why) => failed(Reason::new(why.as_str()), Fault::Settings),
        }
    }

    /// Reads the results of a job.
    pub(in crate::routes) fn read_results(
        &self,
        answer: Result<Answer, NoAnswer>,
        members: &[TaskId],
        otherwise: &Otherwise,
        earlier: Earlier<'_>,
    ) -> Reading {
        let is_cut_short = answer == Err(NoAnswer::TooLarge);
        let is_answer = answer.as_ref().is_ok_and(|answer| Class::of(answer.status) == Class::Answer);
        if is_answer && answer.as_ref().is_ok_and(|answer| self.results_mapping().is_blank_in(answer)) {
            return Reply::Unavailable(without_results()).into();
        }
        let Reading { reply, outputs } = self.results_mapping().read(answer, members, otherwise, earlier);
        let reply = match reply {
            // They grow no smaller.
            Reply::Unavailable(Failure { reason, .. }) if is_cut_short => Reply::Refused(reason),
            // It is the read that was refused, and says nothing of the job.
            Reply::Refused(reason) if !is_answer => {
                Reply::Unavailable(Failure { reason, retry_after_ms: None, fault: Fault::Downstream })
            }
            other @ (Reply::PerMember(_) | Reply::Refused(_) | Reply::Begun(_) | Reply::Unavailable(_)) => other,
        };
        Reading { reply, outputs }
    }

    /// Returns where a look goes: to this URL, if it is where the route calls.
    ///
    /// # Errors
    /// The reason for which no look is made.
    pub fn look_url(&self, url: &str) -> Result<Url, Reason> {
        let refused = || Reason::new(JOB_URL_REFUSED);
        let base = self.url.origin().ok_or_else(refused)?;
        let mut url = Url::parse(url).map_err(|_| refused())?;
        if !is_same_origin(&url, &base) {
            return Err(refused());
        }
        // What the route's own URL says of its caller is not stored.
        let set = url.set_username(base.username()).and_then(|()| url.set_password(base.password()));
        set.map_err(|()| refused())?;
        Ok(url)
    }
}

/// Returns the absolute URL that an answer gives, if it is of the same origin as `base`.
fn resolved(said: &Data, base: &Url) -> Result<String, Reason> {
    let said = said.clone().into_string().filter(|said| !said.trim().is_empty());
    let said = said.ok_or_else(|| Reason::new(JOB_URL_MISSING))?;
    let refused = || Reason::new(JOB_URL_REFUSED);
    let mut base = base.clone();
    base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| refused())?;
    let mut url = base.join(said.trim()).map_err(|_| refused())?;
    url.set_fragment(None);
    let url = Some(url).filter(|url| is_same_origin(url, &base)).map(String::from);
    url.filter(|url| url.len() <= MAX_URL_BYTES).ok_or_else(refused)
}

fn is_same_origin(url: &Url, base: &Url) -> bool {
    let of = |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    of(url) == of(base) && url.username().is_empty() && url.password().is_none()
}

#[cfg(test)]
mod tests;
