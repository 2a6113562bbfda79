//! Jobs of HTTP APIs, as a route describes them.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::answer::Answer;
use crate::domain::outcome::{Failure, Reason};
use crate::domain::time::Timestamp;
use crate::routes::answer::ResponseMapping;
use crate::routes::expression::Expression;
use crate::routes::limited::Limited;

/// An API that accepts a batch and finishes it later, as a job whose status has a URL.
///
/// The expressions see the whole answer, `{"status": …, "headers": {…}, "body": …}`, with the headers' names in lower
/// case and the body in the format of the route's own `response`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Job")]
#[serde(deny_unknown_fields)]
pub struct JobMapping {
    /// Holds if the call's answer, a 2xx, has begun a job. Any other answer is read as without `job`. Absent: if its
    /// status is 202.
    pub(super) accepted: Option<Expression>,
    /// The URL of the job's status, in the call's answer: absolute, or relative to the call's URL.
    pub(super) url: Expression,
    /// Holds for a look's answer if the job has ended, well or not. It is asked of answers without an error: 2xx and
    /// redirects, which are not followed.
    pub(super) ended: Expression,
    /// The URL of the job's results, in the answer of the look that saw its end: absolute, or relative to the job's
    /// URL. Absent, or `null`: that answer has them.
    pub(super) results: Option<Expression>,
    /// How to read the results. Absent: as the route's own `response` says.
    pub(super) response: Option<Box<ResponseMapping>>,
    /// The seconds between two looks.
    #[serde(default = "every_s")]
    every_s: Limited<2, 900>,
    /// The seconds from the call on after which nobody looks any more, and the tasks fail.
    #[serde(default = "deadline_s")]
    deadline_s: Limited<60, 604_800>,
}

const EVERY_S: u64 = 30;

const fn every_s() -> Limited<2, 900> {
    Limited(EVERY_S)
}

const fn deadline_s() -> Limited<60, 604_800> {
    Limited(86_400)
}

/// The result of a look at a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The job has not ended.
    Runs {
        /// The time for which the API asks to be left alone, in milliseconds.
        asked_ms: Option<u64>,
    },
    /// It has ended, and this answer has its results.
    Ended(Answer),
    /// It has ended, and its results are at this URL.
    EndedAt(String),
    /// It cannot be followed: its members fail for this reason, since it may be done.
    Lost(Reason),
    /// The look came to nothing.
    Failed(Failure),
}

impl JobMapping {
    /// The time between two looks, in milliseconds.
    pub const fn every_ms(&self) -> u64 {
        self.every_s.0 * 1_000
    }

    /// The same where the route has no `job` any more.
    pub const EVERY_MS: u64 = EVERY_S * 1_000;

    /// Returns the deadline of a job that begins now.
    pub fn deadline(&self, now: Timestamp) -> Timestamp {
        now.plus_ms(self.deadline_s.0 * 1_000)
    }

    /// Returns what contradicts itself, or the route's own mapping, as the end of a sentence about the route.
    pub(in crate::routes) fn contradiction(&self, of_route: &ResponseMapping) -> Option<String> {
        if of_route.ignores_body() {
            return Some(
                "has `job` beside `response.ignore_body`: a job's URL and its end would not be read".to_owned(),
            );
        }
        let response = self.response.as_ref()?;
        if response.ignores_body() {
            return Some("has `job.response.ignore_body`: it would not be read what a job has come to".to_owned());
        }
        Some(format!("has a `job.response` that {}", response.contradiction()?))
    }

    /// Lists fields that are allowed and surely not meant, each with what is wrong.
    pub(in crate::routes) fn doubts(&self) -> Vec<(String, String)> {
        let fields = [("accepted", self.accepted.as_ref()), ("results", self.results.as_ref())];
        let fields = fields.into_iter().filter_map(|(field, one)| Some((field, one?)));
        let mut found = Vec::new();
        for (field, expression) in fields.chain([("url", &self.url), ("ended", &self.ended)]) {
            found.extend(ResponseMapping::doubts_of_whole(expression).into_iter().map(|what| (field.to_owned(), what)));
        }
        let of_results = self.response.iter().flat_map(|response| response.doubts());
        found.extend(of_results.map(|(field, what)| (format!("response.{field}"), what)));
        found
    }
}
