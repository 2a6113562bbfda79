//! The steps at work: an event source mapping from each queue to its function, with template.yaml's settings, and
//! sweep.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_sqs::Client;
use groupage_aws::config::Queues;
use groupage_aws::entry::mapping::{ELECT, GROUP, HANDLE, IN_ORDER, LONG_HANDLE, Settings, TASKS};
use groupage_aws::entry::{self, Counts, Handled, Metric};
use groupage_aws::spans::Spans;
use groupage_core::ports::{self, Census, Destination, Downstream, Env, Inbox, Outbox, Store};
use tokio::task::AbortHandle;

use crate::Error;
use crate::mapping::{Mapping, Running};
use crate::pace::{BUSY_MS, Events, Pace, RESTING_MS};

/// Steps that run until they are shut down.
#[derive(Debug)]
pub struct Pipeline {
    mappings: Vec<Running>,
    sweeper: AbortHandle,
    spans: Spans,
    /// What sends them meanwhile.
    sender: AbortHandle,
    counts: Arc<Mutex<Counts>>,
    events: Arc<Events>,
}

/// How many processes run the steps on the same queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// This one, and its queues are gone with it. It takes large events of tasks, one after the other: the embedded
    /// FIFO queue gives one message of a group at a time, so what events leave over from full batches never meets, and
    /// the larger they are, the less that is.
    One,
    /// Any number, each as template.yaml says.
    Several,
}

impl Processes {
    fn tasks(self, queue: &str) -> Mapping {
        match self {
            Self::One => {
                // One event waits while another is handled.
                let visibility = Some(Duration::from_secs(2 * (ALONE.timeout_s + ALONE.window_s)));
                Mapping { visibility, ..mapping(queue, ALONE, 1) }
            }
            Self::Several => mapping(queue, TASKS, 8),
        }
    }
}

/// How often the counts are read.
const LOOK: Duration = Duration::from_millis(20);
/// After so long without a count the table is asked.
const QUIET: Duration = Duration::from_secs(3);
/// This many tasks take some seconds, or many on a slow machine, and nobody waits for a process that has died.
const ALONE: Settings = Settings { batch_size: 10_000, timeout_s: 120, ..TASKS };

impl Pipeline {
    /// Starts all four steps of `stack` on these queues.
    ///
    /// # Errors
    /// None with the settings below; [`Error::Mapping`] if one of them breaks a mapping's limits.
    pub fn start<S, Q, E, D>(
        client: &Client,
        queues: &Queues,
        processes: Processes,
        stack: &Arc<entry::Stack<S, Q, E>>,
        downstream: &Arc<D>,
    ) -> Result<Self, Error>
    where
        S: Store + Send + 'static,
        Q: Outbox + Inbox + Send + 'static,
        E: Env + Send + 'static,
        D: Downstream + Send + 'static,
    {
        let (counts, events) = (Arc::default(), Arc::default());
        // Where others run the steps, one takes over from another that dies: none of them rests.
        let resting_ms = if processes == Processes::One { RESTING_MS } else { BUSY_MS };
        let sweeps = sweep(Arc::clone(stack), Arc::clone(&counts), Arc::clone(&events), resting_ms);
        let sweeper = tokio::spawn(sweeps).abort_handle();
        let spans = stack.spans.clone();
        let sending = spans.clone();
        let sender = tokio::spawn(async move { sending.keep_sending().await }).abort_handle();
        let mut pipeline = Self { mappings: Vec::new(), sweeper, spans, sender, counts, events };
        // A FIFO queue's mapping takes tens, and has no window.
        for mapping in [processes.tasks(&queues.tasks), mapping(&queues.in_order, IN_ORDER, 8)] {
            let register = Arc::clone(stack);
            pipeline.map(client, mapping, move |event| {
                let stack = Arc::clone(&register);
                async move { entry::register_task(&*stack, event).await }
            })?;
        }
        let elect = Arc::clone(stack);
        pipeline.map(client, mapping(&queues.elect, ELECT, 8), move |event| {
            let stack = Arc::clone(&elect);
            async move { entry::elect_leader(&*stack, event).await }
        })?;
        let group = Arc::clone(stack);
        pipeline.map(client, mapping(&queues.group, GROUP, 64), move |event| {
            let stack = Arc::clone(&group);
            async move { entry::group_batch(&*stack, event).await }
        })?;
        for (reads, queue, settings) in
            [(Destination::Handle, &queues.handle, HANDLE), (Destination::LongHandle, &queues.long_handle, LONG_HANDLE)]
        {
            let (handle, downstream) = (Arc::clone(stack), Arc::clone(downstream));
            pipeline.map(client, mapping(queue, settings, 64), move |event| {
                let (stack, downstream, reads) = (Arc::clone(&handle), Arc::clone(&downstream), reads.clone());
                async move { entry::batch_handler(&*stack, &reads, &*downstream, event).await }
            })?;
        }
        Ok(pipeline)
    }

    /// What all steps have counted so far.
    pub fn counts(&self) -> Counts {
        self.counter()()
    }

    /// Says what all steps have counted, whenever it is asked.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + use<> {
        let counts = Arc::clone(&self.counts);
        move || counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `tasks` tasks are settled, by the steps' own counts. Those miss a batch whose worker lost its
    /// session as it recorded the outcome, so when nothing is counted any more the table is asked. Returns `false` if
    /// nothing was settled for `patience`.
    ///
    /// # Errors
    /// The table does not answer.
    pub async fn settled(&self, tasks: u64, table: &impl Census, patience: Duration) -> Result<bool, ports::Error> {
        let (mut settled, mut since, mut asked) = (0, Instant::now(), Instant::now());
        while settled < tasks {
            tokio::time::sleep(LOOK).await;
            let counts = self.counts();
            let now =
                [Metric::TasksSucceeded, Metric::TasksFailed, Metric::TasksEnded].map(|of| counts.get(of)).iter().sum();
            if now > settled {
                (settled, since) = (now, Instant::now());
            } else if since.elapsed() > QUIET && asked.elapsed() > QUIET {
                // Tasks that wait in rests are in no table yet.
                let put = table.tasks_that(&|_| true).await?.len() as u64;
                if put >= tasks && table.unsettled_tasks().await?.is_empty() {
                    return Ok(true);
                }
                if since.elapsed() > patience {
                    return Ok(false);
                }
                asked = Instant::now();
            }
        }
        Ok(true)
    }

    /// Stops receiving, finishes what is in hand, and says what all steps counted.
    pub async fn shutdown(self) -> Counts {
        // A sweep that is cut off is finished by the next.
        self.sweeper.abort();
        futures::future::join_all(self.mappings.into_iter().map(Running::shutdown)).await;
        self.sender.abort();
        self.spans.flush().await;
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn map<H, F>(&mut self, client: &Client, mapping: Mapping, handler: H) -> Result<(), Error>
    where
        H: Fn(SqsEvent) -> F + Send + Sync + 'static,
        F: Future<Output = Handled> + Send + 'static,
    {
        let (counts, events) = (Arc::clone(&self.counts), Arc::clone(&self.events));
        let running = mapping.start(client.clone(), move |event| {
            let (handled, counts, events) = (handler(event), Arc::clone(&counts), Arc::clone(&events));
            Box::pin(async move {
                let in_hand = events.begin();
                let handled = handled.await;
                drop(in_hand);
                counts.lock().unwrap_or_else(PoisonError::into_inner).merge(&handled.counts);
                handled.response
            }) as std::pin::Pin<Box<dyn Future<Output = SqsBatchResponse> + Send>>
        })?;
        self.mappings.push(running);
        Ok(())
    }
}

/// Sweeps until it is cut off.
async fn sweep<S, Q, E>(
    stack: Arc<entry::Stack<S, Q, E>>,
    counts: Arc<Mutex<Counts>>,
    events: Arc<Events>,
    resting_ms: u64,
) where
    S: Store + Send + 'static,
    Q: Outbox + Send + 'static,
    E: Env + Send + 'static,
{
    let started = Instant::now();
    let mut pace = Pace::from(resting_ms, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(BUSY_MS)).await;
        let now_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Some(since_ms) = pace.next(events.settled(), now_ms) else { continue };
        // Boxed: the whole protocol would otherwise be one type, too deep for the compiler.
        let (swept, done) = Box::pin(entry::sweep(&*stack, since_ms)).await;
        counts.lock().unwrap_or_else(PoisonError::into_inner).merge(&swept);
        if let Err(error) = done {
            tracing::warn!(%error, "a sweep could not finish");
        }
    }
}

fn mapping(queue: &str, settings: Settings, concurrency: usize) -> Mapping {
    Mapping {
        queue: queue.to_owned(),
        batch_size: settings.batch_size,
        window: Duration::from_secs(settings.window_s),
        concurrency,
        pollers: 8,
        timeout: Duration::from_secs(settings.timeout_s),
        visibility: None,
    }
}
