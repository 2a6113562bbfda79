//! `groupage send`: many tasks from a file onto the intake queue.
//!
//! A thread reads and checks the lines; workers take what is ready of them, ask the task table which are known, and
//! send the rest in tens. Repeating it is safe at any point: ids follow from the content, and registering twice is
//! registering once.

pub mod bundle;
mod fan_out;
mod lines;
mod lookup;
pub mod queue;
mod report;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use futures::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use shared::aws::Dynamo;
use shared::domain::id::TrackerId;
use shared::domain::task_message::TaskMessage;
use shared::ports;
use tokio::sync::{Mutex, mpsc};

use crate::Ending;
use crate::args;
use crate::connection::{self, Connection};
use crate::output::Output;
use crate::steps;
use fan_out::FanOut;
use lines::{Content, Line, Lines};
use lookup::Known;
use queue::{Intake, Refused};
use report::Report;

/// Lines that one worker takes at a time: as many as one read of the task table can look up.
const CHUNK: usize = 100;

/// Workers: enough to keep SQS busy from one machine.
const WORKERS: usize = 8;

/// The input could not be sent to its end. What was sent stays sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no queue to send to.
    #[error(transparent)]
    Connection(#[from] connection::Error),
    /// The tasks cannot be tracked.
    #[error(transparent)]
    Track(#[from] fan_out::Error),
}

/// Why the workers stopped before the end of the input.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("cannot read on: {0}")]
    Input(#[from] io::Error),
    #[error(transparent)]
    Table(#[from] ports::Error),
    #[error(transparent)]
    Queue(#[from] queue::Error),
    #[error(transparent)]
    Track(#[from] fan_out::Error),
}

/// Sends every good line of the input.
///
/// # Errors
/// [`Error`], before anything is sent. What goes wrong later is in the report.
pub async fn run(options: &args::Send, stack: Option<&str>, output: &Output) -> Result<Ending, Error> {
    let (source, bytes) = open(&options.file)?;
    let connection = Connection::open(stack).await?;
    let fan_out = match &options.track {
        Some(name) => Some(FanOut::open(name, options, &connection).await?),
        None => None,
    };
    let sender = Sender::new(&connection, progress(bytes), *output, fan_out.as_ref());
    let mut report = sender.send_all(source).await;
    if let Some(fan_out) = &fan_out {
        report.tracked = Some(if report.is_complete() {
            announce(fan_out.id(), *output);
            fan_out.wait().await?
        } else {
            // It stays open: whoever sends the input again goes on with it.
            fan_out.progress().await?
        });
    }
    output.result(&report, || report.text());
    Ok(if report.is_well() { Ending::Well } else { Ending::Badly })
}

/// Says where to look while this waits, and after it was interrupted.
fn announce(tracker: &TrackerId, output: Output) {
    if !output.is_json() {
        let text = format!("everything is sent; waiting for it (or ask later: groupage status tracker {tracker})");
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// The input, and its size in bytes if that is known.
fn open(file: &Path) -> Result<(Box<dyn BufRead + Send>, Option<u64>), Error> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), None));
    }
    let failed = |source| Error::Open { file: file.to_owned(), source };
    let opened = File::open(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    // Pipes and devices have no size that means anything.
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::new(opened)), bytes))
}

/// On standard error, and only if that is a terminal.
fn progress(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} %  {msg}  {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    // The templates are constants; a bar in the default style would do no harm.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

struct Sender<'a> {
    fan_out: Option<&'a FanOut>,
    store: Dynamo,
    intake: Intake,
    bar: ProgressBar,
    output: Output,
    report: RefCell<Report>,
    /// Set by the first worker that cannot go on; the others finish what they have in hand.
    stopped: Cell<bool>,
}

impl<'a> Sender<'a> {
    fn new(connection: &Connection, bar: ProgressBar, output: Output, fan_out: Option<&'a FanOut>) -> Self {
        Self {
            fan_out,
            store: steps::unmetered_store(connection),
            intake: Intake::new(&connection.config, connection.queues.tasks.clone()),
            bar,
            output,
            report: RefCell::default(),
            stopped: Cell::new(false),
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
        join_all((0..WORKERS).map(|_| self.work(&ready))).await;
        self.bar.finish_and_clear();
        let mut report = self.report.into_inner();
        report.seconds = started.elapsed().as_secs_f64();
        report
    }

    async fn work(&self, ready: &Mutex<mpsc::Receiver<io::Result<Line>>>) {
        while !self.stopped.get() {
            let sent = match self.take(ready).await {
                Ok(chunk) if chunk.is_empty() => return,
                Ok(chunk) => self.send(chunk).await,
                Err(stop) => Err(stop),
            };
            if let Err(stop) = sent {
                self.stopped.set(true);
                self.report.borrow_mut().stop(stop.to_string());
            }
        }
    }

    /// Takes what is ready. A tracked chunk is always full but for the last, and gets its items before anybody takes the
    /// next, so that the same input makes the same items.
    async fn take(&self, ready: &Mutex<mpsc::Receiver<io::Result<Line>>>) -> Result<Vec<io::Result<Line>>, Stop> {
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

    async fn send(&self, chunk: Vec<io::Result<Line>>) -> Result<(), Stop> {
        let bytes: u64 = chunk.iter().flatten().map(|line| line.bytes).sum();
        let mut tasks = Vec::new();
        let mut broken = None;
        for line in chunk {
            let Line { number, content, .. } = match line {
                Ok(line) => line,
                Err(error) => {
                    // What was read before is sent all the same.
                    broken = Some(Stop::Input(error));
                    break;
                }
            };
            self.report.borrow_mut().lines += 1;
            match content {
                Content::Task(message) => tasks.push((number, message)),
                Content::Repeated => self.report.borrow_mut().repeated += 1,
                Content::Bad(why) => self.bad(number, why),
            }
        }
        self.send_tasks(tasks).await?;
        self.bar.inc(bytes);
        broken.map_or(Ok(()), Err)
    }

    async fn send_tasks(&self, tasks: Vec<(u64, TaskMessage)>) -> Result<(), Stop> {
        let (mut wanted, mut lost) = (Vec::new(), Vec::new());
        for (number, message, known) in lookup::look_up(&self.store, tasks).await? {
            match known {
                Known::Not => wanted.push((number, message, true)),
                Known::Unsettled => wanted.push((number, message, false)),
                Known::Settled => self.report.borrow_mut().settled += 1,
                Known::Otherwise => {
                    lost.extend(message.item);
                    self.bad(number, "id_conflict: the id belongs to a task with another payload or tracker".into());
                }
            }
        }
        if let Some(fan_out) = self.fan_out {
            fan_out.fail(lost).await?;
        }
        for bundle in bundle::bundles(wanted) {
            let refused = self.intake.send(&bundle).await?;
            self.report.borrow_mut().sent(&bundle, &refused);
            for Refused { line, why } in refused {
                self.report.borrow_mut().unsent += 1;
                self.bad(line, why);
            }
        }
        Ok(())
    }

    fn bad(&self, line: u64, why: String) {
        if !self.output.is_json() {
            let text = format!("{}: {why}", self.output.red(&format!("line {line}")));
            // Through the bar, which would otherwise be torn.
            self.bar.suspend(|| {
                let _ = writeln!(io::stderr(), "{text}");
            });
        }
        self.report.borrow_mut().bad(line, why);
    }
}
