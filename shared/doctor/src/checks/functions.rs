//! Whether the functions run, and are called.

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::{Account, Cloud, Function, Mapping, Queue};

pub(super) fn functions(cloud: &Cloud) -> Vec<Finding> {
    let found = cloud.functions.iter().map(|function| {
        let found = match &function.settings {
            Err(unread) => unread.into(),
            Ok(settings) => settings.trouble.as_ref().map_or(Found::Well, |trouble| {
                Found::wrong(trouble, "look at the stack's events in CloudFormation, and deploy it again")
            }),
        };
        (function.step.name(), found)
    });
    findings(Check::Functions, format!("all {} can be invoked", cloud.functions.len()), found)
}

pub(super) fn loops(cloud: &Cloud) -> Vec<Finding> {
    let looping = cloud.functions.iter().filter(|function| function.step.is_on_a_cycle());
    let found = looping.map(|function| {
        let found = match &function.may_loop {
            Err(unread) => unread.into(),
            Ok(may) => Found::well_if(*may, || {
                Found::wrong(
                    "AWS ends a chain of messages after about 16 invocations, and tasks that wait end as dead letters",
                    "set `RecursiveLoop: Allow`, as template.yaml does: deploy it again",
                )
            }),
        };
        (function.step.name(), found)
    });
    findings(Check::Loops, "messages may come back to the functions that wait by them", found)
}

/// With fewer than this and no caps, all queues together take more than there is. A new account has 10.
const ENOUGH: u64 = 100;

pub(super) fn concurrency(cloud: &Cloud) -> Vec<Finding> {
    let mut found: Vec<(&str, Found)> = vec![("account", limit(cloud))];
    found.extend(cloud.functions.iter().map(|function| (function.step.name(), reserved(function))));
    let well = cloud.account.as_ref().map_or_else(|_| String::new(), |account| room(account, cloud));
    findings(Check::Concurrency, well, found)
}

fn room(account: &Account, cloud: &Cloud) -> String {
    let caps = caps(cloud).map_or("the queues have no caps".to_owned(), |caps| format!("the queues take {caps}"));
    format!("{} functions may run at once, {} of them unreserved; {caps}", account.concurrency, account.unreserved)
}

/// What all mappings together take at most; `None` if one of them has no cap.
fn caps(cloud: &Cloud) -> Option<u64> {
    let mappings = cloud.functions.iter().filter_map(|function| function.mappings.as_ref().ok()).flatten();
    mappings.map(|mapping| mapping.max_concurrency).sum::<Option<u64>>().filter(|sum| *sum > 0)
}

fn limit(cloud: &Cloud) -> Found {
    let account = match &cloud.account {
        Ok(account) => account,
        Err(unread) => return unread.into(),
    };
    match caps(cloud) {
        None if account.unreserved < ENOUGH => Found::wrong(
            format!("only {} functions may run at once that have reserved nothing", account.unreserved),
            "give each mapping a cap, or ask AWS for more (Service Quotas, Lambda, Concurrent executions): throttled \
             messages use up receives",
        ),
        Some(caps) if caps > account.unreserved => Found::wrong(
            format!("the mappings may take {caps} functions at once, and {} are unreserved", account.unreserved),
            "lower `MaximumConcurrency` of the mappings, or ask AWS for more: throttled messages use up receives",
        ),
        Some(caps) if caps == account.unreserved => Found::wrong(
            format!(
                "the mappings may take all {caps} functions that are unreserved, and leave none to other functions"
            ),
            "lower `MaximumConcurrency` of the mappings, or ask AWS for more: sweep, the API and what else runs in the \
             account are throttled",
        ),
        Some(_) | None => Found::Well,
    }
}

fn reserved(function: &Function) -> Found {
    match &function.reserved {
        Err(unread) => unread.into(),
        Ok(reserved) => Found::well_if(*reserved != Some(0), || {
            Found::wrong(
                "its reserved concurrency is 0: it is never invoked",
                "take the reservation away: aws lambda delete-function-concurrency",
            )
        }),
    }
}

/// States of a mapping in which it reads its queue, or soon will.
const AT_WORK: [&str; 4] = ["Enabled", "Enabling", "Creating", "Updating"];

pub(super) fn mappings(cloud: &Cloud, queues: &[Queue]) -> Vec<Finding> {
    let found = queues.iter().map(|queue| {
        let reader = cloud.functions.iter().find(|function| function.step == queue.reader);
        let found = match reader.map(|function| &function.mappings) {
            None => Found::wrong("its function is not there", "deploy the stack again"),
            Some(Err(unread)) => unread.into(),
            Some(Ok(mappings)) => reads(mappings.iter().find(|mapping| mapping.queue == queue.id)),
        };
        (queue.name, found)
    });
    findings(Check::Mappings, "each queue calls its function", found)
}

fn reads(mapping: Option<&Mapping>) -> Found {
    match mapping {
        None => Found::wrong("no event source mapping reads it", "deploy the stack again: messages lie there unread"),
        Some(Mapping { state, .. }) if !AT_WORK.contains(&state.as_str()) => Found::wrong(
            format!("its event source mapping is {}", state.to_lowercase()),
            "enable it: aws lambda update-event-source-mapping --enabled --uuid …",
        ),
        Some(Mapping { reports_failures: false, .. }) => Found::wrong(
            "its event source mapping does not say ReportBatchItemFailures: failed records are deleted",
            "deploy the stack again, as template.yaml says it",
        ),
        Some(_) => Found::Well,
    }
}
