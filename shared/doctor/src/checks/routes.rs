//! Whether the routes in force can be used.

use groupage_core::routes::{Routes, Secret};

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::Seen;

pub(super) fn routes(seen: &Seen) -> Vec<Finding> {
    const CHECK: Check = Check::Routes;
    let pushed = match &seen.routes {
        Err(unread) => return findings(CHECK, "", [("", unread.into())]),
        Ok(None) => {
            let none = Found::wrong("no routes are in force: no task is accepted", "run `groupage push routes.yaml`");
            return findings(CHECK, "", [("", none)]);
        }
        Ok(Some(pushed)) => pushed,
    };
    let version = format!("version {}", pushed.version);
    let again = "push routes that are right, or `groupage push --rollback`";
    let (count, found) = match Routes::parse(&pushed.yaml) {
        Err(wrong) => (0, Found::wrong(format!("{version} cannot be used: {wrong}"), again)),
        Ok(routes) => {
            let found = match seen.allowed.check(&routes) {
                Ok(()) => Found::Well,
                Err(refused) => Found::wrong(
                    format!("{version} may not do what it says: {refused}"),
                    "allow it by the stack's parameters, or change the route",
                ),
            };
            (routes.iter().count(), found)
        }
    };
    let mut all = vec![("", found)];
    match &pushed.unrouted {
        Err(unread) => all.push(("", unread.into())),
        Ok((tasks, are_all)) => {
            let at_least = if *are_all { "" } else { "at least " };
            for (route, tasks) in tasks {
                let what = format!("{at_least}{tasks} tasks wait for this route, which {version} does not have");
                let todo = format!("put it back until they are done, or `groupage cancel --target {route}:VALUE`");
                all.push((route.as_str(), Found::wrong(what, todo)));
            }
        }
    }
    findings(CHECK, format!("{version} is in force: {count} routes"), all)
}

pub(super) fn secrets(seen: &Seen) -> Vec<Finding> {
    let found = seen.secrets.iter().map(|kept| {
        let name = match &kept.secret {
            Secret::Env(name) => format!("the variable {name}"),
            Secret::SecretsManager(name) => format!("the secret {name}"),
        };
        let found = match &kept.is_there {
            Err(unread) => unread.into(),
            Ok(is_there) => Found::well_if(*is_there, || {
                let todo = match &kept.secret {
                    Secret::Env(_) => "set it where the steps run",
                    Secret::SecretsManager(_) => "create it in Secrets Manager, or restore it there",
                };
                Found::wrong(format!("{name} is not there"), format!("{todo}: the route's calls are held back"))
            }),
        };
        (kept.route.as_str(), found)
    });
    let well = match seen.secrets.len() {
        0 => "no route needs one".to_owned(),
        count => format!("all {count} are there"),
    };
    findings(Check::Secrets, well, found)
}
