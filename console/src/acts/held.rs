//! Tasks that are held back go on: those of a list, and those behind a failed one in its lane. And a stream is
//! committed.

use groupage_core::domain::{LaneId, ListId, RouteName, StreamId};
use groupage_core::steps::lane::Resumed;
use maud::html;

use super::report::{Preview, Report};
use crate::backend::{Trouble, Visit};

/// How many tasks go on: those that are asked for, if as many wait.
pub async fn preview_release(visit: &Visit<'_>, list: &ListId, count: u64) -> Result<Preview, Trouble> {
    let progress = visit.listing().progress(list).await?.map_err(|refused| Trouble::Unknown(refused.to_string()))?;
    let count = count.min(progress.waiting);
    let what = format!("release the next {count} of {} tasks that wait on the list {list}", progress.waiting);
    Ok(Preview { what, touches: html! {}, count })
}

/// Releases them. The same key releases nothing more.
pub async fn release(visit: &Visit<'_>, list: &ListId, count: u64, key: &str) -> Result<Report, Trouble> {
    let taken = visit.listing().release(list, key, count).await?;
    let taken = taken.map_err(|refused| Trouble::Refused(refused.to_string()))?;
    let each = match taken.repeated {
        true => vec![(list.to_string(), "were released before, by the same act".to_owned())],
        false => Vec::new(),
    };
    Ok(Report { done: taken.count, what: "tasks are released", each })
}

/// Lets a stopped lane go on without the task that failed.
pub async fn resume(visit: &Visit<'_>, route: &RouteName, key: &str) -> Result<Report, Trouble> {
    let notify = visit.routes()?.get(route).map(|route| route.notify.clone()).unwrap_or_default();
    let (done, became) = match visit.ordering().resume(&LaneId::of(route, key), &notify).await? {
        Resumed::Yes { failed, .. } => (1, format!("goes on without {failed}")),
        Resumed::NotStopped(_) => (0, "is not stopped".to_owned()),
        Resumed::Unknown => return Err(Trouble::Unknown(format!("route {route} knows no order key {key}"))),
    };
    Ok(Report { done, what: "order keys go on", each: vec![(key.to_owned(), became)] })
}

/// Commits what is settled at once.
pub async fn commit(visit: &Visit<'_>, stream: &StreamId) -> Result<Report, Trouble> {
    let committed = visit.streaming().commit_now(stream).await?;
    let committed = committed.map_err(|refused| Trouble::Refused(refused.to_string()))?;
    let became = format!("its watermark is {}", committed.watermark.number);
    Ok(Report { done: 1, what: "streams are committed", each: vec![(stream.to_string(), became)] })
}
