//! The loop of a mapping: keep receives open, cut events, bound the handlers at work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sqs::{
    Client, Config, config::timeout::TimeoutConfig, error::DisplayErrorContext, types::MessageSystemAttributeName,
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{sync::oneshot, task::JoinSet, time};

use super::{Mapping, counts::Counters, event::record, gather::Gathered, invoke::Invoker};
use crate::place::arn;

/// SQS hands out this many messages in one answer at most.
const RECEIVE_AT_ONCE: usize = 10;

/// The longest a receive may wait for a message, in seconds.
const LONG_POLL_S: i32 = 20;

/// An attempt that takes longer has lost its answer. Whatever timeout the client has for other requests would cut long
/// polls off, and a message that is on its way then is hidden from everybody.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(LONG_POLL_S as u64 + 5);

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(5);

/// What a receive brought, or `None` if it failed.
type Received = Option<Vec<SqsMessage>>;

/// The receiving side of a mapping.
pub(super) struct Poller {
    client: Client,
    mapping: Mapping,
    arn: String,
    counters: Arc<Counters>,
    gathered: Gathered,
    receives: FuturesUnordered<BoxFuture<'static, Received>>,
    /// The last receive came back full: more is waiting.
    more: bool,
    /// How long the next receive waits before it is sent: nothing, unless the last one failed.
    backoff: Duration,
}

impl Poller {
    pub(super) fn new(client: Client, mapping: Mapping, counters: Arc<Counters>) -> Self {
        Self {
            client,
            arn: arn(&mapping.queue),
            gathered: Gathered::new(mapping.batch_size, mapping.window),
            mapping,
            counters,
            receives: FuturesUnordered::new(),
            more: false,
            backoff: Duration::ZERO,
        }
    }

    /// Runs until `stopped` resolves, then finishes what was received.
    pub(super) async fn run<H, F>(mut self, invoker: Arc<Invoker<H>>, mut stopped: oneshot::Receiver<()>)
    where
        H: Fn(SqsEvent) -> F + Send + Sync + 'static,
        F: Future<Output = SqsBatchResponse> + Send + 'static,
    {
        // Dropping the set, as an abort does, cuts off every handler in it.
        let mut handlers = JoinSet::new();
        loop {
            self.keep_receiving();
            let due = self.gathered.due(Instant::now());
            let free = handlers.len() < self.mapping.concurrency;
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(_) = handlers.join_next(), if !handlers.is_empty() => {}
                // Before the cut, so that what has arrived by now still goes with it.
                Some(received) = self.receives.next(), if !self.receives.is_empty() => self.accept(received),
                () = until(due), if free && due.is_some() => {
                    handlers.spawn(Arc::clone(&invoker).invoke(self.gathered.cut()));
                }
            }
        }
        self.receives.clear();
        self.finish(invoker, handlers).await;
    }

    async fn finish<H, F>(mut self, invoker: Arc<Invoker<H>>, mut handlers: JoinSet<()>)
    where
        H: Fn(SqsEvent) -> F + Send + Sync + 'static,
        F: Future<Output = SqsBatchResponse> + Send + 'static,
    {
        loop {
            let records = self.gathered.cut();
            if records.is_empty() {
                break;
            }
            if handlers.len() >= self.mapping.concurrency {
                handlers.join_next().await;
            }
            handlers.spawn(Arc::clone(&invoker).invoke(records));
        }
        while handlers.join_next().await.is_some() {}
    }

    /// Opens receives for the room in the next event: one while the queue is quiet, more while it has more. One event
    /// is gathered ahead of the handlers, and no further, so that no message spends its visibility timeout here.
    fn keep_receiving(&mut self) {
        let room = self.gathered.room().div_ceil(RECEIVE_AT_ONCE);
        let wanted = room.min(if self.more { self.mapping.pollers } else { 1 });
        while self.receives.len() < wanted {
            self.receives.push(self.receive());
        }
    }

    fn accept(&mut self, received: Received) {
        let Some(messages) = received else {
            self.more = false;
            self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
            return;
        };
        self.counters.received(messages.len());
        self.backoff = Duration::ZERO;
        self.more = messages.len() == RECEIVE_AT_ONCE;
        let now = Instant::now();
        for message in messages {
            self.gathered.push(message, now);
        }
    }

    fn receive(&self) -> BoxFuture<'static, Received> {
        let request = self
            .client
            .receive_message()
            .queue_url(&self.mapping.queue)
            .max_number_of_messages(RECEIVE_AT_ONCE as i32)
            .wait_time_seconds(LONG_POLL_S)
            .set_visibility_timeout(self.mapping.visibility.and_then(|hidden| i32::try_from(hidden.as_secs()).ok()))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        let timeouts = TimeoutConfig::builder()
            .read_timeout(RECEIVE_TIMEOUT)
            .operation_attempt_timeout(RECEIVE_TIMEOUT)
            .operation_timeout(RECEIVE_TIMEOUT)
            .build();
        let request = request.customize().config_override(Config::builder().timeout_config(timeouts));
        let (arn, backoff) = (self.arn.clone(), self.backoff);
        async move {
            time::sleep(backoff).await;
            match request.send().await {
                Ok(answer) => {
                    let messages = answer.messages.unwrap_or_default();
                    Some(messages.into_iter().map(|message| record(message, &arn)).collect())
                }
                Err(error) => {
                    tracing::warn!(error = %DisplayErrorContext(&error), queue = arn, "could not receive");
                    None
                }
            }
        }
        .boxed()
    }
}

/// Sleeps until `due`; for ever if there is nothing to wait for.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
