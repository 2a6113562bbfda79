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
    /// How many turns a Target gets for one of a Target with the weight 1: JMESPath over `{"target": …}`, the value that
    /// the route's `target` gave, with a whole number from 1 to 1000. Absent, or anything else: 1.
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
