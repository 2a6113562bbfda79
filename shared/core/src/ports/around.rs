//! What a [layer](super::layer) is around.

use std::fmt::Debug;

use super::Result;

/// Something around ports.
pub trait Layer: Sync {
    /// What it is around.
    type Inner: Sync;

    /// What it is around.
    fn inner(&self) -> &Self::Inner;

    /// Makes a call that is handed on: `work` is the call of the port inside, `call` its name. Calls that a layer
    /// answers itself do not come here.
    fn around<T: Debug + Send>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        let _ = call;
        work
    }
}
