//! The ports that the tables implement: one file per table.

pub(crate) mod batches;
mod census;
mod failures;
pub(crate) mod gates;
mod lanes;
mod lists;
pub(crate) mod locks;
mod nodes;
mod routes;
pub(crate) mod sessions;
mod shelves;
mod streams;
pub(crate) mod tasks;
mod trackers;

pub use routes::{Publication, RouteTable, StoredRoutes};
pub use tasks::Cursor;
