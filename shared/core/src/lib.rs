//! Groupage: many tasks, one call.
//!
//! Independent tasks that share a *Target* become the members of one batch, and a batch becomes one call to a
//! downstream batch API. This crate is the inside of a hexagon; nothing of AWS is in its dependency tree:
//!
//! - [`domain`] is pure: states, decisions, ids, retry arithmetic. No clock, no I/O.
//! - [`routes`] turns the routes file into checked, compiled configuration.
//! - [`ports`] names each capability the steps need, one small trait each.
//! - [`steps`] is the protocol: register, elect, group, handle or work, and sweep; lanes, lists, trackers and streams;
//!   and revive, for a stack that lost its messages.
//! - [`memory`] implements the ports in memory, for tests and simulations.
//!
//! The crate `groupage-aws` implements the ports on AWS. One conformance suite runs against both.
//! `docs/ARCHITECTURE.md` walks one task through all of it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod domain;
pub mod memory;
pub mod ports;
pub mod routes;
pub mod steps;
