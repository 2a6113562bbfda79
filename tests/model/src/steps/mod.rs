//! The steps of the protocol as processes: what the models of the [pipeline](crate::pipeline) and of its
//! [gates](crate::gates) share. A process begins with a message, or is sweep, and asks its model's tables one I/O at a
//! time; see [`crate::harness::histories`].

pub mod io;
pub mod ports;
pub mod process;
pub mod sessions;
