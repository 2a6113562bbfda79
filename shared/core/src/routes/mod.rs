//! Routes: how tasks of a kind become calls. Written as YAML, checked by `groupage check`, compiled here.
//!
//! A task takes the first route whose `when` holds. Everything a route says comes from its operator; the only things a
//! task contributes are its payload and the Target computed from it, so no address that a task brings along is called.

mod address;
mod allowed;
mod answer;
mod body;
mod closing;
mod doubts;
pub mod downstream;
mod encoding;
mod expression;
mod file;
mod growth;
mod limited;
mod limits;
mod members;
mod mistake;
mod named;
mod rendering;
mod secrets;
mod sharing;
mod targets;
mod template;
mod traits;
mod tried;

pub use allowed::{Allowed, Forbidden, Refused, SECRET_PREFIX};
use answer::Otherwise;
pub use answer::{Class, Earlier, ResponseMapping};
pub use body::{Body, Item, MAX_BODY_BYTES, Renderable, Unmade};
pub use closing::Closing;
pub use doubts::Doubt;
pub use downstream::{Downstream, HeaderValue, Http, JobMapping, Progress, Secret, USUAL_MS};
pub use expression::Expression;
pub use file::{File, Notify, OnReject, schema};
pub use limits::Pause;
pub use named::Named;
pub use secrets::{Filled, SecretPlace, filled};
use sharing::Sharing;
pub use targets::Settings;

use crate::domain::answer::{Answer, NoAnswer};
use crate::domain::destination::Destination;
use crate::domain::gate::{Limits, Rates, Scope};
use crate::domain::id::{BatchId, LaneId, MAX_TARGET_BYTES, RouteName, Target, TaskId, Turn};
use crate::domain::lane::{MAX_SEQUENCE, Numbering, OnFailure, Order};
use crate::domain::outcome::{Fault, Reading, Reason};
use crate::domain::retry;
use crate::domain::task_message::{Code, Rejection, TaskMessage};
use crate::domain::traits::Traits;

/// The routes file is wrong: where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct Error {
    /// Counted from 1; 0 if the file as a whole is meant.
    pub line: u64,
    /// Counted from 1.
    pub column: u64,
    /// What is wrong, naming the field.
    pub what: String,
}

/// The largest routes file, in bytes: the route table keeps it in one item.
pub const MAX_FILE_BYTES: usize = 390_000;

/// Added to a call's timeout for everything around it, in milliseconds: waiting for its time, recording the outcome.
const MARGIN_MS: u64 = 10_000;
/// A batch is taken apart for so long at most, in milliseconds: as long as the longest calls of other routes may take.
const BISECTION_MS: u64 = 70_000;

/// A checked routes file.
#[derive(Clone, Debug)]
pub struct Routes {
    routes: Vec<Route>,
    gone: Vec<RouteName>,
}

/// One route, compiled.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name; part of every Target it computes.
    pub name: RouteName,
    /// Where it begins in the file, counted from 1.
    line: u64,
    when: Expression,
    target: Expression,
    ordered: Option<Ordered>,
    reads: traits::Reads,
    /// How many shards each of its Targets has; 1 if it is ordered.
    pub shards: u8,
    usual: Settings,
    targets: Vec<targets::Exception>,
    /// Whether full batches that arrive together need no leader.
    pub express: bool,
    /// Where the call goes.
    pub downstream: Downstream,
    body: Option<template::Template>,
    /// When and how often to try again, and for how long.
    pub retry: retry::Policy,
    otherwise: Otherwise,
    /// How many of its calls may be in flight.
    pub in_flight: Option<usize>,
    /// The time for which a call that timed out still counts as in flight, in milliseconds.
    pub keep_timed_out_ms: u64,
    /// The rates at which its calls start.
    pub rates: Rates,
    /// The limits that it shares with other routes, in the order in which a call passes them.
    pub named: Vec<Named>,
    /// Its leases last at least so long, in milliseconds.
    least_lease_ms: u64,
    sharing: Option<Sharing>,
    /// Whose calls a `Retry-After` holds back.
    pub pause: Pause,
    /// What happens to a batch that is refused as a whole.
    pub on_reject: OnReject,
    /// Who is told.
    pub notify: Notify,
    /// For how long a failed task is listed and can be retried, in milliseconds.
    pub keep_failed_ms: u64,
}

/// How a route's tasks follow each other.
#[derive(Clone, Debug)]
struct Ordered {
    by: Expression,
    sequence: Option<Expression>,
    first: Turn,
    on_failure: OnFailure,
}

/// Where a task goes.
#[derive(Clone, Debug)]
pub struct Assigned<'a> {
    /// Its route.
    pub route: &'a Route,
    /// What it is grouped by.
    pub target: Target,
    /// Its place among the tasks of its order key, if the route is ordered.
    pub order: Option<Order>,
    /// What grouping needs to know of it beside its size.
    pub traits: Traits,
}

impl Route {
    /// Whether its batches wait for workers that pull them.
    pub fn is_pulled(&self) -> bool {
        self.downstream.is_pulled()
    }

    /// Whether its tasks have order keys.
    pub const fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Returns whether its tasks bring their numbers along.
    pub fn is_numbered(&self) -> bool {
        self.ordered.as_ref().is_some_and(|ordered| ordered.sequence.is_some())
    }

    /// What a failed task means to those behind it; only a person lets tasks go on whose route is not ordered any more.
    pub fn on_failure(&self) -> OnFailure {
        self.ordered.as_ref().map_or(OnFailure::Hold, |ordered| ordered.on_failure)
    }

    /// Judges what a call of these members came to. An `earlier` call of some may be done: it may run still, or was
    /// carried out.
    pub fn read(&self, answer: Result<Answer, NoAnswer>, members: &[TaskId], earlier: Earlier<'_>) -> Reading {
        self.downstream.response().read(answer, members, &self.otherwise, earlier)
    }

    /// Returns the settings of its API's jobs, if it has some.
    pub fn job(&self) -> Option<&JobMapping> {
        self.downstream.http()?.job.as_deref()
    }

    /// Returns the URL of the job that a call's answer has begun, or why it cannot be followed; `None`: the answer is
    /// to be read.
    pub fn begun(
        &self,
        answer: &Result<Answer, NoAnswer>,
        batch: &BatchId,
        target: &Target,
    ) -> Option<Result<String, Reason>> {
        self.downstream.http()?.begun(answer.as_ref().ok()?, batch, target)
    }

    /// Judges a look at the job at this URL. Without its `job`, a route cannot say whether that has ended.
    pub fn looked(&self, answer: Result<Answer, NoAnswer>, url: &str) -> Progress {
        let runs = Progress::Runs { asked_ms: None };
        self.downstream.http().map_or(runs, |http| http.looked(answer, url, &self.otherwise))
    }

    /// Reads the results of a job of these members, as [`read`](Self::read) reads an answer. What could not be fetched
    /// says nothing of the job.
    pub fn read_results(&self, answer: Result<Answer, NoAnswer>, members: &[TaskId], earlier: Earlier<'_>) -> Reading {
        match self.downstream.http() {
            Some(http) => http.read_results(answer, members, &self.otherwise, earlier),
            None => self.read(answer, members, earlier),
        }
    }

    /// The place of a task among those of its order key.
    fn order(&self, data: &expression::Data) -> Result<Option<Order>, Rejection> {
        let Some(Ordered { by, sequence, first, .. }) = &self.ordered else { return Ok(None) };
        let key = self.text("ordered_by", by, data, Code::BadOrder)?;
        let (numbering, sequence) = match sequence {
            None => (Numbering::ByArrival, None),
            Some(expression) => {
                let number = expression.value(data).as_whole_number().filter(|number| *number <= MAX_SEQUENCE);
                let number = number.ok_or_else(|| {
                    let detail = format!(
                        "`sequence` of route `{}`, `{}`, gives no whole number from 0 to {MAX_SEQUENCE} for the payload",
                        self.name,
                        expression.as_str()
                    );
                    Rejection::new(Code::BadOrder, detail)
                })?;
                (Numbering::BySequence { first: *first }, Some(Turn(number)))
            }
        };
        Ok(Some(Order { lane: LaneId::of(&self.name, &key), numbering, sequence }))
    }

    /// The string that an expression of this route gives for a payload.
    fn text(
        &self,
        field: &str,
        expression: &Expression,
        data: &expression::Data,
        code: Code,
    ) -> Result<String, Rejection> {
        let bad = |what: &str| {
            let detail = format!("`{field}` of route `{}`, `{}`, {what}", self.name, expression.as_str());
            Rejection::new(code, detail)
        };
        let value = expression.value(data).into_string();
        let value = value.ok_or_else(|| bad("gives no string for the payload"))?;
        if value.is_empty() {
            return Err(bad("gives an empty string"));
        }
        if value.len() > MAX_TARGET_BYTES {
            return Err(bad("gives a string of over 512 bytes"));
        }
        Ok(value)
    }

    /// What its gate lets through.
    pub const fn limits(&self) -> Limits {
        Limits { in_flight: self.in_flight, rates: self.rates, share: None }
    }

    /// Returns how long all calls of a claim may take, and so how long its permits last if its worker dies: the timeout
    /// twice, since a call whose secret was refused is made again with a newer one, which begins within `USUAL_MS` of
    /// the first; and time to take a batch apart, where the route says so. The timeout of a route that does not say is
    /// `patience_ms`.
    pub fn lease_ms(&self, patience_ms: u64) -> u64 {
        let calls_ms = match self.downstream.timeout_ms() {
            Some(timeout_ms) => timeout_ms + timeout_ms.min(USUAL_MS) + MARGIN_MS,
            None => 2 * patience_ms + MARGIN_MS,
        };
        let apart_ms = if self.on_reject == OnReject::Bisect { BISECTION_MS } else { 0 };
        calls_ms.max(apart_ms).max(self.least_lease_ms)
    }

    /// What a `Retry-After` that was answered to a call for `target` holds back.
    pub fn pause_scope(&self, target: &Target) -> Scope {
        match self.pause {
            Pause::Target => Scope::Target(target.whole()),
            Pause::Route => Scope::Route(self.name.clone()),
        }
    }

    /// Whose calls a failure of a call for `target` says something of.
    pub fn failure_scope(&self, target: &Target, fault: Fault) -> Scope {
        match fault {
            Fault::Settings => Scope::Route(self.name.clone()),
            Fault::Downstream | Fault::Ours | Fault::Call | Fault::Conflict => self.pause_scope(target),
        }
    }
}

impl Routes {
    /// Reads and checks a routes file.
    ///
    /// # Errors
    /// The first mistake, with its line and field.
    pub fn parse(yaml: &str) -> Result<Self, Error> {
        if yaml.len() > MAX_FILE_BYTES {
            let what = format!("the file is over {MAX_FILE_BYTES} bytes, which is all that the route table takes");
            return Err(Error { line: 0, column: 0, what });
        }
        File::parse(yaml)?.compile()
    }

    /// The same routes, beside the names that former files had and this one has not.
    #[must_use]
    pub fn without(self, gone: Vec<RouteName>) -> Self {
        Self { gone, ..self }
    }

    /// The names of former routes of which tasks may be left.
    pub fn gone(&self) -> &[RouteName] {
        &self.gone
    }

    /// The route with this name.
    pub fn get(&self, name: &RouteName) -> Option<&Route> {
        self.routes.iter().find(|route| route.name == *name)
    }

    /// Whether the batches of this Target's route wait for workers that pull them.
    pub fn is_pulled(&self, target: &Target) -> bool {
        self.get(&target.route()).is_some_and(Route::is_pulled)
    }

    /// When the windows of this Target close, if the clock says so.
    pub fn closing(&self, target: &Target) -> Option<&Closing> {
        self.get(&target.route())?.for_target(target).closing.as_ref()
    }

    /// All routes, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }

    /// The queue that a task is sent to: the one that keeps order, if its order is that of arrival. A message that
    /// makes no sense is rejected by the step that reads it.
    pub fn intake(&self, message: &TaskMessage) -> Destination {
        match self.assign(&message.payload) {
            Ok(Assigned { order: Some(Order { lane, numbering: Numbering::ByArrival, .. }), .. }) => {
                Destination::InOrder(lane)
            }
            Ok(_) | Err(_) => Destination::Tasks,
        }
    }

    /// Finds a payload's route, and computes its Target and its place in an order.
    ///
    /// # Errors
    /// A [`Rejection`] if no route wants it, its Target or another value that its route asks for is not usable, or it
    /// is larger than its route's batches.
    pub fn assign(&self, payload: &str) -> Result<Assigned<'_>, Rejection> {
        let data = expression::Data::parse(payload)
            .map_err(|_| Rejection::new(Code::NotJson, "the payload is nested too deeply"))?;
        let route = self
            .routes
            .iter()
            .find(|route| route.when.holds(&data))
            .ok_or_else(|| Rejection::new(Code::NoRoute, "no route's `when` holds for the payload"))?;
        let target = Target::of(&route.name, &route.text("target", &route.target, &data, Code::BadTarget)?);
        let order = route.order(&data)?;
        let most = route.for_target(&target).batch.max_bytes;
        if payload.len() as u64 > most {
            let detail = format!("the payload is over `max_bytes` of route `{}`, {most}", route.name);
            return Err(Rejection::new(Code::TooLarge, detail));
        }
        let traits = route.traits(&target, &data)?;
        Ok(Assigned { route, target, order, traits })
    }
}

#[cfg(test)]
mod tests;
