//! The embedded servers and mappings, through the real SDK clients.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::{future::Future, time::Duration};

mod journal;
mod mapping;
mod queue;
mod stack;

/// Fails a test that would otherwise hang. No test's meaning depends on the number.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it ends within a minute")
}
