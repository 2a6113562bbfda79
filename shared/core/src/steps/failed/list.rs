//! Listing failed tasks: the sixteen parts of a route, merged in the order in which the tasks failed.

use futures::{StreamExt, TryStreamExt, stream};

use super::Failing;
use crate::domain::failed::{Failed, Filed, Wanted};
use crate::domain::id::Part;
use crate::ports::{Env, Failures, Lanes, Outbox, Tasks};
use crate::steps::Error;

/// Failed tasks, those first that failed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The tasks.
    pub tasks: Vec<Failed>,
    /// Behind which place the next page begins, if there is one. A page may be empty and not the last: few of those
    /// that were looked at may be wanted.
    pub next: Option<Filed>,
}

/// How many parts are read at once.
const PARTS_AT_ONCE: usize = 16;

impl<S: Tasks + Failures + Lanes, Q: Outbox, E: Env> Failing<'_, S, Q, E> {
    /// Reads a page of failed tasks behind `after`: up to `limit` that are wanted, of as many of each part.
    pub async fn list(&self, wanted: &Wanted, after: Option<&Filed>, limit: usize) -> Result<Page, Error> {
        let reading = Part::all().map(|part| async move {
            let between = (wanted.from, wanted.until);
            self.store.failed((&wanted.route, part), between, after, limit).await
        });
        let parts: Vec<Vec<Failed>> =
            stream::iter(reading.collect::<Vec<_>>()).buffered(PARTS_AT_ONCE).try_collect().await?;
        Ok(merged(parts, wanted, limit))
    }
}

/// The first of these parts' tasks that are wanted. What lies behind the end of a part that has more may not be the
/// next.
fn merged(parts: Vec<Vec<Failed>>, wanted: &Wanted, limit: usize) -> Page {
    let ends = parts.iter().filter(|part| part.len() >= limit).filter_map(|part| part.last());
    let seen_to = ends.map(|failed| failed.filed.clone()).min();
    let mut all: Vec<Failed> = parts.into_iter().flatten().collect();
    all.sort_by(|a, b| a.filed.cmp(&b.filed));
    all.retain(|failed| seen_to.as_ref().is_none_or(|end| failed.filed <= *end) && wanted.wants(failed));
    let has_more = all.len() > limit;
    all.truncate(limit);
    let next = if has_more { all.last().map(|failed| failed.filed.clone()) } else { seen_to };
    Page { tasks: all, next }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{Failure, Reason, RouteName, Target, TaskId, Timestamp};

    fn failed(n: usize, at: u64) -> Failed {
        let reason = Reason::new(if n.is_multiple_of(3) { "wanted" } else { "other" });
        let failure = Failure { target: Target::new("r:t"), reason, attempts: 1, answer: None, keep_ms: 0 };
        Failed::of(TaskId::new(format!("t{n}")), Timestamp(at), &failure)
    }

    proptest! {
        #[test]
        fn pages_show_every_task_that_is_wanted_once_and_in_order(
            times in proptest::collection::vec(0_u64..30, 0..60), limit in 1_usize..9, all in any::<bool>(),
        ) {
            let tasks: Vec<Failed> = times.iter().enumerate().map(|(n, at)| failed(n, *at)).collect();
            let reason = (!all).then(|| Reason::new("wanted"));
            let (from, until) = (Timestamp(2), Timestamp(28));
            let wanted = Wanted { route: RouteName::new("r"), target: None, reason, from, until };
            let (mut after, mut shown): (Option<Filed>, Vec<Failed>) = (None, Vec::new());
            loop {
                let of = |part: Part| {
                    let is_next = |failed: &&Failed| {
                        Part::of_task(&failed.filed.id) == part
                            && (from..until).contains(&failed.filed.at)
                            && after.as_ref().is_none_or(|after| failed.filed > *after)
                    };
                    let mut found: Vec<Failed> = tasks.iter().filter(is_next).cloned().collect();
                    found.sort_by(|a, b| a.filed.cmp(&b.filed));
                    found.truncate(limit);
                    found
                };
                let page = merged(Part::all().map(of).collect(), &wanted, limit);
                prop_assert!(page.tasks.len() <= limit);
                shown.extend(page.tasks);
                let Some(next) = page.next else { break };
                prop_assert!(after.as_ref().is_none_or(|after| next > *after), "it goes on");
                after = Some(next);
            }
            let mut expected: Vec<Failed> = tasks.into_iter().filter(|failed| wanted.wants(failed)).collect();
            expected.sort_by(|a, b| a.filed.cmp(&b.filed));
            prop_assert_eq!(shown, expected);
        }
    }
}
