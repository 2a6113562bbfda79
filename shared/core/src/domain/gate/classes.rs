//! At a limit, batches that hold urgent tasks go first.
//!
//! What waits is of one of two classes, the urgent and the usual. A class is a flow of the wait queue. The urgent have
//! nine turns for one of the usual. An urgent batch waits for the calls that are under way, and for the urgent ones
//! before it. A usual one with `n` usual ones before it waits for ten times `n + 1` turns at most, however many urgent
//! ones come.
//!
//! Where Targets share a limit, each has a share for either class. There a Target's urgent batches have nine turns for
//! one of a usual batch, its own or that of another Target with its weight.

use super::queue::{MOST_FLOWS, MOST_WEIGHT, Share};
use crate::domain::id::{RouteName, Target};

/// How early batches go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// None of its tasks is urgent.
    Usual,
    /// It holds urgent tasks.
    Urgent,
}

/// Turns of the urgent class for one of the usual: as many as places of a batch.
const URGENT_TURNS: u64 = 9;

impl Class {
    /// The class of a batch whose most urgent task has this priority.
    #[must_use]
    pub const fn of(priority: u8) -> Self {
        if priority > 0 { Self::Urgent } else { Self::Usual }
    }

    /// The share of all batches of this class, where Targets do not share.
    #[must_use]
    pub fn of_all(self) -> Share {
        Share::of(&self.names(""), self.turns(), self.most())
    }

    /// The share of the batches of a Target that are of this class, where Targets with these weights share.
    #[must_use]
    pub fn of_target(self, target: &Target, weight: u64) -> Share {
        Share::of(&self.names(target.as_str()), weight.min(MOST_WEIGHT) * self.turns(), self.most())
    }

    /// The share of the batches of a route that are of this class, where routes share.
    pub fn of_route(self, route: &RouteName) -> Share {
        Share::of(&self.names(route.as_str()), self.turns(), self.most())
    }

    fn names(self, of: &str) -> Vec<&str> {
        match self {
            // As where no route has priorities.
            Self::Usual => vec!["share", of],
            Self::Urgent => vec!["share", of, "urgent"],
        }
    }

    /// A third of a line's stretches is kept for urgent batches.
    const fn most(self) -> usize {
        match self {
            Self::Usual => MOST_FLOWS * 2 / 3,
            Self::Urgent => MOST_FLOWS,
        }
    }

    const fn turns(self) -> u64 {
        match self {
            Self::Usual => 1,
            Self::Urgent => URGENT_TURNS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sharing::starts_of;
    use super::*;

    const BEGINS: u64 = 1_000_000;

    /// How long a batch waits that comes so long after 600 usual ones: at ten calls a second, or with ten calls in
    /// flight of a second each.
    fn waits(class: Class, places: Option<usize>, after_ms: u64) -> u64 {
        let came = BEGINS + after_ms;
        let all = [(Some(Class::Usual.of_all()), 600, BEGINS), (Some(class.of_all()), 1, came)];
        let starts = starts_of(&all, places, BEGINS + 500_000);
        assert_eq!(starts.iter().map(Vec::len).collect::<Vec<_>>(), [600, 1], "each is called");
        starts[1][0] - came
    }

    #[test]
    fn an_urgent_batch_goes_before_hundreds_of_usual_ones_that_wait() {
        // How fast places become free is known after some seconds.
        for (places, after_ms, least, most) in [(None, 500, 59_000, 3_300), (Some(10), 20_000, 38_000, 6_000)] {
            let [usual, urgent] = [Class::Usual, Class::Urgent].map(|class| waits(class, places, after_ms));
            println!(
                "{places:?}: behind 600 usual batches a usual one waits for {usual} ms, an urgent one {urgent} ms"
            );
            assert!(usual >= least, "{usual} ms");
            assert!(urgent <= most, "{urgent} ms");
        }
    }

    #[test]
    fn of_ten_turns_one_is_left_for_the_usual_however_many_urgent_ones_come() {
        let all = [(Some(Class::Usual.of_all()), 100, BEGINS), (Some(Class::Urgent.of_all()), 5_000, BEGINS)];
        let starts = starts_of(&all, None, BEGINS + 200_000);
        assert_eq!(starts[0].len(), 100, "all usual ones are called");
        for (before, start) in (1..).zip(&starts[0]) {
            assert!(start - BEGINS <= 3_500 + 10 * 100 * before, "{before} usual ones, {} ms", start - BEGINS);
        }
        let urgent = starts[1].iter().filter(|start| **start < BEGINS + 90_000).count();
        assert!(urgent >= 800, "nine of ten turns are theirs: {urgent}");
    }

    #[test]
    fn where_targets_share_each_has_nine_turns_for_its_urgent_batches_for_one_of_a_usual_one() {
        let [one, other] = ["r:one", "r:other"].map(Target::new);
        let shares =
            [Class::Usual.of_target(&one, 1), Class::Urgent.of_target(&one, 1), Class::Usual.of_target(&other, 2)];
        let starts = starts_of(&shares.map(|share| (Some(share), 2_000, BEGINS)), None, BEGINS + 140_000);
        let within = |starts: &Vec<u64>| starts.iter().filter(|start| **start >= BEGINS + 20_000).count() as f64;
        let counts: Vec<f64> = starts.iter().map(within).collect();
        let all: f64 = counts.iter().sum();
        for (count, due) in counts.iter().zip([1.0, 9.0, 2.0]) {
            assert!((count / all / (due / 12.0) - 1.0).abs() < 0.05, "{counts:?}");
        }
    }
}
