//! One batch: its members, its calls, and what it waits for.

use groupage_core::domain::batch::Status;
use groupage_core::domain::{Batch, BatchId, Exception, Reason, Timestamp};
use maud::{Markup, html};

use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, bar, facts, id, reason, table, time};
use crate::states;
use crate::view::View;
use crate::words::on_one_line;

/// Members that are listed.
const LISTED: usize = 200;

/// Shows it.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = BatchId::new(view.id());
    let found = visit.looking().batch(&name).await?;
    let one = found
        .ok_or_else(|| Trouble::Unknown(format!("no batch {name} is known: it settled long ago, or never was")))?;
    let (now, batch) = (visit.now, &one.batch);
    let mut rows = vec![("status", html! { strong { (states::batch(batch, one.why.as_ref())) } })];
    rows.extend(one.why.as_ref().map(|why| ("waits for", reason(why, now))));
    rows.push(("Target", page::target(&batch.target)));
    rows.extend(filling(visit, batch));
    rows.push(("calls", html! { (batch.attempts) }));
    rows.extend(batch.claimed_by().map(|session| ("claimed by", id(session.as_str()))));
    rows.push(("made", time(batch.created_at, now)));
    rows.extend(settled_at(batch).map(|at| ("settled", time(at, now))));
    rows.extend(batch.unfinished().map(|due| ("sweep looks", time(due, now))));
    if batch.nudges > 0 {
        rows.push(("sent on by sweep", html! { (batch.nudges) " times" }));
    }
    let members = batch
        .members
        .iter()
        .take(LISTED)
        .map(|member| vec![page::task(&member.id), html! { (on_one_line(&states::outcome(batch, member))) }]);
    let title = format!("Members ({})", page::count(batch.members.len()));
    let live = html! {
        h1 { "Batch " (id(name.as_str())) }
        (facts(rows))
        @let answers = answers(batch);
        @if !answers.is_empty() {
            (table("Answers of calls that failed", &["reason", "status", "the beginning of the answer"], answers, ""))
        }
        (table(&title, &["task", "outcome"], members.collect(), "It has no members."))
        @if batch.members.len() > LISTED { p { "The first " (LISTED) " are listed." } }
    };
    Ok(Page::live(format!("Batch {name}"), live))
}

/// How full it is, against what its route allows.
pub fn filling(visit: &Visit<'_>, batch: &Batch) -> Option<(&'static str, Markup)> {
    let route = visit.routes.as_ref()?.get(&batch.target.route())?;
    let (members, most) = (batch.members.len(), route.for_target(&batch.target).batch.max_items);
    Some(("tasks", html! { (bar(members, most, "tasks")) " " (page::count(members)) " of " (page::count(most)) }))
}

const fn settled_at(batch: &Batch) -> Option<Timestamp> {
    if let Status::Settled { at, .. } = &batch.status { Some(*at) } else { None }
}

/// What was answered to the calls that failed, by the reasons of its members.
fn answers(batch: &Batch) -> Vec<Vec<Markup>> {
    let (Some(answers), Status::Settled { results, .. }) = (&batch.answers, &batch.status) else { return Vec::new() };
    let mut reasons: Vec<&Reason> = results
        .values()
        .filter_map(|exception| match exception {
            Exception::Failed { reason, .. } => Some(reason),
            Exception::Returned { .. } => None,
        })
        .collect();
    reasons.sort();
    reasons.dedup();
    let row = |reason: &Reason| {
        let answer = answers.of(reason)?;
        Some(vec![id(reason.as_str()), html! { (answer.status) }, id(&answer.text)])
    };
    reasons.into_iter().filter_map(row).collect()
}
