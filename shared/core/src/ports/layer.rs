//! Ports around ports: what a wrapper adds to a port, and nothing else.
//!
//! A wrapper says once what is inside ([`Layer`]), and for each port that it hands on `impl layer::Tasks for W {}`,
//! with the calls in it that it changes. All others go to the port inside, each through [`Layer::around`], which is the
//! place for what happens before or after a call, whichever it is. A call that a port provides, such as
//! [`Tasks::try_register`](super::Tasks::try_register), stays what the port says it is, over the layer's own calls: a
//! layer around a port that does better hands that call on by name.
//!
//! ```
//! # use std::sync::atomic::{AtomicUsize, Ordering};
//! # use groupage_core::{memory::MemoryStore, ports::{Batches, Gates, Result, layer}};
//! # use groupage_core::domain::{gate::{Gate, Scope}, id::{BatchId, Target}};
//! /// Counts calls, except reads of gates.
//! struct Counted<P>(P, AtomicUsize);
//!
//! impl<P: Sync> layer::Layer for Counted<P> {
//!     type Inner = P;
//!
//!     fn inner(&self) -> &P {
//!         &self.0
//!     }
//!
//!     async fn around<T>(&self, _: &'static str, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
//!         self.1.fetch_add(1, Ordering::Relaxed);
//!         work.await
//!     }
//! }
//!
//! impl<P: Batches> layer::Batches for Counted<P> {}
//!
//! impl<P: Gates> layer::Gates for Counted<P> {
//!     async fn gate(&self, scope: &Scope) -> Result<Gate> {
//!         self.0.gate(scope).await
//!     }
//! }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//!
//! let store = Counted(MemoryStore::new(), AtomicUsize::new(0));
//! store.batch(&BatchId::new("b")).await.unwrap();
//! store.gate(&Scope::Target(Target::new("r:t"))).await.unwrap();
//! assert_eq!(store.1.into_inner(), 1);
//! # });
//! ```
//!
//! So a layer has the ports that it hands on: `impl<L: layer::Tasks> ports::Tasks for L`. Import this module and not
//! its traits, whose calls have the names of the ports' own. The queues and downstreams have no layers: they answer in
//! other ways, and one call each is no work to hand on.

pub use super::around::Layer;
pub use super::batches::layer::Batches;
pub use super::census::layer::Census;
pub use super::failures::layer::Failures;
pub use super::gates::layer::Gates;
pub use super::lanes::layer::Lanes;
pub use super::lists::layer::Lists;
pub use super::locks::layer::Locks;
pub use super::sessions::layer::Sessions;
pub use super::shelves::layer::Shelves;
pub use super::streams::layer::Streams;
pub use super::tasks::layer::Tasks;
pub use super::trackers::layer::Trackers;

/// Hands these ports on as they are: `hand_on!(W: Batches, Gates)`.
#[macro_export]
macro_rules! hand_on {
    ($layer:ty: $($port:ident),+) => { $(impl $crate::ports::layer::$port for $layer {})+ };
}
