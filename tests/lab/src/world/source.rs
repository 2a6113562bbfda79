//! A stream's source: a process of its own that feeds events, waits when the window is full, and ends the stream. When
//! it dies another one begins from the watermark, knowing nothing else.

use std::sync::Arc;

use groupage_core::domain::stream::{Ending, Options, State};
use groupage_core::ports::Result;
use groupage_core::steps::stream::{Event, Outcome, Refused, Streaming};

use super::World;
use super::fan_out::AGAIN_MS;
use crate::prelude::*;

/// What a source has.
#[derive(Debug)]
pub struct Source {
    /// The stream.
    pub stream: StreamId,
    /// How it is opened.
    pub options: Options,
    /// Task messages, in order.
    pub bodies: Vec<String>,
    /// Events of one call.
    pub page: usize,
}

impl Source {
    /// The events from a number on, as many as go in one call.
    fn events(&self, from: u64) -> Vec<Event> {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.bodies.len());
        let end = (from + self.page).min(self.bodies.len());
        let event = |(number, body): (usize, &String)| {
            Some(Event { offset: Offset::parse(&format!("at {number}")).ok()?, body: body.clone() })
        };
        (from..end).zip(&self.bodies[from..end]).filter_map(event).collect()
    }
}

/// The task queue as a source has it: what it sends together comes together.
struct Intake<'a>(&'a World);

impl Outbox for Intake<'_> {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let (tasks, others): (Vec<Outgoing>, Vec<Outgoing>) =
            messages.iter().cloned().partition(|message| message.to == Destination::Tasks);
        let bodies: Vec<String> = tasks.into_iter().map(|message| message.body).collect();
        if !bodies.is_empty() {
            self.0.send(&bodies);
        }
        self.0.queues.send(others).await;
        messages.iter().map(|_| Ok(())).collect()
    }
}

impl World {
    /// A source's life, to its stream's end.
    pub(crate) async fn feed_as(&self, process: &Process, source: &Arc<Source>) {
        let intake = Intake(self);
        let (store, outbox) = (Faulty::new(&self.store, process), Faulty::new(&intake, process));
        let steps = Streaming { store: &store, outbox: &outbox, env: process.env() };
        let mut next = None;
        loop {
            match self.feed_once(steps, source, &mut next).await {
                // Its end, or that of another source of the same.
                Ok(Ok(true) | Err(Refused::Over(_))) => return,
                Ok(Ok(false)) => {}
                Ok(Err(Refused::WindowFull { .. })) | Err(_) => process.env().sleep(AGAIN_MS).await,
                // The watermark has passed what an unanswered call had fed.
                Ok(Err(Refused::Behind { .. })) => next = None,
                Ok(Err(refused)) => {
                    self.complain(format!("sources are served: {} was told: {refused}", source.stream));
                    return;
                }
            }
        }
    }

    /// One call; says whether it was the last.
    async fn feed_once<S: Streams + Tasks, Q: Outbox, E: Env>(
        &self,
        steps: Streaming<'_, S, Q, E>,
        source: &Source,
        next: &mut Option<u64>,
    ) -> Outcome<bool> {
        let from = match *next {
            Some(from) => from,
            None => match steps.open(source.stream.clone(), source.options.clone()).await? {
                Ok((stream, _)) if stream.state != State::Open => return Ok(Ok(true)),
                Ok((stream, _)) => *next.insert(stream.watermark.number),
                Err(refused) => return Ok(Err(refused)),
            },
        };
        let events = source.events(from);
        if events.is_empty() {
            return Ok(steps.end(&source.stream, Ending::Ended).await?.map(|_| true));
        }
        Ok(steps.feed(Some(&self.known()[0]), &source.stream, from, &events).await?.map(|_| {
            *next = Some(from + events.len() as u64);
            false
        }))
    }
}
