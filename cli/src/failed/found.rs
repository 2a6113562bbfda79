//! Looking for failed tasks: route by route, page by page.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use groupage_aws::System;
use groupage_core::domain::failed::{Failed, Filed, Wanted};
use groupage_core::ports::Env;
use groupage_core::routes::{Route, Routes};

use super::args::Filter;
use crate::stack::Access;

/// What is left to look through.
pub struct Search<'a> {
    access: &'a Access,
    routes: VecDeque<Wanted>,
    after: Option<Filed>,
}

impl<'a> Search<'a> {
    /// For those that failed until now.
    pub fn new(access: &'a Access, routes: &Routes, filter: &Filter) -> Result<Self> {
        let of_target = filter.target.as_ref().map(|target| target.route());
        let route = filter.route.clone().or(of_target);
        let searched: Vec<&Route> = match route {
            Some(name) => match routes.get(&name) {
                Some(route) => vec![route],
                None => bail!("no route is named `{name}`"),
            },
            None => routes.iter().collect(),
        };
        let now = System.now();
        let wanted = |route: &Route| {
            let (from, until) = (filter.from.unwrap_or_default(), filter.until.unwrap_or(now).min(now));
            let (target, reason) = (filter.target.clone(), filter.reason.clone());
            Wanted { route: route.name.clone(), target, reason, from, until }.kept_for(route.keep_failed_ms, now)
        };
        Ok(Self { access, routes: searched.into_iter().map(wanted).collect(), after: None })
    }

    /// The next of them, up to `limit`; `None` if there are no more.
    pub async fn next(&mut self, limit: usize) -> Result<Option<Vec<Failed>>> {
        while let Some(wanted) = self.routes.front() {
            let page = self.access.failing().list(wanted, self.after.as_ref(), limit).await?;
            self.after = page.next;
            if self.after.is_none() {
                self.routes.pop_front();
            }
            if !page.tasks.is_empty() {
                return Ok(Some(page.tasks));
            }
        }
        Ok(None)
    }

    /// Whether everything was looked through.
    pub fn is_over(&self) -> bool {
        self.routes.is_empty()
    }
}
