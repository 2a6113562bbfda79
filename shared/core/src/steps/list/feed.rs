//! Working off a reservation, page by page in the order of tokens, by its owner, its owner's repeat, or sweep.
//!
//! Of each page: its tasks are sent (or their items fail), the record says so, and then their slots are removed. A
//! process that dies in between leaves a page that is sent again, by messages with the same ids, or slots that are only
//! to be removed. Two may be at work on one reservation: a record only goes forward. A page is sent when the one before
//! it is, and within it in order as far as the queue's requests and their failures keep it; a standard queue keeps
//! none.
//!
//! A slot that is missing at or above the record's end was not fed on: it is not to be seen *yet*. DynamoDB shows the
//! writes of a transaction one by one to reads that are no transaction, so the tail may show a token a moment before
//! its slot can be read. It is waited for, and passed over only when it is missing long after any transaction could
//! last.
//!
//! A slot that is larger than a message may be, which is refused at the door today, keeps nobody behind it: it goes to
//! the rejected queue with its reason, and its item fails.

use super::Listing;
use crate::domain::list::{Head, Life, Purpose, Record, Slot};
use crate::domain::task_message::{self, Code, MAX_MESSAGE_BYTES};
use crate::domain::{Token, tracker};
use crate::ports::{Destination, Env, Lists, Moved, Outbox, Outgoing, Stored, Trackers, send_all};
use crate::steps::cas::Tries;
use crate::steps::track::Tracking;
use crate::steps::{Error, let_others_go_first};

/// Tasks of one page at most.
const PAGE: usize = 100;
/// How often a slot that is not to be seen is looked for before the call gives up.
const LOOKS: u32 = 8;
/// How long after the taking a slot that is not there counts as lost, in milliseconds.
const LOST_MS: u64 = 15 * 60 * 1_000;

/// What working off came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Worked {
    /// Tasks of the reservation that are not worked off yet.
    pub left: u64,
    /// Tasks sent or discarded.
    pub done: u64,
    /// Tasks that were not there.
    pub lost: u64,
    /// Of the tasks sent, those that were too large to go on and went to the rejected queue.
    pub set_aside: u64,
    /// Pages.
    pub pages: usize,
}

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// Works off up to `pages` pages of a reservation. `head` is as it was when the reservation was found in it, or
    /// younger.
    pub(super) async fn work_off(&self, head: Head, mut record: Record, pages: usize) -> Result<Worked, Error> {
        let life = head.life.clone();
        let is_under_way = head.reservations.contains_key(&record.key);
        let mut worked = Worked::default();
        if record.is_done() && !is_under_way {
            return Ok(worked);
        }
        // The process that wrote the record may have died before it removed what is done.
        self.remove_done(&life, &record).await?;
        let (mut looks, mut is_alone) = (0, true);
        while !record.is_done() && worked.pages < pages {
            let page = self.store.slots(&life, record.done, record.reservation.end(), PAGE).await?;
            let next = page.first().map_or(record.reservation.end(), |slot| slot.token);
            if next > record.done {
                looks += 1;
                let now = self.passing_over(&life, record.clone(), next, looks, &mut worked).await?;
                is_alone &= now == record;
                record = now;
                continue;
            }
            looks = 0;
            let page = leading(page, record.done);
            let tokens: Vec<Token> = page.iter().map(|slot| slot.token).collect();
            worked.set_aside += self.carry_out(&life, record.reservation.purpose, page).await?;
            worked.done += tokens.len() as u64;
            worked.pages += 1;
            let done = record.done.plus(tokens.len() as u64);
            record = self.advance(&life, &record, done).await?;
            is_alone &= record.done == done;
            self.store.remove_slots(&life, &tokens).await?;
        }
        if record.is_done() {
            if !is_alone {
                // Somebody else did some of it, and may have died before removing that: nobody looks there again.
                self.remove_done(&life, &record).await?;
            }
            self.forget(head, &record.key).await?;
        }
        worked.left = record.reservation.end().0.saturating_sub(record.done.0);
        Ok(worked)
    }

    /// The same for a reservation as a head shows it, by its key.
    pub(super) async fn work_off_by_key(&self, head: &Head, key: &str, pages: usize) -> Result<Worked, Error> {
        let Some(reservation) = head.reservations.get(key) else { return Ok(Worked::default()) };
        let record = self.store.record(&head.life, key).await?.unwrap_or_else(|| Record::of(key, *reservation));
        self.work_off(head.clone(), record, pages).await
    }

    /// Does with tasks what they were taken for; says how many of them were set aside instead.
    async fn carry_out(&self, life: &Life, purpose: Purpose, page: Vec<Slot>) -> Result<u64, Error> {
        match purpose {
            Purpose::Release { .. } => {
                let (too_large, good): (Vec<Slot>, Vec<Slot>) =
                    page.into_iter().partition(|slot| slot.body.len() > MAX_MESSAGE_BYTES);
                let set_aside = too_large.len() as u64;
                self.fail_items(&too_large).await?;
                let to_tasks = |Slot { body, .. }| Outgoing {
                    to: Destination::Tasks,
                    body,
                    delay_ms: 0,
                    attributes: Vec::new(),
                    tenant: Some(life.id.to_string()),
                };
                let messages =
                    too_large.into_iter().map(|slot| rejected(life, slot)).chain(good.into_iter().map(to_tasks));
                send_all(self.outbox, messages.collect()).await?;
                Ok(set_aside)
            }
            Purpose::Discard => self.fail_items(&page).await.map(|()| 0),
        }
    }

    /// Fails the items of tasks that will never be: no tracker must wait for them.
    async fn fail_items(&self, slots: &[Slot]) -> Result<(), Error> {
        let item = |slot: &Slot| task_message::parse_stored(&slot.body, "").ok()?.item;
        let items: Vec<_> = slots.iter().filter_map(item).map(|item| (item, tracker::Outcome::Failed)).collect();
        if !items.is_empty() {
            let Self { store, outbox, env } = *self;
            Tracking { store, outbox, env }.settle(items).await.all()?;
        }
        Ok(())
    }

    /// Writes that all below `done` is done, unless somebody is farther already; the record as it is then.
    async fn advance(&self, life: &Life, record: &Record, done: Token) -> Result<Record, Error> {
        let next = Record { done, ..record.clone() };
        match self.store.store_record(life, &next, self.env.now()).await? {
            Stored::Yes => Ok(next),
            Stored::Conflict => Ok(self.store.record(life, &record.key).await?.unwrap_or(next)),
        }
    }

    /// The record farther on, since the slots before `next` are not there: somebody else was faster, or they are lost.
    /// If they may only not be seen yet, it is as it was, and after some looks an error.
    async fn passing_over(
        &self,
        life: &Life,
        record: Record,
        next: Token,
        looks: u32,
        worked: &mut Worked,
    ) -> Result<Record, Error> {
        if let Some(now) = self.store.record(life, &record.key).await?
            && now.done > record.done
        {
            return Ok(now);
        }
        if looks < LOOKS {
            let_others_go_first(self.env, looks).await;
            return Ok(record);
        }
        if self.env.now().since(record.reservation.at) < LOST_MS {
            return Err(Error::Conflict("reading tasks that were put a moment ago"));
        }
        worked.lost += next.0 - record.done.0;
        self.advance(life, &record, next).await
    }

    async fn remove_done(&self, life: &Life, record: &Record) -> Result<(), Error> {
        loop {
            let left = self.store.slots(life, record.reservation.start, record.done, PAGE).await?;
            if left.is_empty() {
                return Ok(());
            }
            let tokens: Vec<Token> = left.into_iter().map(|slot| slot.token).collect();
            self.store.remove_slots(life, &tokens).await?;
        }
    }

    /// Takes a reservation out of the head: its record says that it is done.
    async fn forget(&self, mut head: Head, key: &str) -> Result<(), Error> {
        let mut tries = Tries::of("forgetting a release that is done", self.env);
        loop {
            let Some(next) = head.forgetting(key) else { return Ok(()) };
            match self.store.move_head(&head.life, &next).await? {
                Moved::Yes(_) | Moved::No(None) => return Ok(()),
                Moved::No(Some(now)) => head = now,
            }
            tries.give_way_later().await?;
        }
    }
}

/// The message by which a slot that is too large is set aside. The rejected queue takes some more than a task message
/// has, and a slot has an id more at most.
fn rejected(life: &Life, slot: Slot) -> Outgoing {
    let detail = format!("token {} of list {} is over {MAX_MESSAGE_BYTES} bytes", slot.token.0, life.id);
    let attributes = vec![("Reason", Code::TooLarge.to_string()), ("Detail", detail)];
    Outgoing { to: Destination::Rejected, body: slot.body, delay_ms: 0, attributes, tenant: None }
}

/// The slots of a page up to the first gap.
fn leading(page: Vec<Slot>, from: Token) -> Vec<Slot> {
    let follows = |(n, slot): &(u64, Slot)| slot.token == from.plus(*n);
    (0..).zip(page).take_while(follows).map(|(_, slot)| slot).collect()
}
