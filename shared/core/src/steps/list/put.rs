//! Putting tasks: tokens, tasks and the callers' keys in one transaction.
//!
//! A task gets its id when it is put, so that however often it is fed on it stays one task. A task without one gets one
//! that follows from the caller's key, and a repeat of the call makes the same one.

use std::collections::HashSet;

use super::{Listing, Outcome, Refused};
use crate::domain::id::{ListId, TaskId, digest};
use crate::domain::list::{Addition, Life, MAX_KEY_BYTES, MAX_PUT, MAX_PUT_BYTES, Options, Put, Slot, State, Tail};
use crate::domain::task_message::{self, Code, MAX_MESSAGE_BYTES, Rejection, TaskMessage};
use crate::domain::tracker::ItemId;
use crate::ports::{Env, Lists, Outbox, PutOn, Trackers};
use crate::steps::Error;
use crate::steps::cas::{Tries, is_key};

/// What became of one caller's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placed {
    /// They are on the list, by this call.
    Now(Addition),
    /// They were put before, under the same key.
    Before(Addition),
    /// Others were put under the same key.
    KeyUsed,
    /// The list is closed.
    Closed,
    /// It could never be fed on: with its id, which it needs while it waits, it is larger than a message may be.
    TooLarge(Rejection),
}

/// Tasks that one caller puts, with what tells them from others under its key.
#[derive(Clone, Debug)]
struct Caller {
    key: String,
    digest: String,
    /// Of a task that is put under its own id.
    item: Option<ItemId>,
    bodies: Vec<String>,
}

/// This many callers' single tasks are put at once: with both ends, each key and each task is one of a hundred writes.
const CALLERS: usize = 49;

impl<S: Lists + Trackers, Q: Outbox, E: Env> Listing<'_, S, Q, E> {
    /// Puts task messages on a list, all of them or, if one can never be registered, none; makes the list if it is not
    /// there. Says which tokens they got, and whether that was by this call.
    ///
    /// # Errors
    /// A port did not answer, or the list is just being removed: the call may be repeated under the same key.
    pub async fn put(&self, id: &ListId, key: &str, messages: &[String]) -> Outcome<(Addition, bool)> {
        if !is_key(key, MAX_KEY_BYTES) {
            return Ok(Err(Refused::BadKey));
        }
        let mut bodies = Vec::with_capacity(messages.len());
        for (position, message) in messages.iter().enumerate() {
            match body(id, message, &digest(&["list", id.as_str(), key, &position.to_string()])) {
                Ok(body) => bodies.push(body),
                Err(why) => return Ok(Err(Refused::BadTask { position, why })),
            }
        }
        if !(1..=MAX_PUT).contains(&bodies.len()) || bodies.iter().map(String::len).sum::<usize>() > MAX_PUT_BYTES {
            return Ok(Err(Refused::TooMany));
        }
        let parts: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let caller = Caller { key: key.to_owned(), digest: digest(&parts), item: None, bodies };
        Ok(match self.place(id, vec![caller]).await?.pop() {
            Some((_, Placed::Now(addition))) => Ok((addition, true)),
            Some((_, Placed::Before(addition))) => Ok((addition, false)),
            Some((_, Placed::KeyUsed)) => Err(Refused::KeyUsed),
            Some((_, Placed::Closed)) | None => Err(Refused::Closed),
            Some((_, Placed::TooLarge(why))) => Err(Refused::BadTask { position: 0, why }),
        })
    }

    /// Puts tasks on a list, each under its own id as the key, in this order. Says what became of each: an answer for
    /// every task, those of one id in the order in which they came.
    ///
    /// # Errors
    /// A port did not answer, or the list is just being removed: the call may be repeated. Some may be put by then.
    pub async fn put_each(&self, id: &ListId, tasks: &[TaskMessage]) -> Result<Vec<(TaskId, Placed)>, Error> {
        let mut placed = Vec::with_capacity(tasks.len());
        let mut rest: &[TaskMessage] = tasks;
        while !rest.is_empty() {
            let (mut bytes, mut keys) = (0, HashSet::new());
            let fits = |task: &TaskMessage| {
                bytes += task.payload.len() + MAX_OVERHEAD;
                // No transaction writes one key twice.
                bytes <= MAX_PUT_BYTES && keys.insert(task.id.clone())
            };
            let count = rest.iter().take(CALLERS).map(fits).take_while(|fits| *fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let mut callers = Vec::with_capacity(now.len());
            for task in now {
                let (key, item) = (task.id.as_str().to_owned(), task.item.clone());
                match fed_on(task) {
                    Ok(body) => callers.push(Caller { key, digest: task.digest(), item, bodies: vec![body] }),
                    Err(why) => placed.push((task.id.clone(), Placed::TooLarge(why))),
                }
            }
            if !callers.is_empty() {
                let found = self.place(id, callers).await?;
                placed.extend(found.into_iter().map(|(key, placed)| (TaskId::new(key), placed)));
            }
            rest = later;
        }
        Ok(placed)
    }

    /// Puts callers' tasks by one transaction, less those that were put before.
    async fn place(&self, id: &ListId, mut callers: Vec<Caller>) -> Result<Vec<(String, Placed)>, Error> {
        let mut placed = Vec::with_capacity(callers.len());
        let mut tries = Tries::of("putting tasks on a list", self.env);
        loop {
            let now = self.env.now();
            let (tail, is_new) = match self.store.list(id).await? {
                Some(list) => (list.tail, false),
                None => (Tail::open(Life { id: id.clone(), opened_at: now }, Options::default()), true),
            };
            match tail.state {
                State::Open => {}
                State::Removing => return Err(Error::Conflict("putting tasks on a list that is being removed")),
                State::Closed => {
                    // Earlier calls may have put them, whose answers were lost.
                    let keys: Vec<String> = callers.iter().map(|caller| caller.key.clone()).collect();
                    let before = self.store.additions(&tail.life, &keys).await?;
                    placed.extend(take_out(&mut callers, &before));
                    placed.extend(callers.into_iter().map(|caller| (caller.key, Placed::Closed)));
                    return Ok(placed);
                }
            }
            let put = putting(&tail, is_new, &callers, now);
            match self.store.put_on_list(&put).await? {
                PutOn::Yes => {
                    placed.extend(put.additions.into_iter().map(|own| (own.key.clone(), Placed::Now(own))));
                    return Ok(placed);
                }
                PutOn::Before(before) => {
                    placed.extend(take_out(&mut callers, &before));
                    if callers.is_empty() {
                        return Ok(placed);
                    }
                    tries.again()?;
                }
                PutOn::Conflict => tries.give_way().await?,
            }
        }
    }
}

/// What a message has beside its payload at most, in bytes.
const MAX_OVERHEAD: usize = 512;

/// The transaction that puts callers' tasks behind a tail.
fn putting(tail: &Tail, is_new: bool, callers: &[Caller], now: crate::domain::time::Timestamp) -> Put {
    let (mut next, mut additions, mut slots) = (tail.given, Vec::new(), Vec::new());
    for Caller { key, digest, item, bodies } in callers {
        let count = bodies.len() as u64;
        let (key, digest, item) = (key.clone(), digest.clone(), item.clone());
        additions.push(Addition { key, start: next, count, digest, item });
        slots.extend((0..).zip(bodies).map(|(n, body)| Slot { token: next.plus(n), body: body.clone() }));
        next = next.plus(count);
    }
    Put { tail: tail.grown(next.0 - tail.given.0, is_new, now), additions, slots }
}

/// Takes those callers out whose keys were used before.
fn take_out(callers: &mut Vec<Caller>, before: &[Addition]) -> Vec<(String, Placed)> {
    let mut found = Vec::new();
    callers.retain(|caller| match before.iter().find(|addition| addition.key == caller.key) {
        Some(addition) if addition.digest == caller.digest => {
            found.push((caller.key.clone(), Placed::Before(addition.clone())));
            false
        }
        Some(_) => {
            found.push((caller.key.clone(), Placed::KeyUsed));
            false
        }
        None => true,
    });
    found
}

/// The message that a task is fed on by: checked, and with an id.
fn body(list: &ListId, message: &str, derived_id: &str) -> Result<String, Rejection> {
    let message = task_message::parse(message, derived_id)?;
    if message.list.as_ref().is_some_and(|named| named != list) {
        return Err(Rejection::new(Code::BadList, "`list` names another list").of(message.item, None));
    }
    if message.event.is_some() {
        let why = "a stream's event goes on at once: it waits on no list";
        return Err(Rejection::new(Code::BadEvent, why).of(message.item, message.event));
    }
    fed_on(&message)
}

/// The same message without its list, as it will be fed on when it has waited. The limit is that of a message, which is
/// less than what an item of the table may hold.
fn fed_on(message: &TaskMessage) -> Result<String, Rejection> {
    let body = TaskMessage { list: None, ..message.clone() }.fitting_body();
    let detail = || format!("with its id the message is over {MAX_MESSAGE_BYTES} bytes");
    body.ok_or_else(|| Rejection::new(Code::TooLarge, detail()))
}
