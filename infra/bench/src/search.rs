//! The search for a limit: doubling until it is passed, then bisection.

use serde::Serialize;

/// How near to each other the highest rate that was borne and the lowest that was not are in the end.
const NEAR: f64 = 1.1;

/// A search for the highest rate that is borne.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    from: f64,
    up_to: f64,
    borne: Option<f64>,
    too_much: Option<f64>,
}

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "found", content = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// So much is borne, and a tenth more is not.
    At(f64),
    /// So much is borne; more was not tried.
    AtLeast(f64),
    /// Even this is too much; less was not tried.
    Below(f64),
}

impl Search {
    /// Begins at `from` and tries nothing beyond `up_to`.
    pub const fn new(from: f64, up_to: f64) -> Self {
        Self { from, up_to, borne: None, too_much: None }
    }

    /// What to try next; none if the limit is found.
    pub fn next(&self) -> Option<f64> {
        match (self.borne, self.too_much) {
            (None, None) => Some(self.from.min(self.up_to)),
            (None, Some(_)) => None,
            (Some(borne), None) => (borne < self.up_to).then_some((2.0 * borne).min(self.up_to)),
            // The middle of their logarithms.
            (Some(borne), Some(too_much)) => (too_much > NEAR * borne).then_some((borne * too_much).sqrt()),
        }
    }

    /// Notes whether a rate was borne.
    pub const fn tried(&mut self, rate: f64, was_borne: bool) {
        if was_borne {
            self.borne = Some(rate);
        } else {
            self.too_much = Some(rate);
        }
    }

    /// What is known so far.
    pub fn limit(&self) -> Limit {
        match (self.borne, self.too_much) {
            (Some(borne), Some(_)) => Limit::At(borne),
            (Some(borne), None) => Limit::AtLeast(borne),
            (None, _) => Limit::Below(self.from.min(self.up_to)),
        }
    }
}

impl Limit {
    /// This by another, if both were found.
    pub fn growth(self, from: Self) -> Option<f64> {
        match (self, from) {
            (Self::At(limit), Self::At(from)) => Some(limit / from),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for a limit that is known.
    fn search(limit: f64, from: f64, up_to: f64) -> (Limit, usize) {
        let mut search = Search::new(from, up_to);
        let mut tries = 0;
        while let Some(rate) = search.next() {
            search.tried(rate, rate <= limit);
            tries += 1;
        }
        (search.limit(), tries)
    }

    #[test]
    fn a_limit_is_found_within_a_tenth_and_few_tries() {
        for limit in [251.0, 499.0, 1_000.0, 7_777.0] {
            let (found, tries) = search(limit, 250.0, 16_000.0);
            let Limit::At(found) = found else { panic!("{found:?}") };
            assert!(found <= limit && limit < found * NEAR && tries <= 10, "{limit}: {found} after {tries}");
        }
    }

    #[test]
    fn a_limit_outside_of_what_is_tried_is_said_to_be() {
        assert_eq!(search(249.0, 250.0, 1_000.0), (Limit::Below(250.0), 1));
        assert_eq!(search(9_000.0, 250.0, 1_200.0), (Limit::AtLeast(1_200.0), 4));
    }
}
