//! Whether the queues are set as the steps need them, and what lies there.

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::{Queue, QueueSettings, Read, Seen};

fn of_each(queues: &[Queue], judge: impl Fn(&Queue, &QueueSettings) -> Found) -> impl Iterator<Item = (&str, Found)> {
    queues.iter().map(move |queue| {
        (queue.name, queue.settings.as_ref().map_or_else(Found::from, |settings| judge(queue, settings)))
    })
}

pub(super) fn visibility(seen: &Seen) -> Vec<Finding> {
    let found = of_each(&seen.queues, |queue, settings| match least_s(seen, queue) {
        Err(unread) => Found::Unread(unread),
        Ok(least_s) => Found::well_if(settings.visibility_s >= least_s, || {
            Found::wrong(
                format!("a received message is hidden for {} s, and {least_s} s are needed", settings.visibility_s),
                "set its visibility timeout so: messages that are in hand come again, and use up receives",
            )
        }),
    });
    let well = if seen.cloud.is_some() { "six function timeouts or more" } else { "longer than a step takes" };
    findings(Check::Visibility, well, found)
}

/// How long a message must be hidden, in seconds. AWS advises six timeouts of the function; a process needs one.
fn least_s(seen: &Seen, queue: &Queue) -> Read<u64> {
    let Some(cloud) = &seen.cloud else { return Ok(queue.handled_within_s) };
    let reader = cloud.functions.iter().find(|function| function.step == queue.reader);
    let settings = reader.map(|function| function.settings.as_ref().map_err(Clone::clone)).transpose()?;
    Ok(6 * settings.map_or(queue.handled_within_s, |settings| settings.timeout_s))
}

/// Fewer receives do not survive a throttled minute; AWS advises five or more.
const LEAST_RECEIVES: u64 = 5;

pub(super) fn redrive(seen: &Seen) -> Vec<Finding> {
    let found = of_each(&seen.queues, |_, settings| match &settings.redrive {
        None => Found::wrong(
            "it has no dead-letter queue: a message that fails comes again for days, and is then lost",
            "deploy the stack again, as template.yaml says it",
        ),
        Some((_, receives)) => Found::well_if(*receives >= LEAST_RECEIVES, || {
            Found::wrong(
                format!("messages are given up after {receives} receives"),
                format!("set `maxReceiveCount` to {LEAST_RECEIVES} or more: throttled invocations are receives, too"),
            )
        }),
    });
    findings(Check::Redrive, "each queue has a dead-letter queue", found)
}

pub(super) fn dead_letters(seen: &Seen) -> Vec<Finding> {
    let found = seen.ended.iter().map(|(name, messages)| {
        let found = match messages {
            Err(unread) => unread.into(),
            Ok(messages) => Found::well_if(*messages == 0, || {
                let todo =
                    format!("`groupage redrive show {name}` says why, `groupage redrive send {name}` sends them again");
                Found::wrong(format!("{messages} messages are there"), todo)
            }),
        };
        (name.as_str(), found)
    });
    findings(Check::DeadLetters, "nothing was given up or refused", found)
}

/// As the alarm OldestMessage has it, in seconds.
const OLD_S: f64 = 900.0;

pub(super) fn oldest(seen: &Seen) -> Vec<Finding> {
    let found = seen.queues.iter().map(|queue| {
        let found = match &queue.oldest_s {
            Err(unread) => unread.into(),
            Ok(oldest_s) => Found::well_if(oldest_s.is_none_or(|oldest_s| oldest_s < OLD_S), || {
                Found::wrong(
                    format!("its oldest message is {:.0} minutes old", oldest_s.unwrap_or_default() / 60.0),
                    format!("look at the log of {} for what fails or is throttled", queue.reader.name()),
                )
            }),
        };
        (queue.name, found)
    });
    findings(Check::Oldest, "no message is older than 15 minutes", found)
}
