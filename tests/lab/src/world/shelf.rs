//! Those who put tasks on a list, release them, discard them, and close and open it: processes of their own. Each
//! repeats a call until that is answered; when one dies, another makes the same calls again, or nobody does.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use groupage_core::domain::list::{Move, Options};
use groupage_core::steps::list::Refused;

use super::World;
use super::fan_out::{AGAIN_MS, insist};
use crate::prelude::*;

/// Somebody with calls to make, in this order.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The list.
    pub list: ListId,
    /// The calls.
    pub calls: Vec<Call>,
    /// Whether another makes the calls again if this one dies.
    pub is_repeated: bool,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The pause before it, in milliseconds.
    pub after_ms: u64,
    /// What is called.
    pub what: What,
}

/// What is called.
#[derive(Clone, Debug)]
pub enum What {
    /// These messages are put, under this key.
    Put(String, Vec<String>),
    /// This many are released, under this key.
    Release(String, u64),
    /// All that wait are discarded, under this key.
    Discard(String),
    /// The list is closed.
    Close,
    /// The list is opened.
    Open,
}

/// What callers were told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The first token of each put, and its messages, by list and key.
    pub puts: BTreeMap<(ListId, String), (u64, Vec<String>)>,
    /// Ranges taken, by list and key.
    takings: BTreeMap<(ListId, String), (u64, u64)>,
}

impl Caller {
    /// Somebody who is made up for.
    pub fn new(list: &ListId, calls: Vec<Call>) -> Self {
        Self { list: list.clone(), calls, is_repeated: true }
    }

    /// How long it pauses in all, in milliseconds.
    pub fn pauses_ms(&self) -> u64 {
        self.calls.iter().map(|call| call.after_ms).sum()
    }
}

impl World {
    /// What callers of lists were told so far.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a task under a key, as somebody who dies right after that write.
    ///
    /// # Errors
    /// The list is not there, or has no task.
    pub async fn take_and_die(&self, id: &ListId, key: &str) -> Result<(), String> {
        let list = self.store.list(id).await.ok().flatten().ok_or("there is no list")?;
        let taking = list.taking(key, Purpose::Release { asked: 1 }, self.env.now()).ok_or("no task waits")?;
        match self.store.move_head(&list.tail.life, &Move::Reserve(taking)).await {
            Ok(Moved::Yes(_)) => Ok(()),
            other => Err(format!("nothing was taken: {other:?}")),
        }
    }

    /// A caller's life.
    pub(crate) async fn call_as(&self, process: &Process, caller: &Caller) {
        let (store, outbox) = (&Faulty::new(&self.store, process), &Faulty::new(&self.queues, process));
        let (env, id) = (process.env(), &caller.list);
        let steps = Listing { store, outbox, env };
        for Call { after_ms, what } in &caller.calls {
            env.sleep(*after_ms).await;
            let answer = match what {
                What::Put(key, bodies) => {
                    let put = async || insist(env, async || steps.put(id, key, bodies).await).await;
                    let mut answer = put().await;
                    while answer == Err(Refused::Closed) {
                        // Its next tasks would overtake these.
                        env.sleep(AGAIN_MS).await;
                        answer = put().await;
                    }
                    answer.map(|(addition, _)| self.was_put(id, key, addition.start.0, bodies))
                }
                What::Release(key, count) => {
                    let answer = insist(env, async || steps.release(id, key, *count).await).await;
                    answer.map(|taken| self.was_taken(id, key, taken.start.0, taken.count))
                }
                What::Discard(key) => {
                    let answer = insist(env, async || steps.discard(id, key).await).await;
                    answer.map(|taken| self.was_taken(id, key, taken.start.0, taken.count))
                }
                What::Close => insist(env, async || steps.close(id).await).await.map(drop),
                What::Open => insist(env, async || steps.open(id, Options::default()).await).await.map(drop),
            };
            match answer {
                Ok(()) | Err(Refused::Closed | Refused::Unknown(_)) => {}
                Err(refused) => self.complain(format!("callers are served: {what:?} was told: {refused}")),
            }
        }
    }

    fn was_put(&self, id: &ListId, key: &str, start: u64, bodies: &[String]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.puts.insert((id.clone(), key.to_owned()), (start, bodies.to_vec()));
        drop(told);
        if let Some((before, _)) = before.filter(|(before, _)| *before != start) {
            self.complain(format!("a call puts once: {key} of {id} was told {before} and {start}"));
        }
    }

    fn was_taken(&self, id: &ListId, key: &str, start: u64, count: u64) {
        // A call that took nothing is not remembered.
        if count == 0 {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.takings.insert((id.clone(), key.to_owned()), (start, count));
        drop(told);
        if let Some(before) = before.filter(|before| *before != (start, count)) {
            self.complain(format!("a call takes once: {key} of {id} was told {before:?} and {:?}", (start, count)));
        }
    }
}
