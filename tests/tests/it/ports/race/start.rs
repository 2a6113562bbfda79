//! Sixty-four workers who start at once.

use groupage_lab::prelude::*;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::Barrier;

pub const RACERS: usize = 64;
/// Nobody's clock moves: only what was written tells one from the next.
pub const NOW: Timestamp = Timestamp(1_000);

/// Runs `racer` sixty-four times at once, from one start.
pub async fn all_at_once<T, Fut>(racer: impl Fn(usize) -> Fut) -> Vec<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    some_at_once(RACERS, racer).await
}

/// Runs `racer` this many times at once, from one start.
pub async fn some_at_once<T, Fut>(racers: usize, racer: impl Fn(usize) -> Fut) -> Vec<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(racers));
    let racers = (0..racers).map(|n| {
        let (start, racer) = (Arc::clone(&start), racer(n));
        tokio::spawn(async move {
            start.wait().await;
            racer.await
        })
    });
    join_all(racers).await.into_iter().map(|racer| racer.expect("a racer does not panic")).collect()
}

/// The only element of those that are there.
pub fn only<T>(found: Vec<Option<T>>) -> T {
    let mut found: Vec<T> = found.into_iter().flatten().collect();
    assert_eq!(found.len(), 1, "exactly one wins");
    found.remove(0)
}
