//! Failed tasks run again, or are taken off the list.

use groupage_core::domain::failed::Filter;
use groupage_core::domain::{Failed, Reason, RouteName, TaskId, Timestamp};
use groupage_core::steps::failed::{Each, Search};
use maud::html;

use super::form::{Fields, Refused, text};
use super::report::{Preview, Report};
use crate::backend::{Trouble, Visit};
use crate::page::{self, id, table, time};

/// What is done with failed tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They run again.
    Retry,
    /// They are taken off the list.
    Drop,
}

impl How {
    /// The word in a form.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Drop => "drop",
        }
    }
}

/// Which failed tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// These.
    These(Vec<TaskId>),
    /// All that a filter finds.
    All(Filter),
}

/// The most tasks of one act: what one page shows, and one answer waits for.
pub const MOST: usize = 1_000;
/// This many are done at once: as many as one read of the task table looks up.
const AT_ONCE: usize = 100;

/// Which tasks a form names.
pub fn which(fields: &Fields) -> Result<Which, Refused> {
    if text(fields, "all") == "yes" {
        let filled = |name| Some(text(fields, name)).filter(|value| !value.is_empty());
        return Ok(Which::All(Filter {
            route: filled("route").map(RouteName::new),
            reason: filled("reason").map(Reason::new),
            until: filled("until").and_then(|until| until.parse().ok()).map(Timestamp),
            ..Filter::default()
        }));
    }
    chosen(fields).map(Which::These)
}

/// The tasks that a form names one by one.
pub fn chosen(fields: &Fields) -> Result<Vec<TaskId>, Refused> {
    let named = fields.iter().filter(|(name, _)| name == "id");
    let ids: Result<Vec<TaskId>, _> = named.map(|(_, value)| TaskId::parse(value)).collect();
    let ids = ids.map_err(|why| Refused::Field(why.to_owned()))?;
    match ids.len() {
        0 => Err(Refused::Field("choose a task first".to_owned())),
        1..=MOST => Ok(ids),
        _ => Err(Refused::Field(format!("choose at most {MOST} tasks"))),
    }
}

/// The fields that name the same tasks.
pub fn fields(which: &Which) -> Vec<(&'static str, String)> {
    match which {
        Which::These(ids) => ids.iter().map(|task| ("id", task.to_string())).collect(),
        Which::All(filter) => {
            let mut fields = vec![("all", "yes".to_owned())];
            fields.extend(filter.route.iter().map(|route| ("route", route.to_string())));
            fields.extend(filter.reason.iter().map(|reason| ("reason", reason.to_string())));
            fields.extend(filter.until.iter().map(|until| ("until", until.0.to_string())));
            fields
        }
    }
}

/// The tasks that the act will touch. All that fail from now on are left out.
pub async fn preview(visit: &Visit<'_>, how: How, which: &Which) -> Result<Preview, Trouble> {
    let what = match how {
        How::Retry => "run these failed tasks again",
        How::Drop => "take these failed tasks off the list",
    };
    let (rows, count) = match which {
        Which::These(ids) => (ids.iter().map(|task| vec![page::task(task)]).collect::<Vec<_>>(), ids.len()),
        Which::All(filter) => {
            let found = found(visit, filter).await?;
            let row = |failed: &Failed| {
                vec![page::task(&failed.filed.id), id(failed.reason.as_str()), time(failed.filed.at, visit.now)]
            };
            (found.iter().map(row).collect(), found.len())
        }
    };
    let columns: &[&str] = match which {
        Which::These(_) => &["task"],
        Which::All(_) => &["task", "reason", "failed"],
    };
    let touches = html! {
        (table("What it touches", columns, rows, "No failed task is left."))
        @if count >= MOST { p { "At most " (MOST) " at a time: repeat it for the others." } }
    };
    Ok(Preview { what: what.to_owned(), touches, count: count as u64 })
}

/// Does it, a hundred at a time.
pub async fn perform(visit: &Visit<'_>, how: How, which: &Which) -> Result<Report, Trouble> {
    let ids = match which {
        Which::These(ids) => ids.clone(),
        Which::All(filter) => found(visit, filter).await?.into_iter().map(|failed| failed.filed.id).collect(),
    };
    let (what, word) = match how {
        How::Retry => ("failed tasks run again", "runs again"),
        How::Drop => ("failed tasks are taken off the list", "is taken off the list"),
    };
    let mut report = Report { done: 0, what, each: Vec::new() };
    for some in ids.chunks(AT_ONCE) {
        let each: Each = match how {
            How::Retry => visit.failing().retry(visit.routes()?, some).await?,
            How::Drop => visit.failing().unfile(some).await,
        };
        for (task, outcome) in each {
            let became = match outcome {
                Ok(Ok(())) => {
                    report.done += 1;
                    word.to_owned()
                }
                Ok(Err(refused)) => refused.to_string(),
                Err(error) => error.to_string(),
            };
            report.each.push((task.to_string(), became));
        }
    }
    Ok(report)
}

async fn found(visit: &Visit<'_>, filter: &Filter) -> Result<Vec<Failed>, Trouble> {
    let search = Search::new(visit.routes()?, filter, visit.now);
    let mut search = search.map_err(|refused| Trouble::Unknown(refused.to_string()))?;
    let mut found = Vec::new();
    while found.len() < MOST {
        match search.next(&visit.failing(), AT_ONCE.min(MOST - found.len())).await? {
            Some(page) => found.extend(page),
            None => break,
        }
    }
    Ok(found)
}
