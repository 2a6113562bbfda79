//! `groupage feed`: an ordered file as the source of a stream.
//!
//! It holds nothing that a crash could lose: the stream says up to where all is settled, and everything after that is
//! fed again, and recognised.

mod args;
mod report;
mod source;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use groupage_aws::entry::{NoRoutes, RouteSource};
use groupage_aws::{Connection, Dynamo, Sqs, System};
use groupage_core::domain::stream::{Ending as End, State, Stream};
use groupage_core::domain::{Retryable, StreamId};
use groupage_core::routes::Routes;
use groupage_core::steps;
use groupage_core::steps::stream::{Event, Fed, Outcome, Refused, Streaming};
use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::output::{Ending, Output, after_step};
use crate::send;
use crate::stack::{self, Access};
use crate::stop::Stop;
pub use args::Args;
use report::Report;
use source::Source;

/// Lines of one call at most.
const CHUNK: usize = 100;
/// How long it waits for others, or before it looks again.
const PAUSE: Duration = Duration::from_millis(500);
/// Tries of one call that a table or queue does not answer; the clients have tried by themselves.
const TRIES: u32 = 5;

/// Why it ended before the end of the file.
#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error("interrupted")]
    Interrupted,
    #[error("cannot read on: {0}")]
    Source(#[from] source::Error),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Step(#[from] steps::Error),
}

/// Feeds a file. It fails before anything is fed; what goes wrong later is in the report.
pub async fn run(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    feed(options, stack, output).await.map_err(|error| after_step(error, ". Feed the same file again to go on"))
}

async fn feed(options: &Args, stack: Option<&str>, output: &Output) -> Result<Ending> {
    let id = StreamId::parse(&options.stream).map_err(Error::msg)?;
    let connection = stack::open(stack).await?;
    let access = Access::to(&connection);
    let steps = access.streaming();
    let routes = routes(&connection).await?;
    let refused = |why| anyhow!("stream {id}: {why}");
    let before = steps.stream(&id).await?.ok();
    let wanted = options.options(before.as_ref().map(|stream| &stream.options));
    let (stream, _) = steps.open(id.clone(), wanted).await?.map_err(refused)?;
    let source = Source::open(&options.file, &stream.watermark);
    let source = source.with_context(|| format!("cannot feed {}", options.file.display()))?;
    let bar = send::progress(source.bytes());
    bar.set_position(source.at());
    let report = Report::of(&stream);
    if stream.watermark.number > 0 && !output.is_json() {
        let line = report.resumed_at;
        let _ = writeln!(io::stderr(), "{line} lines are settled; going on after them");
    }
    let stop = Stop::listen(None);
    let mut feeder = Feeder { steps, routes, id, options, output: *output, bar, report, stop: stop.clone() };
    let started = Instant::now();
    tokio::select! {
        () = feeder.run(source, stream) => {}
        () = stop.at_once() => feeder.report.stopped = Some(Halt::Interrupted.to_string()),
    }
    let Feeder { bar, mut report, .. } = feeder;
    bar.finish_and_clear();
    report.seconds = started.elapsed().as_secs_f64();
    output.result(&report, || report.text());
    Ok(if report.is_well() { Ending::Well } else { Ending::Badly })
}

/// The routes in force; `None` if none were pushed yet.
async fn routes(connection: &Connection) -> Result<Option<Arc<Routes>>, NoRoutes> {
    match RouteSource::table(connection.routes(&Arc::default())).current().await {
        Ok(routes) => Ok(Some(routes)),
        Err(NoRoutes::NotPushed) => Ok(None),
        Err(other) => Err(other),
    }
}

/// One file on its way into a stream.
struct Feeder<'a> {
    steps: Streaming<'a, Dynamo, Sqs, System>,
    routes: Option<Arc<Routes>>,
    id: StreamId,
    options: &'a Args,
    output: Output,
    bar: ProgressBar,
    report: Report,
    stop: Stop,
}

impl Feeder<'_> {
    /// Feeds all of it, and waits for it if that is wanted. Whatever happens, what is settled is committed at last.
    async fn run(&mut self, source: Source, stream: Stream) {
        let done = match self.feed(source, stream).await {
            Ok(()) => self.settle().await,
            Err(halt) => Err(halt),
        };
        if let Err(halt) = done {
            self.report.stopped = Some(halt.to_string());
        }
        match self.steps.commit_now(&self.id).await {
            Ok(Ok(stream)) => self.report.see(&stream),
            // The report says how far it was seen to be.
            Ok(Err(_)) => {}
            Err(error) => drop(self.report.stopped.get_or_insert(error.to_string())),
        }
    }

    async fn feed(&mut self, mut source: Source, mut stream: Stream) -> Result<(), Halt> {
        let mut from = stream.watermark.number;
        let (started, mut fed) = (Instant::now(), 0_u32);
        loop {
            if stream.state != State::Open {
                // Nothing is fed to a stream that is over; if all of the file was, there is nothing to do.
                let is_more = stream.next > from || source.event()?.is_some();
                let is_over = !is_more || stream.state != State::Failed;
                return if is_over { Ok(()) } else { Err(Refused::Over(stream.state).into()) };
            }
            let mut events = source.events(self.most(&stream))?;
            let Some(count) = u32::try_from(events.len()).ok().filter(|count| *count > 0) else { return Ok(()) };
            while !events.is_empty() {
                self.may_go_on()?;
                let Fed { stream: now, .. } = self.call(&mut from, &mut events).await?;
                stream = now;
            }
            self.bar.set_position(source.at());
            self.bar.set_message(self.report.message());
            fed = fed.saturating_add(count);
            if let Some(rate) = self.options.rate {
                let until = started + Duration::from_secs_f64(f64::from(fed) / f64::from(rate));
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = self.stop.requested() => {}
                }
            }
        }
    }

    /// Lines of the next call: few if they are to come slowly.
    fn most(&self, stream: &Stream) -> usize {
        let window = usize::try_from(stream.options.window).unwrap_or(CHUNK);
        let rate = self.options.rate.map_or(CHUNK, |rate| usize::try_from(rate / 10).unwrap_or(CHUNK));
        CHUNK.min(window).min(rate.max(1))
    }

    /// Feeds these events, or as many as the window takes; takes them out then.
    async fn call(&mut self, from: &mut u64, events: &mut Vec<Event>) -> Result<Fed, Halt> {
        let mut most = events.len();
        loop {
            self.may_go_on()?;
            let (steps, routes) = (self.steps, self.routes.as_deref());
            let (id, events_now, first) = (&self.id, &events[..most], *from);
            match persist(|| steps.feed(routes, id, first, events_now)).await? {
                Ok(fed) => {
                    *from += most as u64;
                    events.drain(..most);
                    self.report.count(&fed);
                    self.report.see(&fed.stream);
                    return Ok(fed);
                }
                Err(Refused::WindowFull { unsettled, room, .. }) => {
                    most = usize::try_from(room).unwrap_or(most).min(most);
                    if most == 0 {
                        most = events.len();
                        self.bar.set_message(format!("the window is full: {unsettled} lines are not settled"));
                        self.wait().await;
                    }
                }
                // The last call's answer was lost, or another feeder is at work: these are settled.
                Err(Refused::Behind { watermark, .. }) => {
                    let settled = usize::try_from(watermark - *from).unwrap_or(usize::MAX).min(events.len());
                    events.drain(..settled);
                    self.report.skip(settled as u64);
                    *from += settled as u64;
                    most = events.len();
                    if most == 0 {
                        let stream = self.steps.stream(&self.id).await??;
                        return Ok(Fed { stream, new: 0, settled: 0, again: 0, rejected: 0 });
                    }
                }
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// Ends the stream if that is wanted, and waits until all of it is settled.
    async fn settle(&mut self) -> Result<(), Halt> {
        if self.options.end {
            let (steps, id) = (self.steps, &self.id);
            let stream = persist(|| steps.end(id, End::Ended)).await??;
            self.report.see(&stream);
        }
        if self.options.no_wait {
            return Ok(());
        }
        let mut is_told = self.output.is_json();
        loop {
            let (steps, id) = (self.steps, &self.id);
            let stream = persist(|| steps.commit_if_due(id)).await??;
            self.report.see(&stream);
            self.bar.set_message(self.report.message());
            if stream.watermark.number == stream.next {
                return Ok(());
            }
            self.may_go_on()?;
            if !is_told {
                is_told = true;
                let text = format!("everything is fed; waiting for it (or ask later: groupage stream show {id})");
                self.bar.suspend(|| drop(writeln!(io::stderr(), "{text}")));
            }
            self.wait().await;
        }
    }

    fn may_go_on(&self) -> Result<(), Halt> {
        if self.stop.is_requested() { Err(Halt::Interrupted) } else { Ok(()) }
    }

    async fn wait(&self) {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = self.stop.requested() => {}
        }
    }
}

/// Makes a call again if a port does not answer: all calls of streams may be repeated.
async fn persist<T, F: Future<Output = Outcome<T>>>(call: impl Fn() -> F) -> Outcome<T> {
    let mut tries = 0;
    loop {
        match call().await {
            Err(error) if error.retryable() == Retryable::Yes && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE * tries).await;
            }
            answer => return answer,
        }
    }
}
