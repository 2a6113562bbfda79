//! Ports through which a process can be stopped, delayed or cheated at every call.
//!
//! Every call goes through [`Process::around`], so one that is added to a port or a step is covered by itself.

use std::fmt::Debug;

use groupage_core::ports::{Error, Result, postpone_one};

use crate::prelude::*;

/// A port as one process sees it.
#[derive(Debug)]
pub struct Faulty<'a, P> {
    inner: &'a P,
    process: &'a Process,
}

impl<'a, P> Faulty<'a, P> {
    /// `inner`, as `process` sees it.
    pub const fn new(inner: &'a P, process: &'a Process) -> Self {
        Self { inner, process }
    }
}

impl<P: Sync> layer::Layer for Faulty<'_, P> {
    type Inner = P;

    fn inner(&self) -> &P {
        self.inner
    }

    async fn around<T: Debug + Send>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.process.around(call, work).await
    }
}

impl<S: Tasks> layer::Tasks for Faulty<'_, S> {
    type Cursor = S::Cursor;

    async fn try_register(&self, task: &Task) -> Result<Registered> {
        self.process.around("try_register", self.inner.try_register(task)).await
    }
}

impl<S: Failures> layer::Failures for Faulty<'_, S> {}
impl<S: Lanes> layer::Lanes for Faulty<'_, S> {}
impl<S: Locks> layer::Locks for Faulty<'_, S> {}
impl<S: Batches> layer::Batches for Faulty<'_, S> {}
impl<S: Sessions> layer::Sessions for Faulty<'_, S> {}
impl<S: Gates> layer::Gates for Faulty<'_, S> {}
impl<S: Trackers> layer::Trackers for Faulty<'_, S> {}
impl<S: Lists> layer::Lists for Faulty<'_, S> {}
impl<S: Streams> layer::Streams for Faulty<'_, S> {}
impl<S: Shelves> layer::Shelves for Faulty<'_, S> {}

impl<Q: Outbox> Outbox for Faulty<'_, Q> {
    /// A message of several can be sent while another is not.
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for message in messages {
            let is_refused = self.process.is_refused_by(&message.to);
            let send = async {
                if is_refused {
                    return Err(Error::Broken { what: "send a message", why: "the queue refuses it".to_owned() });
                }
                self.inner.send(vec![message]).await.into_iter().collect()
            };
            answers.push(self.process.around("send", send).await);
        }
        answers
    }
}

impl<Q: Inbox> Inbox for Faulty<'_, Q> {
    /// One of several can be postponed while another is not.
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        let mut answers = Vec::new();
        for receipt in receipts {
            let postpone = postpone_one(self.inner, from, &receipt, delay_ms);
            answers.push(self.process.around("postpone", postpone).await);
        }
        answers
    }
}

impl<D: Downstream> Downstream for Faulty<'_, D> {
    async fn call(&self, call: &Call<'_>) -> std::result::Result<Answer, NoAnswer> {
        let answer = async {
            let answer = self.inner.call(call).await;
            if self.process.dies_of(&call.body) {
                // The downstream has the call, and its worker never hears what became of it.
                self.process.die().await;
            }
            Ok(answer)
        };
        self.process.around("call", answer).await.unwrap_or(Err(NoAnswer::Connection))
    }
}
