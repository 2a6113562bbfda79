//! Releasing and discarding: one conditional write takes the tokens, and then they are worked off.

use super::{Listing, Outcome, Refused};
use crate::domain::id::{ListId, Token};
use crate::domain::list::{Head, MAX_KEY_BYTES, MAX_RELEASED, MAX_RESERVATIONS, Move, Purpose, Record, State};
use crate::ports::{Env, Lists, Moved, Outbox, Trackers};
use crate::steps::Error;
use crate::steps::cas::{Tries, is_key};

/// Tasks that a call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first one's token.
    pub start: Token,
    /// How many: fewer than asked for, or none, if no more waited.
    pub count: u64,
    /// Those of them that are left to sweep, since they are too many for one call.
    pub left: u64,
    /// Whether an earlier call took them, under the same key.
    pub repeated: bool,
}

/// One call discards this many pages of tasks itself.
const DISCARDED_PAGES: usize = 100;

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// Takes the next tasks and feeds them into the pipeline, in the order of their tokens. A key is remembered while
    /// the release is under way and for the stack's retention after. A release that took nothing is not remembered.
    ///
    /// # Errors
    /// A port did not answer: whether tokens were taken is unknown. Repeated under the same key, the call goes on with
    /// what it took; if nobody repeats it, sweep does.
    pub async fn release(&self, id: &ListId, key: &str, count: u64) -> Outcome<Taken> {
        if !(1..=MAX_RELEASED).contains(&count) {
            return Ok(Err(Refused::BadCount));
        }
        self.take(id, key, Purpose::Release { asked: count }).await
    }

    /// Takes everything that waits and removes it; the trackers' items that the tasks carry fail. Sweep goes on with
    /// what is too much for one call.
    pub async fn discard(&self, id: &ListId, key: &str) -> Outcome<Taken> {
        self.take(id, key, Purpose::Discard).await
    }

    async fn take(&self, id: &ListId, key: &str, purpose: Purpose) -> Outcome<Taken> {
        if !is_key(key, MAX_KEY_BYTES) {
            return Ok(Err(Refused::BadKey));
        }
        let mut tries = Tries::of("taking tasks from a list", self.env);
        loop {
            let unknown = || Refused::Unknown(id.clone());
            let Some(list) = self.store.list(id).await? else { return Ok(Err(unknown())) };
            // After the head: whatever it has forgotten by then has a record.
            let record = self.store.record(&list.tail.life, key).await?;
            let reserved = list.head.reservations.get(key).map(|reservation| Record::of(key, *reservation));
            if let Some(record) = record.or(reserved) {
                if record.reservation.purpose != purpose {
                    return Ok(Err(Refused::KeyUsed));
                }
                return self.go_on(list.head, record, true).await.map(Ok);
            }
            match list.tail.state {
                State::Closed if !purpose.is_discard() => return Ok(Err(Refused::Closed)),
                State::Removing => return Ok(Err(unknown())),
                State::Open | State::Closed => {}
            }
            let Some(reserve) = list.taking(key, purpose, self.env.now()) else {
                return Ok(Ok(Taken { start: list.head.taken, count: 0, left: 0, repeated: false }));
            };
            if list.head.reservations.len() >= MAX_RESERVATIONS {
                if !self.help(&list.head).await {
                    return Ok(Err(Refused::Busy));
                }
                tries.again()?;
                continue;
            }
            match self.store.move_head(&list.tail.life, &Move::Reserve(reserve)).await? {
                Moved::Yes(head) => {
                    let Some(reservation) = head.reservations.get(key).copied() else {
                        tries.again()?;
                        continue;
                    };
                    let taken = self.go_on(head.clone(), Record::of(key, reservation), false).await?;
                    self.help(&head).await;
                    return Ok(Ok(taken));
                }
                Moved::No(_) => tries.give_way().await?,
            }
        }
    }

    /// Works off a reservation that lingers in the head, if more than a few do, as sweep would later; whether it did.
    /// If it cannot, sweep still does: the caller's own tasks are on their way.
    async fn help(&self, head: &Head) -> bool {
        let Some(key) = head.straggler(self.env.now(), self.env.random()) else { return false };
        self.work_off_by_key(head, key, 1).await.is_ok_and(|worked| worked.left == 0)
    }

    /// Works off what was taken, by this call or an earlier one.
    async fn go_on(&self, head: Head, record: Record, repeated: bool) -> Result<Taken, Error> {
        let reservation = record.reservation;
        // All of a release: its caller waits for that.
        let pages = if reservation.purpose.is_discard() { DISCARDED_PAGES } else { usize::MAX };
        let worked = self.work_off(head, record, pages).await?;
        Ok(Taken { start: reservation.start, count: reservation.count, left: worked.left, repeated })
    }
}
