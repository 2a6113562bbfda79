//! What keeps the house in order, as far as the compiler does not: modules that import from those below them only, a
//! core without AWS, and docs whose paths exist. `tests/house` has the claims.
//!
//! The Rust files are read with `syn`, target by target as cargo knows them; nothing is compiled. So the crate depends
//! on no other crate of the workspace, and its tests take seconds.

pub mod cargo;
pub mod circles;
pub mod comments;
pub mod docs;
pub mod limits;
pub mod modules;
mod names;
pub mod prose;
pub mod reasons;
pub mod reference;
