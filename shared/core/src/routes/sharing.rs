//! How the Targets of a route share its limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Route;
use super::expression::{Data, Expression};
use crate::domain::Target;
use crate::domain::gate::{MOST_WEIGHT, Share};

/// How those that wait at a limit share it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Share")]
#[serde(deny_unknown_fields)]
pub(super) struct Sharing {
    /// Whose batches take turns.
    #[allow(dead_code, reason = "there is one way so far, and its type checks it")]
    by: By,
    /// How many turns a Target gets for one of a Target with the weight 1: JMESPath over `{"target": …}`, the value
    /// that the route's `target` gave, with a whole number from 1 to 1000. Absent, or anything else: 1.
    pub(super) weight: Option<Expression>,
}

/// Whose batches take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    /// Those of each Target.
    Target,
}

impl Sharing {
    fn weight(&self, target: &Target) -> u64 {
        let Some(weight) = &self.weight else { return 1 };
        let told = serde_json::json!({ "target": target.value() }).to_string();
        let told = Data::parse(&told).ok().and_then(|data| weight.value(&data).as_whole_number());
        told.filter(|weight| (1..=MOST_WEIGHT).contains(weight)).unwrap_or(1)
    }
}

impl Route {
    /// Whether its Targets share its limits.
    #[must_use]
    pub const fn shares(&self) -> bool {
        self.sharing.is_some()
    }

    /// The share of this Target in the limits of all calls; `None`: first come, first served.
    #[must_use]
    pub fn share(&self, target: &Target) -> Option<Share> {
        let sharing = self.sharing.as_ref().filter(|_| self.is_limited())?;
        let whole = target.whole();
        Some(Share::of(&whole, sharing.weight(&whole)))
    }

    /// Whether there is a limit for all calls.
    pub(super) const fn is_limited(&self) -> bool {
        self.in_flight.in_all.is_some() || self.gap_ms.is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::gate::Share;
    use crate::domain::{RouteName, Target};
    use crate::routes::Routes;

    fn routes(limits: &str) -> Result<Routes, crate::routes::Error> {
        let http = "downstream: { http: { url: 'https://x' } }";
        Routes::parse(&format!("version: 1\nroutes:\n  - name: a\n    target: t\n    {http}\n    limits: {limits}\n"))
    }

    fn share(limits: &str, target: &str) -> Option<Share> {
        let (routes, name) = (routes(limits).unwrap(), RouteName::new("a"));
        routes.get(&name).unwrap().share(&Target::of(&name, target))
    }

    #[test]
    fn a_targets_weight_is_what_the_expression_says_of_its_value_and_else_one() {
        let limits =
            "{ in_flight: 2, share: { by: target, weight: \"target == 'big' && `10` || target == 'odd' && `0`\" } }";
        for (target, weight) in [("big", 10), ("odd", 1), ("small", 1)] {
            let whole = Target::of(&RouteName::new("a"), target);
            assert_eq!(share(limits, target), Some(Share::of(&whole, weight)), "{target}");
        }
        let equal = share("{ calls_per_second: 2, share: { by: target } }", "big");
        assert_eq!(equal, Some(Share::of(&Target::of(&RouteName::new("a"), "big"), 1)));
    }

    #[test]
    fn nobody_shares_what_is_not_limited_or_where_the_file_does_not_say_so() {
        assert_eq!(share("{ in_flight_per_target: 2, share: { by: target } }", "big"), None);
        assert_eq!(share("{ in_flight: 2 }", "big"), None);
        assert!(routes("{ in_flight: 2, share: {} }").unwrap_err().what.contains("by"));
        assert!(routes("{ in_flight: 2, share: { by: customer } }").unwrap_err().what.contains("target"));
    }
}
