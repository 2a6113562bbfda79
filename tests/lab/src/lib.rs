//! What the tests share: the whole pipeline in virtual time, in which every process can be stopped at every call.

pub mod cases;
pub mod chaos;
pub use simulator::clock;
pub mod downstream;
pub mod effort;
pub mod engine;
pub mod fan;
pub mod faulty;
pub mod fuzz;
pub use simulator::lag;
pub mod limits;
pub mod memory;
pub mod moods;
pub mod mutation;
pub mod prelude;
pub mod process;
pub mod promises;
pub mod queues;
pub mod records;
pub mod scenario;
pub mod scenarios;
mod setting;
pub mod witness;
pub mod world;

pub use world::{fan_out, shelf, source};
