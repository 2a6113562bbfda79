//! Pauses beside a restore: the restored tables have those of their moment, and none that was made since.

use anyhow::Result;
use groupage_aws::Connection;
use groupage_core::domain::Timestamp;
use groupage_core::domain::gate::Scope;
use groupage_core::ports::Gates;
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::output::time;
use crate::sheet::Moment;
use crate::stack::{self, Access};

/// A pause of a route or of a Target.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize)]
pub struct Paused {
    route: Option<String>,
    target: Option<String>,
    since: Moment,
    reason: Option<String>,
}

/// Reads the pauses of all routes in force.
pub async fn all(connection: &Connection) -> Result<Vec<Paused>> {
    let (store, routes) = (Access::to(connection).store, stack::routes(connection).await?);
    let mut found = Vec::new();
    for route in routes.iter().flat_map(Routes::iter) {
        let scope = Scope::Route(route.name.clone());
        let pauses = store.gate(&scope).await?.pauses;
        found.extend(pauses.all.map(|pause| Paused::of(&scope, pause.since, pause.reason)));
        for (target, pause) in pauses.targets {
            found.push(Paused::of(&Scope::Target(target), pause.since, pause.reason));
        }
    }
    Ok(found)
}

/// Reads those that tables restored to this moment do not have. DynamoDB restores to a full second.
pub async fn made_since(connection: &Connection, at: Timestamp) -> Result<Vec<Paused>> {
    let mut found = all(connection).await?;
    found.retain(|paused| paused.since.0.as_secs() >= at.as_secs());
    Ok(found)
}

impl Paused {
    fn of(scope: &Scope, since: Timestamp, reason: Option<String>) -> Self {
        let (route, target) = match scope {
            Scope::Route(route) => (Some(route.to_string()), None),
            Scope::Target(target) => (None, Some(target.to_string())),
            // It is never paused.
            Scope::Limit(_) => (None, None),
        };
        Self { route, target, since: Moment(since), reason }
    }

    /// Returns the words of `groupage pause` or `groupage resume` for it.
    fn whose(&self) -> String {
        let named = |kind, name: &Option<String>| name.as_ref().map(|name| format!("--{kind} {}", quoted(name)));
        named("route", &self.route).or_else(|| named("target", &self.target)).unwrap_or_default()
    }

    /// Returns the command that pauses the same calls again.
    pub fn command(&self, of: &str) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(" --reason {}", quoted(reason))).unwrap_or_default();
        format!("groupage pause {}{reason}{of}", self.whose())
    }
}

/// Returns a heading with a line for each, or nothing if there is none.
pub fn listed(heading: &str, pauses: &[Paused]) -> String {
    if pauses.is_empty() {
        return String::new();
    }
    let line = |paused: &Paused| {
        let reason = paused.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("\n  {}, since {}{reason}", paused.whose(), time(paused.since.0))
    };
    format!("\n\n{heading}{}", pauses.iter().map(line).collect::<String>())
}

/// Returns a word as a shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::id::{RouteName, Target};

    use super::*;

    #[test]
    fn the_command_makes_the_same_pause_again() {
        let route = Paused::of(&Scope::Route(RouteName::new("parcels")), Timestamp(5), Some("it's down".to_owned()));
        assert_eq!(route.command(" --stack s"), r"groupage pause --route 'parcels' --reason 'it'\''s down' --stack s");
        let target = Paused::of(&Scope::Target(Target::new("parcels:truck 7")), Timestamp(5), None);
        assert_eq!(target.command(""), "groupage pause --target 'parcels:truck 7'");
        let told = listed("They hold:", &[route, target]);
        assert!(told.contains("\n  --route 'parcels', since 1970-01-01T00:00:00.005Z: it's down\n"), "{told}");
        assert_eq!(listed("They hold:", &[]), "");
    }
}
