//! What the tests share: a world in memory, a store whose index lags, and ports that fail.

pub mod faulty;
pub mod lag;
pub mod world;
