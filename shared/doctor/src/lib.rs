//! What ails a stack. [`examine`] reads what AWS says of it, and [`judge`] says of each part whether it is well.
//!
//! Reading and judging are apart. What was read is in [`seen`], in words of its own, and each check is a pure function
//! of that. What could not be read is never taken for well: no permission and an engine that lacks the call are
//! findings of their own.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod checks;
mod finding;
mod reading;
pub mod seen;

pub use checks::judge;
pub use finding::{Check, Finding, Verdict};
pub use reading::{Deployed, Site, examine};
