//! The checks: from what was read to what is wrong.

mod alarms;
mod functions;
mod held;
mod queues;
mod routes;
mod tables;
#[cfg(test)]
mod tests;

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::{Clock, Seen, Unread};

/// Judges everything that was read, in the order in which it is shown. What a stack of its kind cannot have is left
/// out.
pub fn judge(seen: &Seen) -> Vec<Finding> {
    let mut all = vec![version(seen), routes::routes(seen), routes::secrets(seen)];
    if let Some(cloud) = &seen.cloud {
        all.extend([
            functions::functions(cloud),
            functions::loops(cloud),
            functions::concurrency(cloud),
            functions::mappings(cloud, &seen.queues),
        ]);
    }
    all.extend([queues::visibility(seen), queues::redrive(seen), queues::dead_letters(seen)]);
    if seen.cloud.is_some() {
        all.push(queues::oldest(seen));
    }
    all.extend([held::waiting(seen), tables::expiry(seen)]);
    all.extend(tables::recovery(seen));
    all.extend([held::locks(seen), held::sessions(seen)]);
    if let Some(cloud) = &seen.cloud {
        all.extend([alarms::alarms(cloud, &seen.queues), alarms::ringing(cloud)]);
    }
    all.push(clock(seen));
    all.concat()
}

fn version(seen: &Seen) -> Vec<Finding> {
    let own = &seen.own_version;
    let found = match &seen.version {
        None => Found::Unread(Unread("the stack does not say its version".to_owned())),
        Some(version) => Found::well_if(version == own, || {
            Found::wrong(
                format!("the stack is of version {version}, and this command of {own}"),
                format!("deploy version {own}, or use the command of version {version}"),
            )
        }),
    };
    findings(Check::Version, own.clone(), [("", found)])
}

/// Farther than this, in milliseconds, a worker of this machine takes the sessions of others for over.
const CLOCK_MS: i64 = 2_000;

fn clock(seen: &Seen) -> Vec<Finding> {
    let (well, found) = match &seen.clock {
        Err(unread) => (String::new(), unread.into()),
        Ok(Clock { ahead_ms, give_or_take_ms }) => {
            let off_s = ahead_ms.unsigned_abs() as f64 / 1e3;
            let found = Found::well_if(ahead_ms.abs() - give_or_take_ms <= CLOCK_MS, || {
                let side = if *ahead_ms > 0 { "ahead of" } else { "behind" };
                Found::wrong(
                    format!("this machine's clock is {off_s:.0} s {side} that of the service"),
                    "set it by NTP: workers here judge by it which sessions and leases are over",
                )
            });
            (format!("within {:.1} s of the service's", off_s.max(*give_or_take_ms as f64 / 1e3)), found)
        }
    };
    findings(Check::Clock, well, [("", found)])
}
