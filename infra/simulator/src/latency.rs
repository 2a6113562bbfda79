//! How long each hop takes, in one table.
//!
//! Drawn from log-normal distributions, given by median and 99th percentile. AWS publishes orders of magnitude only:
//!
//! | hop | source |
//! |---|---|
//! | DynamoDB | "single-digit millisecond performance" (developer guide, *What is Amazon DynamoDB?*; AWS Database Blog, *Understanding Amazon DynamoDB latency*); a page or a hundred items take somewhat longer |
//! | SQS send, receive | under 10 ms is often seen, tens of milliseconds are what the FAQ promises |
//! | invocation | a warm environment starts within milliseconds; the mapping's own hand-over is not published |
//!
//! A chain of SQS and Lambda, measured from outside (github.com/lukehoban/lambdaperf), took 125 ms for send, delivery,
//! invocation and JavaScript together; here send, delivery and invocation have a median of 40 ms.

use std::time::Duration;

use groupage_core::ports::Env;

use crate::clock::TestEnv;

/// A hop of a task's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// A write of one item to DynamoDB.
    Write,
    /// A read of one item.
    Read,
    /// A page of a query, or up to a hundred items.
    Page,
    /// A request to SQS that sends, deletes or postpones messages.
    Request,
    /// From a message's arrival, or the end of its delay, to the mapping that polls.
    Delivery,
    /// From the mapping to the function's first line.
    Invocation,
}

impl Hop {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Write, Self::Read, Self::Page, Self::Request, Self::Delivery, Self::Invocation];

    /// What it is called in tables; median and 99th percentile, in milliseconds.
    pub const fn assumed(self) -> (&'static str, f64, f64) {
        match self {
            Self::Write => ("DynamoDB write", 5.0, 15.0),
            Self::Read => ("DynamoDB read", 3.0, 10.0),
            Self::Page => ("DynamoDB page", 8.0, 25.0),
            Self::Request => ("SQS request", 10.0, 50.0),
            Self::Delivery => ("SQS delivery", 20.0, 80.0),
            Self::Invocation => ("Lambda invocation", 10.0, 50.0),
        }
    }

    /// How long it takes this time.
    pub fn draw(self, dice: &TestEnv) -> Duration {
        /// The standard normal distribution's 99th percentile.
        const P99: f64 = 2.326;
        let (_, median, p99) = self.assumed();
        let sigma = (p99 / median).ln() / P99;
        Duration::from_secs_f64(median * (sigma * normal(dice)).exp() / 1_000.0)
    }
}

/// A draw from the standard normal distribution, after Box and Muller.
fn normal(dice: &TestEnv) -> f64 {
    let (radius, angle) = (1.0 - dice.random(), dice.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn draws_have_the_stated_median_and_percentile() {
        let dice = TestEnv::new(7);
        let mut drawn: Vec<Duration> = (0..20_000).map(|_| Hop::Delivery.draw(&dice)).collect();
        drawn.sort();
        let at = |share: f64| drawn[(share * drawn.len() as f64) as usize].as_secs_f64() * 1_000.0;
        assert!((19.0..21.0).contains(&at(0.5)) && (74.0..86.0).contains(&at(0.99)), "{} {}", at(0.5), at(0.99));
    }
}
