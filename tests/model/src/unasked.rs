//! Ports that nobody asks here, and time that stands still for each process.

use groupage_core::ports::Error;

pub(crate) const fn unasked() -> Error {
    Error::Broken { what: "the model", why: String::new() }
}

/// The value in an answer of this kind.
macro_rules! expected {
    ($kind:ident, $ask:expr) => {
        match $ask.await {
            Answer::$kind(value) => value,
            _ => return Err($crate::unasked::unasked()),
        }
    };
}

/// No task is for an item, so nobody asks for trackers.
macro_rules! no_trackers {
    ($ports:ty) => {
        const _: () = {
            use groupage_core::domain::id::{Part, TrackerId};
            use groupage_core::domain::time::Timestamp;
            use groupage_core::domain::tracker::{Addition, Change, Node, NodeId, Tracker};
            use groupage_core::ports::{Added, Cleared, Freshness, Looked, Marked, Opened, Result, Stored};
            use $crate::unasked::unasked;

            impl groupage_core::ports::Trackers for $ports {
                async fn open_tracker(&self, _: &Tracker) -> Result<Opened> {
                    Err(unasked())
                }

                async fn look(&self, _: &TrackerId, _: &[NodeId], _: Freshness) -> Result<Looked> {
                    Err(unasked())
                }

                async fn store_tracker(&self, _: &Tracker) -> Result<Stored> {
                    Err(unasked())
                }

                async fn add(&self, _: &Tracker, _: &Addition) -> Result<Added> {
                    Err(unasked())
                }

                async fn addition(&self, _: &TrackerId, _: &str) -> Result<Option<Addition>> {
                    Err(unasked())
                }

                async fn mark(&self, _: &TrackerId, _: &Change) -> Result<Marked> {
                    Err(unasked())
                }

                async fn nodes(&self, _: &TrackerId, _: NodeId, _: usize, _: Freshness) -> Result<Vec<Node>> {
                    Err(unasked())
                }

                async fn due_trackers(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<TrackerId>> {
                    Err(unasked())
                }

                async fn clear(&self, _: &Tracker) -> Result<Cleared> {
                    Err(unasked())
                }

                async fn remove_tracker(&self, _: &Tracker) -> Result<Stored> {
                    Err(unasked())
                }
            }
        };
    };
}

/// No task is a stream's event, so nobody asks for streams.
macro_rules! no_streams {
    ($ports:ty) => {
        const _: () = {
            use groupage_core::domain::id::{Part, StreamId};
            use groupage_core::domain::stream::{Life, Page, Stream};
            use groupage_core::domain::time::Timestamp;
            use groupage_core::domain::tracker::{Change, Node, NodeId};
            use groupage_core::ports::{Marked, Result, Seen, Stored, StreamOpened};
            use $crate::unasked::unasked;

            impl groupage_core::ports::Streams for $ports {
                async fn open_stream(&self, _: &Stream) -> Result<StreamOpened> {
                    Err(unasked())
                }

                async fn stream(&self, _: &StreamId) -> Result<Option<Stream>> {
                    Err(unasked())
                }

                async fn see(&self, _: &Life, _: &[NodeId]) -> Result<Seen> {
                    Err(unasked())
                }

                async fn feed(&self, _: &Stream, _: &Page) -> Result<Stored> {
                    Err(unasked())
                }

                async fn commit(&self, _: &Stream) -> Result<Stored> {
                    Err(unasked())
                }

                async fn mark_events(&self, _: &Life, _: &Change) -> Result<Marked> {
                    Err(unasked())
                }

                async fn stream_nodes(&self, _: &Life, _: NodeId, _: usize) -> Result<Vec<Node>> {
                    Err(unasked())
                }

                async fn drop_nodes(&self, _: &Life, _: &[NodeId]) -> Result<()> {
                    Err(unasked())
                }

                async fn pages(&self, _: &Life, _: u64, _: u64, _: usize) -> Result<Vec<Page>> {
                    Err(unasked())
                }

                async fn drop_pages(&self, _: &Life, _: &[u64]) -> Result<()> {
                    Err(unasked())
                }

                async fn due_streams(&self, _: Part, _: Timestamp, _: usize) -> Result<Vec<StreamId>> {
                    Err(unasked())
                }

                async fn remove_stream(&self, _: &Stream) -> Result<Stored> {
                    Err(unasked())
                }
            }
        };
    };
}

/// The recorder's name is its process's time. Nobody waits: a pause after a lost race is over at once.
macro_rules! named_time {
    ($ports:ty) => {
        impl groupage_core::ports::Env for $ports {
            fn now(&self) -> groupage_core::domain::time::Timestamp {
                groupage_core::domain::time::Timestamp(self.name.parse().unwrap_or_default())
            }

            fn random(&self) -> f64 {
                0.5
            }

            fn fresh_id(&self) -> String {
                String::new()
            }

            async fn sleep(&self, _: u64) {}
        }
    };
}

pub(crate) use {expected, named_time, no_streams, no_trackers};
