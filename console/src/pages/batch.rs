//! One batch: its members, its calls, and what it waits for.

use groupage_core::domain::batch::{FollowUp, Status};
use groupage_core::domain::{Batch, BatchId, Exception, Member, Reason, Timestamp};
use maud::{Markup, html};

use crate::backend::{Trouble, Visit};
use crate::page::{self, Page, bar, facts, id, reason, table, time};
use crate::view::View;
use crate::words::span;

/// Members that are listed.
const LISTED: usize = 200;

/// Shows it.
pub async fn show(visit: &Visit<'_>, view: &View) -> Result<Page, Trouble> {
    let name = BatchId::new(view.id());
    let found = visit.looking().batch(&name).await?;
    let one = found
        .ok_or_else(|| Trouble::Unknown(format!("no batch {name} is known: it settled long ago, or never was")))?;
    let (now, batch) = (visit.now, &one.batch);
    let mut rows = vec![("status", html! { strong { (state(batch)) } })];
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
    let members = batch.members.iter().take(LISTED).map(|member| vec![page::task(&member.id), outcome(batch, member)]);
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

/// Where it stands, in words.
pub fn state(batch: &Batch) -> &'static str {
    match &batch.status {
        Status::Open { .. } => "open: it is filling up",
        Status::Closing => "closing",
        Status::Frozen => "frozen: its members are final",
        Status::InProgress { .. } => "being called",
        Status::Paused { .. } => "paused: its call failed for now",
        Status::Settled { follow_up: FollowUp::Pending, .. } => "settled; statuses and notices are being written",
        Status::Settled { follow_up: FollowUp::Returning, .. } => "settled; members go round again",
        Status::Settled { follow_up: FollowUp::Done, .. } => "settled",
        Status::Empty => "empty: it was never called",
        Status::Void => "void: it was named and never written",
    }
}

/// How full it is, against what its route allows.
pub fn filling(visit: &Visit<'_>, batch: &Batch) -> Option<(&'static str, Markup)> {
    let route = visit.routes.as_ref()?.get(&batch.target.route())?;
    let (members, most) = (batch.members.len(), route.batch.max_items);
    Some(("tasks", html! { (bar(members, most, "tasks")) " " (page::count(members)) " of " (page::count(most)) }))
}

const fn settled_at(batch: &Batch) -> Option<Timestamp> {
    match &batch.status {
        Status::Settled { at, .. } => Some(*at),
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Empty
        | Status::Void => None,
    }
}

fn outcome(batch: &Batch, member: &Member) -> Markup {
    let results = match &batch.status {
        Status::Settled { results, .. } => results,
        Status::Open { .. }
        | Status::Closing
        | Status::Frozen
        | Status::InProgress { .. }
        | Status::Paused { .. }
        | Status::Empty
        | Status::Void => return html! { "not settled" },
    };
    match results.get(&member.id) {
        None => html! { "succeeded" },
        Some(Exception::Failed { reason, attempts }) => {
            html! { "failed: " (id(reason.as_str())) ", after " (attempts) " calls" }
        }
        Some(Exception::Returned { attempts, delay_ms, .. }) => {
            html! { "goes round again after " (attempts) " calls, with a pause of " (span(*delay_ms)) }
        }
    }
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

#[cfg(test)]
mod tests {
    use groupage_core::domain::{Candidate, Results, Round, Target, TaskId};

    use super::*;

    #[test]
    fn each_member_says_what_became_of_it() {
        let candidate = |id: &str| Candidate { id: TaskId::new(id), round: Round(0), bytes: 1 };
        let candidates = ["a", "b", "c"].map(candidate);
        let batch = Batch::express(BatchId::new("b"), Target::new("r:t"), &candidates, Timestamp(1));
        assert_eq!(outcome(&batch, &batch.members[0]).into_string(), "not settled");
        let failed = Exception::Failed { reason: Reason::new("too_heavy"), attempts: 2 };
        let returned = Exception::Returned { attempts: 1, delay_ms: 2_000, bytes: 1 };
        let results = Results::from([(TaskId::new("b"), failed), (TaskId::new("c"), returned)]);
        let settled = batch.settled(results, Timestamp(5));
        let said: Vec<String> = settled.members.iter().map(|member| outcome(&settled, member).into_string()).collect();
        assert_eq!(said[0], "succeeded");
        assert!(said[1].contains("too_heavy") && said[2].contains("pause of 2 s"), "{said:?}");
    }
}
