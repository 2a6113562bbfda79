//! A type for every id and every number that orders writes, so that none is passed for another.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a string that is known to be such an id, for example because a table held it.
            pub fn new(value: impl Into<String>) -> Self {
                Self(value.into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

string_id! {
    /// A task: the sender's id, or one derived from the message that brought it.
    TaskId
}
string_id! {
    /// A batch, and the `Idempotency-Key` of its call.
    BatchId
}
string_id! {
    /// The chain of messages that drives one set of newly registered tasks; the holder of a lock.
    WorkflowId
}
string_id! {
    /// A live worker, as `pool/unique`: its pool is where its session is found.
    SessionId
}
string_id! {
    /// Sessions that are looked for together: those that pull one route's batches, or a sixteenth of the handlers'.
    Pool
}
string_id! {
    /// A route's name: `[a-z0-9-]`, so that it can prefix a stored Target unambiguously.
    RouteName
}
string_id! {
    /// A fan-out being counted: its owner's name for it, or a random one.
    TrackerId
}
string_id! {
    /// Tasks that wait to be released: their owner's name for them.
    ListId
}
string_id! {
    /// The tasks of one order key: `route:value`, as its route's `ordered_by` gives it.
    LaneId
}
string_id! {
    /// An ordered source of tasks: its owner's name for it.
    StreamId
}
string_id! {
    /// The key that makes tasks groupable, as stored: `route:value`. Two routes may compute the same value.
    Target
}

number! {
    /// Grows with every acquisition of a Target's lock and never falls; a write that carries an old one fails.
    Fence(u64)
}
number! {
    /// Numbers the batches that one leader makes under one fence.
    Seq(u32)
}
number! {
    /// Rises each time a task returns to waiting, so that a mover from an earlier round changes nothing.
    Round(u32)
}
number! {
    /// Counts a session's heartbeats.
    Beat(u64)
}
number! {
    /// A task's number in its list, counted from 0 in the order of arrival.
    Token(u64)
}
number! {
    /// A task's number in its lane: counted from 0 in the order of acceptance, or given by the task itself.
    Turn(u64)
}
number! {
    /// Rises with every write of a batch, a tracker, a lane or a list's tail; each write names the one it read.
    Revision(u64)
}

/// The longest id a sender may give a task, in bytes.
pub const MAX_TASK_ID_BYTES: usize = 128;

impl TaskId {
    /// Checks an id that came from outside.
    ///
    /// # Errors
    /// Says what is wrong with the id, without repeating it.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        if value.is_empty() {
            return Err("`id` is empty");
        }
        if value.len() > MAX_TASK_ID_BYTES {
            return Err("`id` is longer than 128 bytes");
        }
        if !value.chars().all(|c| c.is_ascii_graphic()) {
            return Err("`id` holds a character that is not visible ASCII");
        }
        Ok(Self(value.to_owned()))
    }
}

impl RouteName {
    /// Checks a name from a routes file.
    ///
    /// # Errors
    /// Says which names are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if (1..=64).contains(&value.len()) && value.chars().all(allowed) {
            Ok(Self(value.to_owned()))
        } else {
            Err("a route's name has 1 to 64 characters out of a-z, 0-9 and -")
        }
    }
}

/// The longest id of a tracker, in bytes: a group of items still fits one write unit.
pub const MAX_TRACKER_ID_BYTES: usize = 64;

impl TrackerId {
    /// Checks an id that came from outside. It holds no `:`, so that it can begin an item's id.
    ///
    /// # Errors
    /// Says which ids are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=MAX_TRACKER_ID_BYTES).contains(&value.len()) && value.chars().all(allowed) {
            Ok(Self(value.to_owned()))
        } else {
            Err("a tracker's id has 1 to 64 characters out of A-Z, a-z, 0-9, - and _")
        }
    }
}

/// The longest id of a list, in bytes.
pub const MAX_LIST_ID_BYTES: usize = 64;

impl ListId {
    /// Checks an id that came from outside.
    ///
    /// # Errors
    /// Says which ids are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=MAX_LIST_ID_BYTES).contains(&value.len()) && value.chars().all(allowed) {
            Ok(Self(value.to_owned()))
        } else {
            Err("a list's name has 1 to 64 characters out of A-Z, a-z, 0-9, - and _")
        }
    }
}

/// The longest id of a stream, in bytes: a group of its events still fits one write unit.
pub const MAX_STREAM_ID_BYTES: usize = 40;

impl StreamId {
    /// Checks an id that came from outside. It holds no `:`, so that it can begin an event's id.
    ///
    /// # Errors
    /// Says which ids are allowed.
    pub fn parse(value: &str) -> Result<Self, &'static str> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if (1..=MAX_STREAM_ID_BYTES).contains(&value.len()) && value.chars().all(allowed) {
            Ok(Self(value.to_owned()))
        } else {
            Err("a stream's name has 1 to 40 characters out of A-Z, a-z, 0-9, - and _")
        }
    }
}

impl Token {
    /// The token so many places on.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

/// The longest value a `target` expression may give, in bytes: with its route it stays inside the 2,048 bytes that
/// DynamoDB allows a partition key, and keeps a lock inside one write unit.
pub const MAX_TARGET_BYTES: usize = 512;

impl LaneId {
    /// The stored form of the order key that `route` computed.
    #[must_use]
    pub fn of(route: &RouteName, key: &str) -> Self {
        Self(format!("{route}:{key}"))
    }

    /// The route that orders these tasks.
    #[must_use]
    pub fn route(&self) -> RouteName {
        RouteName(self.0.split_once(':').map_or(self.0.as_str(), |(route, _)| route).to_owned())
    }

    /// The order key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, key)| key)
    }
}

impl Target {
    /// The stored form of `value` as computed by `route`.
    #[must_use]
    pub fn of(route: &RouteName, value: &str) -> Self {
        Self(format!("{route}:{value}"))
    }

    /// The route that computed this Target.
    #[must_use]
    pub fn route(&self) -> RouteName {
        RouteName(self.split().0.to_owned())
    }

    /// What the route's `target` expression gave.
    #[must_use]
    pub fn value(&self) -> &str {
        self.split().1
    }

    fn split(&self) -> (&str, &str) {
        self.0.split_once(':').unwrap_or((&self.0, ""))
    }
}

/// Handlers' sessions lie in so many pools, since one partition of DynamoDB takes 1,000 writes a second.
const HANDLER_POOLS: u8 = 16;

impl Pool {
    /// The pools of the batch-handler's invocations. No route's name begins with `#`.
    pub fn of_handlers() -> impl Iterator<Item = Self> {
        (0..HANDLER_POOLS).map(Self::handlers)
    }

    /// The workers that pull a route's batches.
    #[must_use]
    pub fn of_route(route: &RouteName) -> Self {
        Self(route.0.clone())
    }

    fn handlers(n: u8) -> Self {
        Self(format!("#handlers-{n:x}"))
    }
}

impl SessionId {
    /// A session in a pool; nobody else has the id `unique`.
    #[must_use]
    pub fn within(pool: &Pool, unique: &str) -> Self {
        Self(format!("{pool}/{unique}"))
    }

    /// A session of the batch-handler, in one of its pools.
    #[must_use]
    pub fn of_handler(unique: &str) -> Self {
        let spread = unique.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        Self::within(&Pool::handlers(spread % HANDLER_POOLS), unique)
    }

    /// Where it is found.
    #[must_use]
    pub fn pool(&self) -> Pool {
        Pool(self.0.rsplit_once('/').map_or_else(String::new, |(pool, _)| pool.to_owned()))
    }
}

/// One of the [`Part::COUNT`] parts of a key space, a route's, the trackers' or the lists': workers that pull divide them, sweep goes
/// through all.
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
    #[must_use]
    pub const fn pulled(self) -> Self {
        Self { pulled: true, ..self }
    }

    /// The part that a batch lies in.
    #[must_use]
    pub fn of(batch: &BatchId) -> Self {
        // Ids are digests; whatever else one may be still lies in some part.
        Self::of_digest(&batch.0)
    }

    /// The part that a tracker lies in.
    #[must_use]
    pub fn of_tracker(tracker: &TrackerId) -> Self {
        Self::of_digest(&digest(&["tracker", &tracker.0]))
    }

    /// The part that a list lies in.
    #[must_use]
    pub fn of_list(list: &ListId) -> Self {
        Self::of_digest(&digest(&["list", &list.0]))
    }

    /// The part that a stream lies in.
    #[must_use]
    pub fn of_stream(stream: &StreamId) -> Self {
        Self::of_digest(&digest(&["stream", &stream.0]))
    }

    fn of_digest(digest: &str) -> Self {
        let first = digest.chars().next().and_then(|digit| digit.to_digit(16)).unwrap_or_default();
        Self { number: u8::try_from(first).unwrap_or_default(), pulled: false }
    }

    /// The key under which the index of trackers lists this part.
    #[must_use]
    pub fn tracker_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of lists lists this part.
    #[must_use]
    pub fn list_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of streams lists this part.
    #[must_use]
    pub fn stream_key(self) -> String {
        format!("{:x}", self.number)
    }

    /// The key under which the index of unfinished batches lists this part of a route.
    #[must_use]
    pub fn key(self, route: &RouteName) -> String {
        let shelf = if self.pulled { "#pull" } else { "" };
        format!("{route}#{:x}{shelf}", self.number)
    }
}

impl BatchId {
    /// The id of the `seq`-th batch that the leader with this fence makes for a Target.
    ///
    /// Derived, so that a repeat of the leader's message finds the batch it began instead of beginning another.
    #[must_use]
    pub fn derive(target: &Target, fence: Fence, seq: Seq) -> Self {
        Self(digest(&["batch", target.as_str(), &fence.to_string(), &seq.to_string()]))
    }

    /// The id of a batch that needs no leader; nobody else has the id `unique`. No leader's batch has such an id.
    ///
    /// Not derived from what is in the batch: who repeats its registration may find its tasks in other batches.
    #[must_use]
    pub fn express(unique: &str) -> Self {
        Self(digest(&["express", unique]))
    }
}

/// The first 128 bits of SHA-256 over the parts, as 32 hex digits. Each part's length goes in too, so that no two
/// lists of parts run together.
#[must_use]
pub fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_200_characters_is_refused() {
        assert!(TaskId::parse(&"x".repeat(200)).is_err());
        assert!(TaskId::parse(&"x".repeat(128)).is_ok());
        assert!(TaskId::parse("").is_err());
        assert!(TaskId::parse("a b").is_err());
    }

    #[test]
    fn a_stored_target_gives_back_its_route_and_value() {
        let target = Target::of(&RouteName::new("parcels"), "truck:7");
        assert_eq!(target.as_str(), "parcels:truck:7");
        assert_eq!(target.route(), RouteName::new("parcels"));
        assert_eq!(target.value(), "truck:7");
    }

    #[test]
    fn a_session_is_found_in_its_pool() {
        let pool = Pool::of_route(&RouteName::new("parcels"));
        assert_eq!(SessionId::within(&pool, "s1").pool(), pool);
        for unique in ["", "a", "0f31"] {
            assert!(Pool::of_handlers().any(|pool| pool == SessionId::of_handler(unique).pool()));
        }
    }

    #[test]
    fn every_batch_lies_in_one_part() {
        for id in ["0a", "fa", "7", "", "xyz"] {
            assert_eq!(Part::all().filter(|part| *part == Part::of(&BatchId::new(id))).count(), 1);
        }
    }

    #[test]
    fn a_digest_depends_on_where_its_parts_end() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&["ab"]).len(), 32);
    }
}
