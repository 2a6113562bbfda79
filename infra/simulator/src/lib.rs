//! The real steps in virtual time, on tables, queues and functions that cost and take what they do on AWS.

pub mod clock;
pub mod lag;
mod pass;
