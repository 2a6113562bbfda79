//! Tasks with traits, by a seed: some weigh, some close their batch, and some replace others.

use rand::RngExt;
use rand::rngs::StdRng;

/// What a seed has of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    weighs: bool,
    closes: bool,
    collapses: bool,
    urgent: bool,
}

pub(super) fn of(dice: &mut StdRng) -> Random {
    let has_some = dice.random_bool(0.4);
    let mut some = || has_some && dice.random_bool(0.5);
    Random { weighs: some(), closes: some(), collapses: some(), urgent: some() }
}

impl Random {
    /// These routes with the options; in an ordered route no task replaces another.
    pub(super) fn options(self, routes: &str, is_ordered: bool) -> String {
        let mut fields = String::new();
        if self.weighs {
            fields += "weight: length(truck), max_weight: 5, ";
        }
        if self.closes {
            fields += "close_when: \"n == `3`\", ";
        }
        let mut routes = routes.replace("express:", &format!("{fields}express:"));
        if self.collapses && !is_ordered {
            // Of some tasks it is null.
            routes += "    collapse: \"([n][?@ < `6`])[0] && truck\"\n";
        }
        if self.urgent {
            routes += "    priority: \"([n][?@ > `4` && @ < `10`])[0]\"\n";
        }
        routes
    }
}
