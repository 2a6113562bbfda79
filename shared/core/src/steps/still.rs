//! A clock for tests.

use crate::domain::Timestamp;
use crate::ports::Env;

/// A clock that stands still; its sleeps end at once.
pub(in crate::steps) struct Still(pub(in crate::steps) u64);

impl Env for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0)
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        "fresh".to_owned()
    }

    async fn sleep(&self, _: u64) {}
}
