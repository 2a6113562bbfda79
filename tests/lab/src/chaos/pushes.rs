//! Routes files that are pushed while tasks are under way, by a seed.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::LIMITS;
use super::named::{self, NAMING, with_line};
use crate::scenario::OTHERS;
use crate::setting::Setting;

/// What a push changes.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// Limits are raised, lowered, added or taken away.
    Limits,
    /// The downstream is called where it was pulled, or the other way round.
    Pulled,
    /// The route is no longer ordered, or has no shards any more.
    Plain,
    /// The route has another name, until the former one is put back beside it.
    Renamed,
    /// The route is gone, until it is put back.
    Removed,
}

const CHANGES: [Change; 7] = {
    use Change::{Limits, Plain, Pulled, Removed, Renamed};
    [Limits, Limits, Limits, Pulled, Plain, Renamed, Removed]
};

/// Lets some routes files be pushed later, or none. What no route wants meanwhile is sent again, which an owner, a list
/// or a stream does not do.
pub(super) fn of(dice: &mut StdRng, routes: &str, is_alone: bool, setting: &mut Setting) {
    if !dice.random_bool(0.4) {
        return;
    }
    setting.push_lag_ms = [0, 0, 60_000][dice.random_range(0..3)];
    let (mut at, mut routes) = (0, routes.to_owned());
    for _ in 0..dice.random_range(1..=3) {
        let mut push = |dice: &mut StdRng, routes: &str| {
            at += [200, 1_500, 4_000, 15_000, 90_000][dice.random_range(0..5)];
            setting.pushes.push((at, routes.to_owned()));
        };
        let change = CHANGES[dice.random_range(0..CHANGES.len())];
        match change {
            Change::Limits => {
                let limits = if named::is_in(&routes) { NAMING.choose(dice) } else { LIMITS.choose(dice) };
                let limits = limits.copied().unwrap_or_default();
                routes = with_line(&routes, "    limits: ", limits);
                push(dice, &routes);
            }
            Change::Pulled if !named::is_in(&routes) => {
                routes = turned(&routes);
                setting.workers = setting.workers.or(Some(("parcels", 2)));
                push(dice, &routes);
            }
            // Numbers that are given while the route is not ordered are missing then, and waited for.
            Change::Plain if !routes.contains("sequence:") => {
                let is_kept = |line: &&str| {
                    ["    ordered_by:", "    order:", "    shards:"].iter().all(|field| !line.starts_with(field))
                };
                push(dice, &routes.lines().filter(is_kept).fold(String::new(), |all, line| all + line + "\n"));
                push(dice, &routes);
            }
            // Workers that pull know one name.
            Change::Renamed if is_alone && setting.workers.is_none() => {
                let renamed = routes.replace("- name: parcels", "- name: depots");
                push(dice, &renamed);
                let (_, former) = routes.split_once("routes:\n").unwrap_or_default();
                push(dice, &format!("{renamed}{former}"));
                // Whatever goes to the new name by now goes on there.
                return;
            }
            Change::Removed if is_alone => {
                push(dice, OTHERS);
                push(dice, &routes);
            }
            Change::Pulled | Change::Plain | Change::Renamed | Change::Removed => {}
        }
    }
}

/// The same file for workers that pull, if its downstream is called, or the other way round.
fn turned(routes: &str) -> String {
    let to = if routes.contains("downstream: pull") { super::CALLED } else { "pull" };
    with_line(&with_line(routes, "    downstream: ", to), "    on_reject: ", "fail")
}
