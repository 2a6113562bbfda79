//! Values that expire: secrets, tokens, credentials, clients. Each is fetched once for all calls that wait for it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use groupage_core::ports::NoAnswer;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A fetch that failed is not tried again for so long: the calls that waited for it fail with it.
const FAILED: Duration = Duration::from_secs(2);
/// A value is used for so long at least, or each call that waits for one that has just expired would fetch another.
const LEAST: Duration = Duration::from_secs(2);

/// A cache of values that expire, by their keys.
pub(super) struct Fresh<K, V> {
    /// A value that is younger is not fetched anew, however often it is refused.
    young: Duration,
    entries: Mutex<HashMap<K, Entry<V>>>,
}

/// Locked while its value is fetched.
type Entry<V> = Arc<Mutex<Option<Held<V>>>>;

struct Held<V> {
    value: Result<V, NoAnswer>,
    since: Instant,
    until: Instant,
}

impl<K: Clone + Eq + Hash, V: Clone> Fresh<K, V> {
    /// Makes an empty cache, which fetches no value anew that is younger than `young`.
    pub(super) fn new(young: Duration) -> Self {
        Self { young, entries: Mutex::default() }
    }

    /// Returns the value of a key. If there is none, or it has expired, fetches it with the time that it holds.
    ///
    /// # Errors
    /// The reason why it cannot be fetched, now or a moment ago.
    pub(super) async fn get(
        &self,
        key: &K,
        fetch: impl AsyncFnOnce() -> Result<(V, Duration), NoAnswer>,
    ) -> Result<V, NoAnswer> {
        let entry = self.entry(key).await;
        let mut held = entry.lock().await;
        if let Some(held) = held.as_ref().filter(|held| Instant::now() < held.until) {
            return held.value.clone();
        }
        let (value, holds) = match fetch().await {
            Ok((value, holds)) => (Ok(value), holds.max(LEAST)),
            Err(error) => (Err(error), FAILED),
        };
        let since = Instant::now();
        *held = Some(Held { value: value.clone(), since, until: since + holds });
        value
    }

    /// Has the value of a key fetched anew when it is wanted next, if it is the one that was `refused`. So of many
    /// calls that are refused at once, one fetches.
    pub(super) async fn forget(&self, key: &K, refused: impl Fn(&V) -> bool) {
        let entry = self.entry(key).await;
        let mut held = entry.lock().await;
        held.take_if(|held| held.since.elapsed() >= self.young && held.value.as_ref().is_ok_and(&refused));
    }

    async fn entry(&self, key: &K) -> Entry<V> {
        let mut entries = self.entries.lock().await;
        match entries.get(key) {
            Some(entry) => Arc::clone(entry),
            None => Arc::clone(entries.entry(key.clone()).or_default()),
        }
    }
}

impl<K, V> fmt::Debug for Fresh<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use groupage_core::domain::outcome::Reason;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_fetched_when_it_has_expired_or_was_refused_and_is_not_young() {
        let (fresh, count) = (Fresh::new(Duration::from_secs(10)), Cell::new(0));
        let get = || {
            fresh.get(&"key", async || {
                count.set(count.get() + 1);
                Ok((count.get(), Duration::from_secs(60)))
            })
        };
        assert_eq!((get().await, get().await), (Ok(1), Ok(1)));
        fresh.forget(&"key", |_| true).await;
        assert_eq!(get().await, Ok(1), "a value that was fetched a moment ago");
        tokio::time::advance(Duration::from_secs(11)).await;
        fresh.forget(&"key", |value| *value == 0).await;
        assert_eq!(get().await, Ok(1), "a value that was fetched since the refused one");
        fresh.forget(&"key", |value| *value == 1).await;
        assert_eq!((get().await, get().await), (Ok(2), Ok(2)));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(get().await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_a_fetch_that_fails_fail_with_it() {
        let (fresh, count) = (Fresh::<_, ()>::new(Duration::ZERO), Cell::new(0));
        let failed = NoAnswer::Other(Reason::new("away"));
        let get = || {
            fresh.get(&"key", async || {
                count.set(count.get() + 1);
                tokio::time::sleep(Duration::from_secs(10)).await;
                Err(failed.clone())
            })
        };
        let all = futures::future::join_all((0..100).map(|_| get())).await;
        assert!(all.iter().all(|one| *one == Err(failed.clone())));
        assert_eq!(count.get(), 1);
        tokio::time::advance(FAILED).await;
        assert_eq!((get().await, count.get()), (Err(failed.clone()), 2));
    }
}
