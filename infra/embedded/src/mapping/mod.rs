//! An event source mapping: what Lambda does between a queue and a function, in this process.
//!
//! It receives by tens, gathers up to `batch_size` records or for `window`, calls the handler with the event that
//! Lambda would build, and deletes what the handler did not name as failed. A failed record is left alone: it comes
//! back when its visibility timeout ends, or when the handler said. A handler that panics, runs out of time or names
//! a record that is not in its event fails the whole event, and nothing is deleted.
//!
//! **No message is lost**: it is deleted only after its handler succeeded. A shutdown finishes what was received; an
//! abort, like a crash, leaves it to the visibility timeout.
//!
//! One difference to Lambda: an idle mapping keeps one long poll open where Lambda keeps five, and opens more only
//! while receives come back full.

use std::{sync::Arc, time::Duration};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_sqs::Client;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::Error;

mod counts;
mod event;
mod gather;
mod invoke;
mod poll;

pub use counts::Counts;

use counts::Counters;
use invoke::Invoker;
use poll::Poller;

/// How a queue feeds a handler, in Lambda's terms and within Lambda's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The queue's URL.
    pub queue: String,
    /// The most records in one event: 1 to 10,000.
    pub batch_size: usize,
    /// How long a record may wait for others: up to 300 s, and at least 1 s if `batch_size` is over 10.
    pub window: Duration,
    /// The most handler calls at a time, at least 1.
    pub concurrency: usize,
    /// The most receives at a time, at least 1.
    pub pollers: usize,
    /// How long one handler call may take.
    pub timeout: Duration,
    /// How long a received message is hidden, in whole seconds; `None`: as long as its queue says, as with Lambda.
    pub visibility: Option<Duration>,
}

impl Mapping {
    /// Starts it on the current tokio runtime.
    ///
    /// # Errors
    /// [`Error::Mapping`] if a setting is out of the limits that its field names.
    pub fn start<H, F>(self, client: Client, handler: H) -> Result<Running, Error>
    where
        H: Fn(SqsEvent) -> F + Send + Sync + 'static,
        F: Future<Output = SqsBatchResponse> + Send + 'static,
    {
        self.check()?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = oneshot::channel();
        let invoker = Invoker::new(client.clone(), &self, handler, Arc::clone(&counters));
        let poller = Poller::new(client, self, Arc::clone(&counters));
        let task = tokio::spawn(poller.run(Arc::new(invoker), stopped));
        Ok(Running { stop, task, counters })
    }

    fn check(&self) -> Result<(), Error> {
        let reason = if !(1..=10_000).contains(&self.batch_size) {
            "batch_size must be from 1 to 10,000"
        } else if self.batch_size > 10 && self.window < Duration::from_secs(1) {
            "a batch_size over 10 needs a window of at least 1 s"
        } else if self.window > Duration::from_secs(300) {
            "window must be at most 300 s"
        } else if self.concurrency == 0 || self.pollers == 0 {
            "concurrency and pollers must be at least 1"
        } else {
            return Ok(());
        };
        Err(Error::Mapping { queue: self.queue.clone(), reason })
    }
}

/// A running mapping. Dropping it stops receiving; what was received is finished in the background.
#[derive(Debug)]
pub struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    counters: Arc<Counters>,
}

impl Running {
    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Stops receiving, hands what was received to the handler, and returns when every handler has returned.
    ///
    /// A receive that was under way is cut off. If the queue had just answered it, its messages come back when their
    /// visibility timeout ends.
    pub async fn shutdown(self) -> Counts {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "an event source mapping ended early");
        }
        self.counters.read()
    }

    /// Stops at once, as a crash would: handlers are cut off, and nothing more is deleted.
    pub async fn abort(self) -> Counts {
        self.task.abort();
        // The task's end is what is waited for; that it was cancelled is known.
        let _ = self.task.await;
        self.counters.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lambda_refuses_is_refused() {
        let good = Mapping {
            queue: "http://127.0.0.1:1/000000000000/q".to_owned(),
            batch_size: 500,
            window: Duration::from_secs(1),
            concurrency: 2,
            pollers: 4,
            timeout: Duration::from_secs(30),
            visibility: None,
        };
        assert!(good.check().is_ok());
        assert!(Mapping { batch_size: 10, window: Duration::ZERO, ..good.clone() }.check().is_ok());
        let bad = [
            Mapping { batch_size: 0, ..good.clone() },
            Mapping { batch_size: 10_001, ..good.clone() },
            Mapping { window: Duration::from_millis(999), ..good.clone() },
            Mapping { window: Duration::from_secs(301), ..good.clone() },
            Mapping { concurrency: 0, ..good.clone() },
            Mapping { pollers: 0, ..good },
        ];
        for mapping in bad {
            assert!(mapping.check().is_err(), "{mapping:?}");
        }
    }
}
