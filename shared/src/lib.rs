//! Groupage: many tasks, one call.
//!
//! Independent tasks that share a *Target* become the members of one batch, and a batch becomes one call to a
//! downstream batch API. The crate is a hexagon:
//!
//! - [`domain`] is pure: states, decisions, ids, retry arithmetic. No clock, no I/O, no AWS.
//! - [`routes`] turns the routes file into checked, compiled configuration.
//! - [`ports`] names each capability the steps need, one small trait each.
//! - [`steps`] is the protocol: register, elect, group, handle or work, and sweep; lanes, lists, trackers and streams; and
//!   revive, for a stack that lost its messages.
//! - [`memory`] and [`aws`] implement the ports; one conformance suite runs against both.
//! - [`entry`] turns an SQS event into step calls and a partial batch response, record by record.
//!
//! `docs/ARCHITECTURE.md` walks one task through all of it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod aws;
pub mod config;
pub mod domain;
pub mod entry;
pub mod memory;
pub mod ports;
pub mod routes;
pub mod steps;
