//! Why calls wait: what holds those of each route back, and those of single Targets.

use std::collections::BTreeMap;

use anyhow::Result;
use groupage_aws::{Dynamo, System};
use groupage_core::domain::gate::{CallState, Gate, Scope};
use groupage_core::domain::{Target, Timestamp};
use groupage_core::ports::{Census, Env, Gates};
use groupage_core::routes::Routes;
use serde::Serialize;

use crate::output::Output;
use crate::sheet::{Cell, Moment, Sheet, Tone};

/// One route or Target.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
pub struct Shown {
    route: Option<String>,
    target: Option<String>,
    /// well, held, away, paused, in-trouble or draining.
    state: &'static str,
    #[serde(skip)]
    tone: Tone,
    /// Since when it is so.
    since: Option<Moment>,
    /// Why the last call failed, or what the person said who holds calls back.
    reason: Option<String>,
    /// Until when the downstream asked to be left alone, or when the next probe may start.
    until: Option<Moment>,
}

/// Prints each route in force, and the Targets that a person holds back; if asked for `all_targets` each of which there
/// is something to tell, for which it reads the whole lock table.
pub async fn show(store: &Dynamo, routes: Option<&Routes>, all_targets: bool, output: &Output) -> Result<()> {
    let now = System.now();
    let mut shown = Vec::new();
    let mut targets: BTreeMap<Target, Gate> = BTreeMap::new();
    let told = if all_targets { store.gates_to_tell_of().await? } else { Vec::new() };
    for (scope, gate) in told {
        if let Scope::Target(target) = scope {
            targets.insert(target, gate);
        }
    }
    for route in routes.into_iter().flat_map(Routes::iter) {
        let scope = Scope::Route(route.name.clone());
        let gate = store.gate(&scope).await?;
        for target in gate.pauses.targets.keys() {
            let own = match targets.remove(target) {
                Some(gate) => gate,
                None => store.gate(&Scope::Target(target.clone())).await?,
            };
            targets.insert(target.clone(), own.of_target(target, &gate));
        }
        shown.push(Shown::of(&scope, &gate, now));
    }
    let targets = targets.into_iter().map(|(target, gate)| Shown::of(&Scope::Target(target), &gate, now));
    shown.extend(targets.filter(|target| target.state != CallState::Well.word()));
    output.sheet(&shown, || match shown.as_slice() {
        [] => Sheet::line("no routes are pushed yet"),
        shown => sheet(shown, now),
    });
    Ok(())
}

impl Shown {
    /// What a gate comes to for people.
    pub fn of(scope: &Scope, gate: &Gate, now: Timestamp) -> Self {
        let standing = gate.call_state(now);
        let (since, reason, until) = match &standing {
            CallState::Well => (None, None, None),
            CallState::Held { since, reason } => (Some(*since), reason.clone(), None),
            CallState::Away { since, reason, next_probe } => {
                (Some(*since), Some(reason.to_string()), Some(*next_probe))
            }
            CallState::Paused { until } => (None, None, Some(*until)),
            CallState::InTrouble { since, reason, .. } => (Some(*since), Some(reason.to_string()), None),
            CallState::Draining { since } => (Some(*since), None, None),
        };
        let (route, target) = match scope {
            Scope::Route(route) => (Some(route.to_string()), None),
            Scope::Target(target) => (None, Some(target.to_string())),
            // It is never paused.
            Scope::Limit(_) => (None, None),
        };
        Self {
            route,
            target,
            state: standing.word(),
            tone: tone(&standing),
            since: since.map(Moment),
            reason,
            until: until.map(Moment),
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let name = self.route.as_deref().or(self.target.as_deref()).unwrap_or_default();
        let told = |moment: &Option<Moment>| moment.map(|moment| moment.told(now)).unwrap_or_default();
        let until = match (self.state, told(&self.until)) {
            ("away", until) => format!("next probe {until}"),
            (_, until) => until,
        };
        vec![
            name.into(),
            Cell::new(self.state, self.tone),
            told(&self.since).into(),
            self.reason.as_deref().unwrap_or_default().into(),
            until.into(),
        ]
    }
}

/// Routes and Targets, each with what holds its calls back.
pub fn sheet(shown: &[Shown], now: Timestamp) -> Sheet {
    let rows = shown.iter().map(|one| one.row(now)).collect();
    Sheet::table("", &["calls of", "state", "since", "reason", "until"], rows)
}

/// How it is meant.
pub const fn tone(standing: &CallState) -> Tone {
    match standing {
        CallState::Well => Tone::Good,
        CallState::Held { .. } | CallState::Away { .. } | CallState::InTrouble { .. } => Tone::Bad,
        CallState::Paused { .. } | CallState::Draining { .. } => Tone::Wary,
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::id::RouteName;

    use super::*;

    #[test]
    fn a_route_that_is_held_and_a_target_that_is_well_are_told_apart() {
        let held = Gate::default().held(Some("deploy".to_owned()), Timestamp(0)).unwrap();
        let route = Shown::of(&Scope::Route(RouteName::new("parcels")), &held, Timestamp(5));
        let since = "just now (1970-01-01T00:00:00.000Z)".into();
        let row = ["parcels".into(), Cell::new("held", Tone::Bad), since, "deploy".into(), "".into()];
        assert_eq!(route.row(Timestamp(5)), row);
        let json = serde_json::to_value(&route).unwrap();
        assert_eq!(json["since"], "1970-01-01T00:00:00.000Z", "programs read the clock");
        let target = Shown::of(&Scope::Target(Target::new("parcels:t1")), &Gate::default(), Timestamp(5));
        let json = serde_json::to_value(&target).unwrap();
        assert_eq!(json, serde_json::json!({ "target": "parcels:t1", "state": "well" }));
    }
}
