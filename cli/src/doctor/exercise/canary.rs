//! The canary tasks, and the route that they need.

use anyhow::{Result, bail};
use groupage_core::domain::{NotificationQueue, RouteName, TaskId};
use groupage_core::routes::{Route, Routes};
use serde::{Deserialize, Serialize};

/// The route's name.
const ROUTE: &str = "canary";

/// What the routes file must hold, before any route that would take the canaries.
pub const LINES: &str = "  - name: canary
    when: \"canary\"
    target: canary.target
    batch: { max_items: 100, wait_ms: 120000, express: false }
    downstream: pull
    notify: { failure: none, success: none }
    keep_failed_days: 1";

/// The most members of a batch of the route.
pub const FULL: usize = 100;
/// As many wait for more: the fewer are missing, the more often their leader looks.
pub const WAITING: usize = FULL - 3;
/// How long its batches wait for more, in milliseconds.
pub const WAIT_MS: u64 = 120_000;

/// The canary route.
pub fn route() -> RouteName {
    RouteName::new(ROUTE)
}

/// What the echo does with a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Takes it.
    Succeed,
    /// Refuses it for good.
    Fail,
    /// Asks for it once more, and takes it then.
    RetryOnce,
}

/// A canary task.
#[derive(Clone, Debug)]
pub struct Canary {
    /// Its id, unlike any of another run.
    pub id: TaskId,
    /// Which of the exercise's parts it belongs to.
    pub part: &'static str,
    target: &'static str,
    /// What the echo does with it.
    pub does: Does,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a TaskId,
    payload: Payload<&'a str>,
}

/// What a canary carries.
#[derive(Serialize, Deserialize)]
pub struct Payload<T = String> {
    /// That it is one.
    pub canary: Orders<T>,
}

/// What a canary asks for.
#[derive(Serialize, Deserialize)]
pub struct Orders<T = String> {
    target: T,
    /// What the echo does with it.
    pub does: Does,
}

impl Canary {
    /// The n-th of a run's part, for a Target.
    pub fn new(run: &str, (part, target): (&'static str, &'static str), n: usize, does: Does) -> Self {
        Self { id: TaskId::new(format!("canary-{run}-{part}-{n}")), part, target, does }
    }

    const fn payload(&self) -> Payload<&str> {
        Payload { canary: Orders { target: self.target, does: self.does } }
    }

    /// Its message.
    pub fn message(&self) -> String {
        let body = Body { id: &self.id, payload: self.payload() };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

/// Makes sure that canaries reach the doctor and nobody else, and that nobody is told of them.
pub fn check(routes: &Routes) -> Result<()> {
    let lines = || {
        format!(
            "Put these lines into your routes file, before a route that would take the canaries, and push it:\n{LINES}"
        )
    };
    let Some(route) = routes.get(&route()) else {
        bail!("no route named `{ROUTE}` is in force, and canary tasks must go nowhere else. {}", lines());
    };
    if let Some(wrong) = unfit(route) {
        bail!("the route `{ROUTE}` {wrong}. {}", lines());
    }
    for does in [Does::Succeed, Does::Fail, Does::RetryOnce] {
        let canary = Canary::new("run", ("burst", "burst"), 0, does);
        let payload = serde_json::to_string(&canary.payload())?;
        match routes.assign(&payload) {
            Ok(assigned) if assigned.route.name == route.name => {}
            Ok(assigned) => bail!("the route `{}` would take the canaries. {}", assigned.route.name, lines()),
            Err(rejection) => bail!("the canaries would be refused: {}. {}", rejection.detail, lines()),
        }
    }
    Ok(())
}

/// What makes the route unfit: canaries would be called elsewhere, told of, or take another way
/// than the exercise is about.
fn unfit(route: &Route) -> Option<&'static str> {
    let tells = [&route.notify.failure, &route.notify.success].iter().any(|queue| **queue != NotificationQueue::None);
    let faults = [
        (!route.is_pulled(), "calls a downstream; it must say `downstream: pull`"),
        (tells, "tells somebody of its tasks; it must say `notify: { failure: none, success: none }`"),
        (route.is_ordered(), "is ordered; it must not be"),
        (route.express, "makes batches without a leader; it must say `express: false`"),
        (route.usual().batch.max_items != FULL, "must say `max_items: 100`"),
        (route.usual().batch.wait_ms != WAIT_MS, "must say `wait_ms: 120000`: a leader waits by messages then"),
    ];
    faults.into_iter().find_map(|(is_so, wrong)| is_so.then_some(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(lines: &str) -> Routes {
        Routes::parse(&format!("version: 1\nroutes:\n{lines}\n")).unwrap()
    }

    #[test]
    fn the_lines_that_are_asked_for_will_do_and_are_those_of_the_guide() {
        check(&routes(LINES)).unwrap();
        assert!(include_str!("../../../../docs/guides/doctor.md").contains(LINES));
    }

    #[test]
    fn canaries_that_would_go_elsewhere_are_not_sent() {
        let elsewhere = "  - { name: all, target: \"'x'\", downstream: { http: { url: 'https://a.example/' } } }";
        let error = |lines: &str| check(&routes(lines)).unwrap_err().to_string();
        assert!(error(elsewhere).starts_with("no route named `canary` is in force"));
        let text = error(&format!("{elsewhere}\n{LINES}"));
        assert!(text.starts_with("the route `all` would take the canaries") && text.ends_with(LINES), "{text}");
        check(&routes(&format!("{LINES}\n{elsewhere}"))).unwrap();
        for (is, becomes, says) in [
            ("downstream: pull", "downstream: { http: { url: 'https://a.example/' } }", "calls a downstream"),
            ("failure: none, ", "", "tells somebody"),
            (", express: false", "", "without a leader"),
            ("wait_ms: 120000", "wait_ms: 1000", "wait_ms: 120000"),
            ("max_items: 100", "max_items: 99", "max_items: 100"),
            ("target: canary.target", "target: canary.none", "would be refused"),
        ] {
            assert!(LINES.contains(is), "{is}");
            let text = error(&LINES.replace(is, becomes));
            assert!(text.contains(says), "{text}");
        }
    }
}
