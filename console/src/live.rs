//! Live pages: what one shows is made anew every two seconds while somebody looks, once for all that look at the same.
//! When many are looked at, each is made less often, so that all together cost what a few do.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// How often a page that somebody looks at is made anew.
pub const EVERY: Duration = Duration::from_secs(2);

/// The most pages that are made anew in that time, however many are looked at.
const AT_ONCE: u32 = 8;

/// What is being looked at. Its clones are the same.
#[derive(Debug)]
pub struct Watched<K>(Arc<Mutex<HashMap<K, watch::Sender<Arc<str>>>>>);

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for Watched<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Watched<K> {
    /// Looks at `key`: what `make` makes of it comes at once and then every two seconds, unless it is the same. All
    /// that look at the same get the same, and it is made no more often. The last to go away ends it.
    pub fn watch<F>(&self, key: K, make: impl Fn(K) -> F + Send + 'static) -> watch::Receiver<Arc<str>>
    where
        F: Future<Output = String> + Send + 'static,
    {
        let mut watched = self.lock();
        if let Some(sender) = watched.get(&key) {
            let mut receiver = sender.subscribe();
            receiver.mark_changed();
            return receiver;
        }
        let (sender, receiver) = watch::channel(Arc::from(""));
        watched.insert(key.clone(), sender);
        drop(watched);
        tokio::spawn(self.clone().keep_making(key, make));
        receiver
    }

    async fn keep_making<F: Future<Output = String> + Send>(self, key: K, make: impl Fn(K) -> F + Send) {
        loop {
            let made: Arc<str> = make(key.clone()).await.into();
            if !self.show(&key, made) {
                return;
            }
            let pages = u32::try_from(self.lock().len()).unwrap_or(u32::MAX);
            tokio::time::sleep(EVERY * pages.div_ceil(AT_ONCE)).await;
        }
    }

    /// Whether anybody looks at it still. Under one lock, so that nobody begins to look at what is about to end.
    fn show(&self, key: &K, made: Arc<str>) -> bool {
        let mut watched = self.lock();
        let is_watched = watched.get(key).is_some_and(|sender| {
            sender.send_if_modified(|shown| {
                let is_new = *shown != made;
                *shown = made;
                is_new
            });
            sender.receiver_count() > 0
        });
        if !is_watched {
            watched.remove(key);
        }
        is_watched
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, watch::Sender<Arc<str>>>> {
        // A panic while it was held left a map whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Makes `0`, `1`, …, and counts.
    fn counting(made: &Arc<AtomicUsize>) -> impl Fn(&'static str) -> std::future::Ready<String> + Send + use<> {
        let made = Arc::clone(made);
        move |_| std::future::ready(made.fetch_add(1, Ordering::Relaxed).to_string())
    }

    async fn next(receiver: &mut watch::Receiver<Arc<str>>) -> String {
        receiver.changed().await.unwrap();
        receiver.borrow_and_update().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn two_that_look_at_the_same_cost_what_one_does() {
        let (watched, made) = (Watched::default(), Arc::new(AtomicUsize::new(0)));
        let mut first = watched.watch("page", counting(&made));
        assert_eq!(next(&mut first).await, "0");
        let mut second = watched.watch("page", counting(&made));
        assert_eq!(next(&mut second).await, "0", "what is shown comes at once");
        assert_eq!((next(&mut first).await, next(&mut second).await), ("1".to_owned(), "1".to_owned()));
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn many_pages_that_are_looked_at_cost_what_a_few_do() {
        let (watched, made) = (Watched::default(), Arc::new(AtomicUsize::new(0)));
        let shown: Vec<_> = (0..100)
            .map(|page| {
                let made = Arc::clone(&made);
                watched.watch(page, move |_| std::future::ready(made.fetch_add(1, Ordering::Relaxed).to_string()))
            })
            .collect();
        tokio::time::sleep(EVERY * 100).await;
        let made = made.load(Ordering::Relaxed);
        assert!((500..=900).contains(&made), "{made} of 10,000");
        drop(shown);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_made_for_nobody_and_whoever_comes_back_begins_anew() {
        let (watched, made) = (Watched::default(), Arc::new(AtomicUsize::new(0)));
        let mut first = watched.watch("page", counting(&made));
        next(&mut first).await;
        drop(first);
        tokio::time::sleep(EVERY * 100).await;
        assert_eq!(made.load(Ordering::Relaxed), 2, "once more, which nobody saw");
        assert!(watched.lock().is_empty());
        assert_eq!(next(&mut watched.watch("page", counting(&made))).await, "2");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_changed_is_not_sent_again() {
        let watched = Watched::default();
        let mut still = watched.watch("page", |_| std::future::ready("same".to_owned()));
        assert_eq!(next(&mut still).await, "same");
        assert!(tokio::time::timeout(EVERY * 10, still.changed()).await.is_err());
    }
}
