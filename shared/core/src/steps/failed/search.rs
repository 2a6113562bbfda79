//! Looking for failed tasks of several routes: route by route, page by page.

use std::collections::VecDeque;

use super::Failing;
use crate::domain::failed::{Filed, Filter, Wanted};
use crate::domain::{Failed, RouteName, Timestamp};
use crate::ports::{Env, Failures, Lanes, Outbox, Tasks};
use crate::routes::{Route, Routes};
use crate::steps::Error;

/// What is left to look through.
#[derive(Clone, Debug)]
pub struct Search {
    routes: VecDeque<Wanted>,
    after: Option<Filed>,
}

/// The filter names a route that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no route is named `{0}`")]
pub struct NoRoute(RouteName);

impl Search {
    /// For those that failed until now.
    ///
    /// # Errors
    /// [`NoRoute`].
    pub fn new(routes: &Routes, filter: &Filter, now: Timestamp) -> Result<Self, NoRoute> {
        let of_target = filter.target.as_ref().map(|target| target.route());
        let searched: Vec<&Route> = match filter.route.clone().or(of_target) {
            Some(name) => vec![routes.get(&name).ok_or(NoRoute(name))?],
            None => routes.iter().collect(),
        };
        let wanted = |route: &Route| {
            let (from, until) = (filter.from.unwrap_or_default(), filter.until.unwrap_or(now).min(now));
            let (target, reason) = (filter.target.clone(), filter.reason.clone());
            Wanted { route: route.name.clone(), target, reason, from, until }.kept_for(route.keep_failed_ms, now)
        };
        Ok(Self { routes: searched.into_iter().map(wanted).collect(), after: None })
    }

    /// The next of them, up to `limit`; `None` if there are no more.
    ///
    /// # Errors
    /// A table did not answer; the same call may be made again.
    pub async fn next<S: Tasks + Failures + Lanes, Q: Outbox, E: Env>(
        &mut self,
        failing: &Failing<'_, S, Q, E>,
        limit: usize,
    ) -> Result<Option<Vec<Failed>>, Error> {
        while let Some(some) = self.look(failing, limit).await? {
            if !some.is_empty() {
                return Ok(Some(some));
            }
        }
        Ok(None)
    }

    /// What one look finds, up to `limit` and perhaps nothing; `None` if everything was looked through. For those who
    /// read no more than they said.
    ///
    /// # Errors
    /// A table did not answer; the same call may be made again.
    pub async fn look<S: Tasks + Failures + Lanes, Q: Outbox, E: Env>(
        &mut self,
        failing: &Failing<'_, S, Q, E>,
        limit: usize,
    ) -> Result<Option<Vec<Failed>>, Error> {
        let Some(wanted) = self.routes.front() else { return Ok(None) };
        let page = failing.list(wanted, self.after.as_ref(), limit).await?;
        self.after = page.next;
        if self.after.is_none() {
            self.routes.pop_front();
        }
        Ok(Some(page.tasks))
    }

    /// Whether everything was looked through.
    pub fn is_over(&self) -> bool {
        self.routes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Target;

    #[test]
    fn only_the_routes_that_are_asked_for_are_looked_through() {
        let route = |name| format!("  - {{ name: {name}, target: truck, downstream: pull }}\n");
        let routes = Routes::parse(&format!("version: 1\nroutes:\n{}{}", route("r"), route("s"))).unwrap();
        let searched = |filter: Filter| {
            let search = Search::new(&routes, &filter, Timestamp(100))?;
            Ok::<_, NoRoute>(search.routes.into_iter().map(|wanted| wanted.route.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(searched(Filter::default()).unwrap(), ["r", "s"]);
        let route = Some(RouteName::new("s"));
        assert_eq!(searched(Filter { route, ..Filter::default() }).unwrap(), ["s"]);
        let target = Some(Target::new("r:t"));
        assert_eq!(searched(Filter { target, ..Filter::default() }).unwrap(), ["r"]);
        let route = Some(RouteName::new("gone"));
        let refused = searched(Filter { route, ..Filter::default() }).unwrap_err();
        assert_eq!(refused.to_string(), "no route is named `gone`");
    }

    #[test]
    fn nothing_that_fails_while_one_looks_is_found() {
        let routes = Routes::parse("version: 1\nroutes: [{ name: r, target: t, downstream: pull }]").unwrap();
        let filter = Filter { until: Some(Timestamp(200)), ..Filter::default() };
        let search = Search::new(&routes, &filter, Timestamp(100)).unwrap();
        assert_eq!(search.routes[0].until, Timestamp(100));
    }
}
