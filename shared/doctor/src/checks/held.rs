//! What waits or is held for longer than anything alive lets it.

use groupage_core::domain::Timestamp;

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::{Lease, Read, Seen};

/// Sweep comes each minute: what is over for longer than this was not looked after, in milliseconds.
const LEAKED_MS: u64 = 10 * 60_000;

pub(super) fn waiting(seen: &Seen) -> Vec<Finding> {
    let found = match &seen.waiting {
        Err(unread) => unread.into(),
        Ok(None) => Found::Well,
        Ok(Some(wait)) => Found::wrong(
            format!("{} tasks wait, {} since {} minutes", wait.tasks, wait.target, minutes(seen.now, wait.since)),
            format!(
                "`groupage status target {}` says who leads; without a route nobody does. A shard bears 500 tasks a second: \
                 beyond them set `shards: N` on the route",
                wait.target
            ),
        ),
    };
    findings(Check::Waiting, "no task waits for longer than 15 minutes", [("", found)])
}

pub(super) fn locks(seen: &Seen) -> Vec<Finding> {
    let todo = "sweep hands them on each minute: look whether it runs, and at its log";
    leaked(Check::Locks, seen.now, (&seen.locks, "its lease is over since", todo), "no lock outlives its leader")
}

pub(super) fn sessions(seen: &Seen) -> Vec<Finding> {
    let todo = "sweep ends them each minute: look whether it runs, and at its log";
    leaked(Check::Sessions, seen.now, (&seen.sessions, "it is over since", todo), "no session outlives its worker")
}

fn leaked(
    check: Check,
    now: Timestamp,
    (leases, over, todo): (&Read<Vec<Lease>>, &str, &str),
    well: &str,
) -> Vec<Finding> {
    match leases {
        Err(unread) => findings(check, well, [("", unread.into())]),
        Ok(leases) => {
            let found = leases.iter().map(|lease| {
                let is_alive = now.since(lease.until) < LEAKED_MS;
                let wrong = || Found::wrong(format!("{over} {} minutes", minutes(now, lease.until)), todo);
                (lease.of.as_str(), Found::well_if(is_alive, wrong))
            });
            findings(check, well, found)
        }
    }
}

const fn minutes(now: Timestamp, since: Timestamp) -> u64 {
    now.since(since) / 60_000
}
