//! Ports that nobody asks.

use super::Error;

/// Every port of the store, none of which answers: each call is an error that names it.
///
/// For code that needs only some calls of some ports, such as a model or a test. It is a [layer](super::layer) around
/// `Unasked`, and writes just the calls that it answers:
///
/// ```
/// # use groupage_core::ports::{Lanes, Result, Unasked, layer};
/// # use groupage_core::domain::{id::LaneId, lane::Lane};
/// struct NoLanes;
///
/// impl layer::Layer for NoLanes {
///     type Inner = Unasked;
///
///     fn inner(&self) -> &Unasked {
///         &Unasked
///     }
/// }
///
/// impl layer::Lanes for NoLanes {
///     async fn lane(&self, _: &LaneId) -> Result<Option<Lane>> {
///         Ok(None)
///     }
/// }
///
/// impl layer::Streams for NoLanes {}
/// ```
///
/// Its `Tasks` have `type Cursor = ();`, which a layer's own must name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unasked;

impl Unasked {
    /// What a call that nobody should make comes to.
    pub fn was_asked(call: &'static str) -> Error {
        Error::Broken { what: call, why: "nobody asks for this here".to_owned() }
    }
}
