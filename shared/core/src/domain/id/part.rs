//! How sessions, and whatever sweep looks after, are spread over keys.

use super::{BatchId, ListId, Pool, RouteName, SessionId, StreamId, TaskId, TrackerId, digest};

/// Handlers' sessions lie in this many pools, since one partition of DynamoDB takes 1,000 writes a second.
const HANDLER_POOLS: u8 = 16;

impl Pool {
    /// The pools of the batch-handler's invocations. No route's name begins with `#`.
    pub fn of_handlers() -> impl Iterator<Item = Self> {
        (0..HANDLER_POOLS).map(Self::handlers)
    }

    /// The workers that pull a route's batches.
    pub fn of_route(route: &RouteName) -> Self {
        Self(route.0.clone())
    }

    /// The route whose workers these are; none if they are handlers.
    pub fn route(&self) -> Option<RouteName> {
        (!self.0.starts_with('#')).then(|| RouteName::new(self.0.clone()))
    }

    fn handlers(n: u8) -> Self {
        Self(format!("#handlers-{n:x}"))
    }
}

impl SessionId {
    /// A session in a pool; nobody else has the id `unique`.
    pub fn within(pool: &Pool, unique: &str) -> Self {
        Self(format!("{pool}/{unique}"))
    }

    /// A session of the batch-handler, in one of its pools.
    pub fn of_handler(unique: &str) -> Self {
        let spread = unique.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        Self::within(&Pool::handlers(spread % HANDLER_POOLS), unique)
    }

    /// Where it is found.
    pub fn pool(&self) -> Pool {
        Pool(self.0.rsplit_once('/').map_or_else(String::new, |(pool, _)| pool.to_owned()))
    }
}

/// How the keys of batches that wait to be pulled end.
const PULLED: &str = "#pull";

/// One of the [`Part::COUNT`] parts of a key space, a route's, the trackers' or the lists': workers that pull divide
/// them, sweep goes through all.
///
/// Batches that wait to be pulled are listed apart from those that sweep looks after: there may be many of them, for
/// long, and nothing is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    number: u8,
    pulled: bool,
}

impl Part {
    /// How many there are.
    pub const COUNT: u8 = 16;

    /// All parts that sweep looks after.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(|number| Self { number, pulled: false })
    }

    /// This part's batches that wait to be pulled.
    pub const fn pulled(self) -> Self {
        Self { pulled: true, ..self }
    }

    /// The part that a batch lies in.
    pub fn of(batch: &BatchId) -> Self {
        // Ids are digests; whatever else one may be still lies in some part.
        Self::of_digest(&batch.0)
    }

    /// The part that a tracker lies in.
    pub fn of_tracker(tracker: &TrackerId) -> Self {
        Self::of_digest(&digest(&["tracker", &tracker.0]))
    }

    /// The part that a list lies in.
    pub fn of_list(list: &ListId) -> Self {
        Self::of_digest(&digest(&["list", &list.0]))
    }

    /// The part that a stream lies in.
    pub fn of_stream(stream: &StreamId) -> Self {
        Self::of_digest(&digest(&["stream", &stream.0]))
    }

    /// The part that a task is filed in.
    #[must_use]
    pub fn of_task(task: &TaskId) -> Self {
        Self::of_digest(&digest(&["task", &task.0]))
    }

    fn of_digest(digest: &str) -> Self {
        let first = digest.chars().next().and_then(|digit| digit.to_digit(16)).unwrap_or_default();
        Self { number: u8::try_from(first).unwrap_or_default(), pulled: false }
    }

    /// The key under which the index of trackers lists this part.
    pub fn tracker_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of lists lists this part.
    pub fn list_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of streams lists this part.
    pub fn stream_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of what is due lists this part of the scheduled tasks. No route's key is like it.
    pub fn due_key(self) -> String {
        format!("due#{:x}", self.number)
    }

    /// The key under which this part of a route's failed tasks is filed.
    pub fn failed_key(self, route: &RouteName) -> String {
        format!("failed:{route}#{:x}", self.number)
    }

    /// The key under which the index of unfinished batches lists this part of a route.
    pub fn key(self, route: &RouteName) -> String {
        let shelf = if self.pulled { PULLED } else { "" };
        format!("{route}#{:x}{shelf}", self.number)
    }

    /// Returns the route in such a key, and whether its batches wait to be pulled.
    pub fn route_in(key: &str) -> (RouteName, bool) {
        let pulled = key.strip_suffix(PULLED);
        let part = pulled.unwrap_or(key);
        (RouteName::new(part.rsplit_once('#').map_or(part, |(route, _)| route)), pulled.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_session_is_found_in_its_pool() {
        let pool = Pool::of_route(&RouteName::new("parcels"));
        assert_eq!(SessionId::within(&pool, "s1").pool(), pool);
        for unique in ["", "a", "0f31"] {
            assert!(Pool::of_handlers().any(|pool| pool == SessionId::of_handler(unique).pool()));
        }
    }

    #[test]
    fn sessions_and_whatever_sweep_looks_after_are_spread_over_all_parts() {
        let spread = |key: fn(String) -> String| {
            let keys: BTreeSet<String> = (0..300).map(|n| key(n.to_string())).collect();
            keys.into_iter().collect::<Vec<_>>()
        };
        let digits: Vec<String> = (0..16).map(|digit| format!("{digit:x}")).collect();
        assert_eq!(spread(|n| Part::of_tracker(&TrackerId::new(n)).tracker_key()), digits);
        assert_eq!(spread(|n| Part::of_list(&ListId::new(n)).list_key()), digits);
        assert_eq!(spread(|n| Part::of_stream(&StreamId::new(n)).stream_key()), digits);
        let pools: Vec<String> = Pool::of_handlers().map(|pool| pool.as_str().to_owned()).collect();
        assert_eq!(spread(|n| SessionId::of_handler(&n).pool().as_str().to_owned()), pools);
        assert_eq!(pools.len(), 16);
    }

    #[test]
    fn batches_that_wait_to_be_pulled_have_keys_of_their_own() {
        let route = RouteName::new("r");
        let keys: BTreeSet<String> =
            Part::all().flat_map(|part| [part, part.pulled()]).map(|part| part.key(&route)).collect();
        assert_eq!(keys.len(), 32);
        assert!(keys.contains("r#f") && keys.contains("r#f#pull"));
        for part in Part::all() {
            assert_eq!(Part::route_in(&part.key(&route)), (route.clone(), false));
            assert_eq!(Part::route_in(&part.pulled().key(&route)), (route.clone(), true));
        }
    }

    #[test]
    fn every_batch_lies_in_one_part() {
        for id in ["0a", "fa", "7", "", "xyz"] {
            assert_eq!(Part::all().filter(|part| *part == Part::of(&BatchId::new(id))).count(), 1);
        }
    }
}
