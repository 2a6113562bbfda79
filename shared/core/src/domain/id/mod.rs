//! A type for every id and every number that orders writes, so that none is passed for another.

mod outside;
mod part;
mod target;

use derive_more::Display;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use outside::{MAX_LIST_ID_BYTES, MAX_STREAM_ID_BYTES, MAX_TASK_ID_BYTES, MAX_TRACKER_ID_BYTES};
pub use part::Part;
pub use target::MAX_TARGET_BYTES;

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a string that is known to be such an id, for example because a table held it.
            pub fn new(value: impl Into<String>) -> Self {
                Self(value.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}

/// What is stored and sent as the text that it is shown as, and read from it by its `parse`.
macro_rules! stored_as_text {
    ($name:ident, $wrong:ty) => {
        impl TryFrom<String> for $name {
            type Error = $wrong;

            fn try_from(text: String) -> Result<Self, $wrong> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
pub(crate) use stored_as_text;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number after this one.
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
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
    /// The name of a limit that routes share.
    LimitName
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
    ///
    /// A shard of it other than its home is `route/shard:value`: a key of its own in the index of waiting tasks and in
    /// the table of locks. Whatever people see, and whatever counts over a Target, goes by [`Target::whole`].
    Target
}

number! {
    /// One of the parts that the waiting tasks, the locks and the leaders of a Target are spread over.
    Shard(u8)
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

impl Token {
    /// The token this many places on.
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl BatchId {
    /// The id of the `seq`-th batch that the leader with this fence makes for a Target.
    ///
    /// Derived, so that a repeat of the leader's message finds the batch it began instead of beginning another.
    pub fn derive(target: &Target, fence: Fence, seq: Seq) -> Self {
        Self(digest(&["batch", target.as_str(), &fence.to_string(), &seq.to_string()]))
    }

    /// The id of a batch that needs no leader; nobody else has the id `unique`. No leader's batch has such an id.
    ///
    /// Not derived from what is in the batch: who repeats its registration may find its tasks in other batches.
    pub fn express(unique: &str) -> Self {
        Self(digest(&["express", unique]))
    }
}

/// The first 128 bits of SHA-256 over the parts, as 32 hex digits. Each part's length goes in too, so that no two
/// lists of parts run together.
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
    fn a_digest_depends_on_where_its_parts_end() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&["ab"]).len(), 32);
    }
}
