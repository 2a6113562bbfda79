//! `groupage send`: many tasks from a file onto the task queue.
//!
//! A thread reads and checks the lines; workers take what is ready of them, ask the task table which are known, and
//! send the rest in tens. Repeating it is safe at any point: ids follow from the content, and registering twice is
//! registering once.

mod args;
pub mod bundle;
mod fan_out;
pub mod input;
pub mod lines;
mod lookup;
pub mod queue;
pub mod report;

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};
use futures::future::join_all;
use groupage_aws::Connection;
use groupage_core::domain::when::When;
use groupage_core::domain::{ItemId, Outcome, Reason, TaskId, TaskMessage, TraceParent, TrackerId};
use indicatif::ProgressBar;
use tokio::sync::{Mutex, mpsc};

use crate::output::{Ending, Output, style};
use crate::stack::{self, Access};
use crate::stop::Stop;
pub use args::Args;
use fan_out::FanOut;
use input::Input;
use lines::{Content, Line, Lines};
use lookup::Known;
use queue::{Intake, Refused};
use report::Report;

/// Lines that one worker takes at a time: as many as one read of the task table can look up.
const CHUNK: usize = 100;

/// Workers: enough to keep SQS busy from one machine.
const WORKERS: usize = 8;

/// Why it ended, if a person did that.
const INTERRUPTED: &str = "interrupted";

/// Sends every good line of the input. It fails before anything is sent; what goes wrong later is in the report, and
/// what was sent stays sent.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let mut input = Input::open(&options.file)?;
    let connection = stack::open(stack).await?;
    let fan_out = match &options.track {
        Some(name) => {
            let id = fan_out::id(name, &mut input)?;
            let (fan_out, is_new) = FanOut::open(id, options.notify.clone(), &connection).await?;
            announce_tracker(fan_out.id(), is_new);
            Some(fan_out)
        }
        None => None,
    };
    let stop = Stop::listen(None);
    let sender = Sender::new(&connection, progress(input.bytes()), *output, fan_out.as_ref(), stop.clone());
    let [not_before, expires_at] = [options.not_before, options.expires_at].map(|at| at.map(When::At));
    let sender = Sender { not_before, expires_at, trace: options.trace(), ..sender };
    let mut report = sender.send_all(input.into_reader()).await;
    if let Some(fan_out) = &fan_out {
        follow(fan_out, &mut report, *output, &stop).await;
    }
    output.result(&report, || report.text());
    Ok(if report.is_well() { Ending::Well } else { Ending::Badly })
}

/// Says which tracker it is before anything is sent: nothing else does if this is interrupted. Programs that read the
/// report need it, too, and find it on standard error.
fn announce_tracker(tracker: &TrackerId, is_new: bool) {
    let what = if is_new { "is open" } else { "was opened before, and goes on" };
    let text = format!("tracker {tracker} {what}; after an interruption, send the same input with --track={tracker}");
    let _ = writeln!(io::stderr(), "{text}");
}

/// Waits for the tasks if all are sent. Whatever goes wrong meanwhile, what was sent is reported.
async fn follow(fan_out: &FanOut, report: &mut Report, output: Output, stop: &Stop) {
    if report.is_complete() {
        announce_waiting(fan_out.id(), output);
        tokio::select! {
            ended = fan_out.wait() => match ended {
                Ok(tracked) => {
                    report.tracked = Some(tracked);
                    return;
                }
                Err(error) => report.stop(error.to_string()),
            },
            () = stop.requested() => report.stop(INTERRUPTED.to_owned()),
        }
    }
    // It stays as it is: sending the input again goes on with it.
    match fan_out.progress().await {
        Ok(tracked) => report.tracked = Some(tracked),
        Err(error) => report.stop(error.to_string()),
    }
}

/// Says where to look while this waits, and after it was interrupted.
fn announce_waiting(tracker: &TrackerId, output: Output) {
    if !output.is_json() {
        let text = format!("everything is sent; waiting for it (or ask later: groupage status tracker {tracker})");
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// On standard error, and only if that is a terminal.
pub fn progress(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} %  {msg}  {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    bar.with_style(style(template))
}

struct Sender<'a> {
    fan_out: Option<&'a FanOut>,
    access: Access,
    intake: Intake,
    /// When tasks are called at the earliest that do not say it themselves.
    not_before: Option<When>,
    /// Until when tasks are wanted that do not say it themselves.
    expires_at: Option<When>,
    /// What tasks belong to that do not say it themselves.
    trace: Option<TraceParent>,
    bar: ProgressBar,
    output: Output,
    report: RefCell<Report>,
    /// Set by the first worker that cannot go on; the others finish what they have in hand.
    stopped: Cell<bool>,
    /// Set when the last line is taken.
    is_over: Cell<bool>,
    /// At the first signal no worker takes more lines; at the second, what is in hand is dropped.
    stop: Stop,
}

impl<'a> Sender<'a> {
    fn new(connection: &Connection, bar: ProgressBar, output: Output, fan_out: Option<&'a FanOut>, stop: Stop) -> Self {
        Self {
            fan_out,
            access: Access::to(connection),
            intake: Intake::new(&connection.config, connection.queues.tasks.clone()),
            not_before: None,
            expires_at: None,
            trace: None,
            bar,
            output,
            report: RefCell::default(),
            stopped: Cell::new(false),
            is_over: Cell::new(false),
            stop,
        }
    }

    async fn send_all(self, source: Box<dyn BufRead + Send>) -> Report {
        let started = Instant::now();
        let (lines, ready) = mpsc::channel(CHUNK * WORKERS);
        // Not a task of the runtime: one that waits for a terminal would keep the process from ending.
        thread::spawn(move || {
            for line in Lines::new(source) {
                if lines.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        let ready = Mutex::new(ready);
        tokio::select! {
            _ = join_all((0..WORKERS).map(|_| self.work(&ready))) => {}
            () = self.stop.at_once() => {
                self.report.borrow_mut().stop(format!("{INTERRUPTED} twice: some lines may be sent and not counted"));
            }
        }
        self.bar.finish_and_clear();
        let is_over = self.is_over.get();
        let mut report = self.report.into_inner();
        if self.stop.is_requested() && !is_over {
            report.stop(INTERRUPTED.to_owned());
        }
        report.seconds = started.elapsed().as_secs_f64();
        report
    }

    async fn work(&self, ready: &Mutex<mpsc::Receiver<io::Result<Line>>>) {
        while !self.stopped.get() {
            let taken = tokio::select! {
                biased;
                // Lines that were read and not sent are sent by a repeat.
                () = self.stop.requested() => return,
                taken = self.take(ready) => taken,
            };
            let sent = match taken {
                Ok(chunk) if chunk.is_empty() => {
                    self.is_over.set(true);
                    return;
                }
                Ok(chunk) => self.send(chunk).await,
                Err(stop) => Err(stop),
            };
            if let Err(stop) = sent {
                self.stopped.set(true);
                self.report.borrow_mut().stop(stop.to_string());
            }
        }
    }

    /// Takes what is ready. A tracked chunk is always full, except the last. It gets its items before anybody takes the
    /// next, so that the same input makes the same items.
    async fn take(&self, ready: &Mutex<mpsc::Receiver<io::Result<Line>>>) -> Result<Vec<io::Result<Line>>> {
        let mut ready = ready.lock().await;
        let mut chunk = Vec::with_capacity(CHUNK);
        let Some(fan_out) = self.fan_out else {
            ready.recv_many(&mut chunk, CHUNK).await;
            return Ok(chunk);
        };
        while chunk.len() < CHUNK {
            let more = CHUNK - chunk.len();
            if ready.recv_many(&mut chunk, more).await == 0 {
                break;
            }
        }
        // A chunk that breaks off is left for the next try, when it may be longer.
        if chunk.iter().any(Result::is_err) {
            chunk.retain(Result::is_err);
        }
        fan_out.give_items(&mut chunk).await?;
        Ok(chunk)
    }

    async fn send(&self, chunk: Vec<io::Result<Line>>) -> Result<()> {
        let bytes: u64 = chunk.iter().flatten().map(|line| line.bytes).sum();
        let mut tasks = Vec::new();
        let mut broken = None;
        for line in chunk {
            let Line { number, content, .. } = match line {
                Ok(line) => line,
                Err(error) => {
                    // What was read before is sent all the same.
                    broken = Some(anyhow!("cannot read on: {error}"));
                    break;
                }
            };
            self.report.borrow_mut().lines += 1;
            match content {
                Content::Task(message) => {
                    let not_before = message.not_before.or(self.not_before);
                    let expires_at = message.expires_at.or(self.expires_at);
                    let trace = message.trace.or(self.trace);
                    tasks.push((number, TaskMessage { not_before, expires_at, trace, ..message }));
                }
                Content::Repeated => self.report.borrow_mut().repeated += 1,
                Content::Bad(why) => self.bad(number, why),
            }
        }
        self.send_tasks(tasks).await?;
        self.bar.inc(bytes);
        broken.map_or(Ok(()), Err)
    }

    async fn send_tasks(&self, tasks: Vec<(u64, TaskMessage)>) -> Result<()> {
        let (mut wanted, mut acks) = (Vec::new(), Vec::new());
        for (number, message, known) in lookup::look_up(&self.access.store, tasks).await? {
            match known {
                Known::Not => wanted.push((number, message, true)),
                Known::Unsettled => wanted.push((number, message, false)),
                // The tracker may be younger than the task, under an id used before.
                Known::Succeeded => {
                    acks.extend(message.item.map(|item| (item, Outcome::Succeeded)));
                    self.report.borrow_mut().settled += 1;
                }
                Known::Failed(reason) => {
                    acks.extend(message.item.map(|item| (item, Outcome::Failed)));
                    self.failed(number, message.id, &reason);
                }
                Known::Otherwise { acks_item } => {
                    acks.extend(message.item.filter(|_| !acks_item).map(|item| (item, Outcome::Failed)));
                    self.bad(number, "id_conflict: the id belongs to a task with another payload or item".into());
                }
            }
        }
        self.ack(acks).await?;
        for bundle in bundle::bundles(wanted) {
            let refused = self.intake.send(&bundle).await?;
            self.report.borrow_mut().sent(&bundle, &refused);
            let mut acks = Vec::new();
            for Refused { line, why, item } in refused {
                acks.extend(item.map(|item| (item, Outcome::Failed)));
                self.bad(line, why);
            }
            self.ack(acks).await?;
        }
        Ok(())
    }

    /// Acks the items of tasks that are settled, and of messages that will never be tasks: nobody else will.
    async fn ack(&self, items: Vec<(ItemId, Outcome)>) -> Result<()> {
        let settled = self.access.tracking().settle(items).await.all();
        settled.map_err(|error| anyhow!("cannot ack an item of a tracker: {error}"))?;
        Ok(())
    }

    /// A task that has failed is not sent: its id stands for the failed one.
    fn failed(&self, line: u64, id: TaskId, reason: &Reason) {
        let why = format!("{id} has failed ({reason}); to run it again: groupage failed retry {id}");
        self.output.bad_line(&self.bar, line, &why);
        self.report.borrow_mut().failed(line, id, reason.to_string());
    }

    fn bad(&self, line: u64, why: String) {
        self.output.bad_line(&self.bar, line, &why);
        self.report.borrow_mut().bad(line, why);
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::QueueAttributeName;
    use embedded::{Ports, Stack, Storage};
    use groupage_core::domain::task_message::parse;
    use groupage_core::domain::{BatchId, Member, NotificationQueue, Target, Task, Timestamp};
    use groupage_core::ports::{Settlement, Tasks};

    use super::*;
    use crate::output::Color;

    async fn open(connection: &Connection) -> FanOut {
        FanOut::open(TrackerId::new("t"), NotificationQueue::None, connection).await.unwrap().0
    }

    fn sender<'a>(connection: &Connection, fan_out: Option<&'a FanOut>) -> Sender<'a> {
        let output = Output::new(true, Color::Never);
        Sender::new(connection, ProgressBar::hidden(), output, fan_out, Stop::listen(None))
    }

    fn lines(text: impl Into<String>) -> Box<dyn BufRead + Send> {
        Box::new(io::Cursor::new(text.into()))
    }

    #[tokio::test]
    async fn a_message_that_the_queue_never_takes_fails_its_item_and_keeps_nobody_waiting() {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let connection = stack.connection();
        let smaller = aws_sdk_sqs::Client::new(&connection.config)
            .set_queue_attributes()
            .queue_url(&connection.queues.tasks)
            .attributes(QueueAttributeName::MaximumMessageSize, "1024");
        smaller.send().await.unwrap();
        let fan_out = open(connection).await;
        let large = format!(r#"{{"id":"large","payload":{{"x":"{}"}}}}"#, "x".repeat(2_000));
        let input = lines(format!("{{\"id\":\"small\",\"payload\":{{}}}}\n{large}\n"));
        let report = sender(connection, Some(&fan_out)).send_all(input).await;

        assert_eq!((report.new, report.bad.len(), report.bad[0].line), (1, 1, 2));
        assert!(report.is_complete(), "sending it again is of no use: {:?}", report.stopped);
        let tracked = fan_out.progress().await.unwrap();
        assert_eq!((tracked.items, tracked.failed, tracked.missing), (2, 1, 1));
        stack.shutdown().await;
    }

    #[tokio::test]
    async fn an_item_fails_only_if_no_known_task_will_ack_it() {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let connection = stack.connection();
        let fan_out = open(connection).await;
        let two = "{\"id\":\"a\",\"payload\":{}}\n{\"id\":\"b\",\"payload\":{}}\n";
        sender(connection, Some(&fan_out)).send_all(lines(two)).await;
        let registered = parse(r#"{"id":"a","payload":{},"item":"t:0:0"}"#, "m").unwrap();
        let TaskMessage { id, payload, item, list: _, event: _, not_before: _, expires_at: _, trace: _ } =
            registered.clone();
        let task = Task::new(id, Target::new("r:x"), payload, registered.digest(), Timestamp(0)).with_item(item);
        Access::to(connection).store.register(&task).await.unwrap();

        let failed_after = async |item: &str| {
            let message = parse(&format!(r#"{{"id":"a","payload":{{"n":1}},"item":"{item}"}}"#), "m").unwrap();
            // Also without --track: what a line says of its own item holds.
            let sender = sender(connection, None);
            sender.send_tasks(vec![(1, message)]).await.unwrap();
            assert_eq!(sender.report.borrow().bad.len(), 1);
            fan_out.progress().await.unwrap().failed
        };
        assert_eq!(failed_after("t:0:0").await, 0, "the task that is registered will ack it");
        assert_eq!(failed_after("t:0:1").await, 1, "nobody else would");
        stack.shutdown().await;
    }

    /// Its tracker was removed after its retention, and the input is sent under the same name again.
    #[tokio::test]
    async fn a_settled_task_acks_its_item_in_a_younger_tracker() {
        let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
        let connection = stack.connection();
        let message = parse(r#"{"id":"a","payload":{},"item":"t:0:0"}"#, "m").unwrap();
        let TaskMessage { id, payload, item, list: _, event: _, not_before: _, expires_at: _, trace: _ } =
            message.clone();
        let task = Task::new(id, Target::new("r:x"), payload, message.digest(), Timestamp(0)).with_item(item);
        let (store, batch) = (Access::to(connection).store, BatchId::new("b"));
        store.register(&task).await.unwrap();
        store.join(&task.id, task.round, &batch).await.unwrap();
        let member = Member { id: task.id, round: task.round };
        store.settle(&member, &batch, &Settlement::Succeeded, Timestamp(1)).await.unwrap();

        let fan_out = open(connection).await;
        let report = sender(connection, Some(&fan_out)).send_all(lines("{\"id\":\"a\",\"payload\":{}}\n")).await;
        assert_eq!((report.settled, report.new), (1, 0));
        assert_eq!(fan_out.wait().await.unwrap().state, "completed");
        stack.shutdown().await;
    }
}
