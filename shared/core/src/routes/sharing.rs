//! How those that wait at a route's limits share them: Targets, and urgent batches with usual ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Route;
use super::expression::{Data, Expression};
use crate::domain::Target;
use crate::domain::gate::{Class, Limits, MOST_WEIGHT, Scope, Share};

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
    pub const fn shares(&self) -> bool {
        self.sharing.is_some()
    }

    /// The share that a batch of this priority has in the limits of its route or Target, or in a limit at which routes
    /// take turns; `None`: nothing is limited, or first come is first served.
    pub fn share(&self, of: &Scope, target: &Target, priority: u8) -> Option<Share> {
        let (class, whole) = (Class::of(priority), target.whole());
        let (is_limited, sharing) = match of {
            Scope::Route(_) => (self.is_limited(), self.sharing.as_ref()),
            Scope::Target(_) => (self.limits_of(target) != Limits::default(), None),
            Scope::Limit(_) => (true, self.sharing.as_ref()),
        };
        let by_target = sharing.map(|sharing| class.of_target(&whole, sharing.weight(&whole)));
        let by_class = || self.reads.priority.is_some().then(|| class.of_all());
        let by_route = || matches!(of, Scope::Limit(_)).then(|| class.of_route(&self.name));
        by_target.or_else(by_route).or_else(by_class).filter(|_| is_limited)
    }

    /// Tells whether it has a limit of its own for all calls.
    pub(super) fn is_limited(&self) -> bool {
        self.limits() != Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::gate::{Class, Scope, Share};
    use crate::domain::{RouteName, Target};
    use crate::routes::Routes;

    fn routes(limits: &str) -> Result<Routes, crate::routes::Error> {
        let http = "downstream: { http: { url: 'https://x' } }";
        Routes::parse(&format!("version: 1\nroutes:\n  - name: a\n    target: t\n    {http}\n    limits: {limits}\n"))
    }

    fn shares(limits: &str, priority: u8) -> [Option<Share>; 2] {
        let (routes, name) = (routes(&format!("{limits}\n    priority: p")).unwrap(), RouteName::new("a"));
        let scopes = [Scope::Route(name.clone()), Scope::Target(Target::of(&name, "t"))];
        scopes.map(|of| routes.get(&name).unwrap().share(&of, &Target::of(&name, "t"), priority))
    }

    #[test]
    fn where_a_route_has_priorities_urgent_batches_have_a_share_of_each_limit_of_their_own() {
        let limits = "{ calls_per_second: 2, in_flight_per_target: 1 }";
        assert_eq!(shares(limits, 0), [Some(Class::Usual.of_all()); 2]);
        assert_eq!(shares(limits, 3), [Some(Class::Urgent.of_all()); 2]);
        assert_ne!(shares(limits, 3), shares(limits, 0));
        assert_eq!(shares("{ in_flight: 2 }", 3), [Some(Class::Urgent.of_all()), None], "nothing else is limited");
        assert_eq!(shares("{ calls_per_second_per_target: 2 }", 3), [None, Some(Class::Urgent.of_all())]);
        assert_eq!(shares("{}", 3), [None, None]);
        let by_target = shares("{ in_flight: 2, share: { by: target } }", 3);
        let whole = Target::of(&RouteName::new("a"), "t");
        assert_eq!(by_target, [Some(Class::Urgent.of_target(&whole, 1)), None]);
    }

    fn share(limits: &str, target: &str) -> Option<Share> {
        let (routes, name) = (routes(limits).unwrap(), RouteName::new("a"));
        routes.get(&name).unwrap().share(&Scope::Route(name.clone()), &Target::of(&name, target), 0)
    }

    #[test]
    fn a_targets_weight_is_what_the_expression_says_of_its_value_and_else_one() {
        let limits =
            "{ in_flight: 2, share: { by: target, weight: \"target == 'big' && `10` || target == 'odd' && `0`\" } }";
        for (target, weight) in [("big", 10), ("odd", 1), ("small", 1)] {
            let whole = Target::of(&RouteName::new("a"), target);
            assert_eq!(share(limits, target), Some(Class::Usual.of_target(&whole, weight)), "{target}");
        }
        let equal = share("{ calls_per_second: 2, share: { by: target } }", "big");
        assert_eq!(equal, Some(Class::Usual.of_target(&Target::of(&RouteName::new("a"), "big"), 1)));
    }

    #[test]
    fn nobody_shares_what_is_not_limited_or_where_the_file_does_not_say_so() {
        assert_eq!(share("{ in_flight_per_target: 2, share: { by: target } }", "big"), None);
        assert_eq!(share("{ in_flight: 2 }", "big"), None);
        assert!(routes("{ in_flight: 2, share: {} }").unwrap_err().what.contains("by"));
        assert!(routes("{ in_flight: 2, share: { by: customer } }").unwrap_err().what.contains("target"));
    }
}
