//! Everything between the gates and a claim that can fail or take time: the batch is named in the session, and its
//! members are read.
//!
//! A batch that waits in place for a place that it is going to bid for has this done meanwhile, so that the place stays
//! empty for less long.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::Error;
use super::admit::Passed;
use super::call::{Members, members};
use super::keeper::Keeper;
use super::processor::Processor;
use crate::domain::Timestamp;
use crate::domain::batch::Batch;
use crate::domain::gate::Now;
use crate::ports::{Downstream, Env, Outbox, Store};
use crate::routes::Route;

/// What came of everything between the gates and the claim.
pub(super) enum Prepared {
    /// The members' tasks: the batch can be claimed.
    Ready(Members),
    /// The session is over.
    SessionLost,
    /// A gate has closed meanwhile, until then, if it says so.
    Closed(Option<Timestamp>),
}

/// The members' tasks of a batch that the session names; `None`: the session is over.
pub(super) type InHand = Result<Option<Members>, Error>;

/// A gate that was open so long ago is not looked at once more before a call, in milliseconds: the claim and the way to
/// the downstream take about as long.
const JUST_NOW_MS: u64 = 50;

impl<S: Store, Q: Outbox, D: Downstream, E: Env> Processor<'_, S, Q, D, E> {
    /// Passes the gates. A batch that waits in place to bid is taken in hand meanwhile; if it does not pass, it is no
    /// longer.
    ///
    /// # Errors
    /// A port did not answer; places may be held then, until their lease is over.
    pub(super) async fn pass(
        &self,
        route: &Route,
        batch: &Batch,
        keeper: &Keeper<'_, S, E>,
        lease_until: Timestamp,
    ) -> Result<(Passed, Option<InHand>), Error> {
        let (gatekeeper, waits) = (self.gatekeeper(), Notify::new());
        // Its state is large, and lies beside that of the call.
        let passing = Box::pin(gatekeeper.admit(route, batch, keeper.id(), lease_until, &waits));
        let has_begun = AtomicBool::new(false);
        let meanwhile = pin!(async {
            waits.notified().await;
            has_begun.store(true, Ordering::Relaxed);
            self.take_in_hand(batch, keeper).await
        });
        let (passed, in_hand) = match select(passing, meanwhile).await {
            // What has begun is not left halfway.
            Either::Left((passed, meanwhile)) if has_begun.load(Ordering::Relaxed) => (passed, Some(meanwhile.await)),
            Either::Left((passed, _)) => (passed, None),
            Either::Right((in_hand, passing)) => (passing.await, Some(in_hand)),
        };
        if !matches!(passed, Ok(Passed::Yes { .. })) {
            keeper.forget(&batch.id).await;
        }
        Ok((passed?, in_hand))
    }

    async fn take_in_hand(&self, batch: &Batch, keeper: &Keeper<'_, S, E>) -> InHand {
        let (named, tasks) = futures::join!(keeper.name(&batch.id), members(self.store, batch));
        Ok(if named?.is_ok() { Some(tasks?) } else { None })
    }

    /// All that is left to do between the gates and the claim: the call may start then, and the gate that pauses and
    /// outages close was seen open then.
    pub(super) async fn prepare(
        &self,
        route: &Route,
        batch: &Batch,
        in_hand: Option<InHand>,
        (start, seen_open): (Timestamp, Timestamp),
        keeper: &Keeper<'_, S, E>,
    ) -> Result<Prepared, Error> {
        let in_hand = match in_hand {
            Some(Ok(in_hand)) => Ok(in_hand),
            // What could not be read while it waited may be read by now.
            Some(Err(_)) | None => self.take_in_hand(batch, keeper).await,
        };
        let Some(tasks) = in_hand? else { return Ok(Prepared::SessionLost) };
        let ahead_ms = start.since(self.env.now());
        self.env.sleep(ahead_ms).await;
        if self.env.now().since(seen_open) > JUST_NOW_MS {
            // A pause may have begun since the batch was let through.
            if let Now::Closed(until) = self.gatekeeper().says_now(route, batch, ahead_ms > 0).await? {
                return Ok(Prepared::Closed(until));
            }
        }
        Ok(if keeper.is_trusted() { Prepared::Ready(tasks) } else { Prepared::SessionLost })
    }
}
