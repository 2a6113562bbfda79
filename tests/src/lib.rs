//! What the tests share: a world in memory, a store whose index lags, ports that fail, and bursts on the embedded stack.

pub mod burst;
pub mod faulty;
pub mod lag;
pub mod world;
