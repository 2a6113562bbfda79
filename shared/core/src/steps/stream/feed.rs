//! Feeding: numbers for new events, and repeats recognised.
//!
//! What was fed before is compared with what it left: with its page, or, when that was dropped because all around it is
//! settled, with its task. What is settled is not sent again. All checks come first, so a refused call changes nothing.

use std::collections::BTreeMap;

use super::commit::When;
use super::report::with_ancestors;
use super::{Outcome, Refused, Streaming};
use crate::domain::id::StreamId;
use crate::domain::json::sendable;
use crate::domain::stream::{EventId, Life, MAX_FED, MAX_NUMBER, Offset, Page, State, Stream, Trace};
use crate::domain::task_message::{self, Code, MAX_MESSAGE_BYTES, Rejection, TaskMessage};
use crate::domain::tracker::{self, Acks, NodeId, Place};
use crate::ports::{Destination, Env, Freshness, Outbox, Outgoing, Stored, Streams, Tasks};
use crate::routes::Routes;
use crate::steps::cas::{Tries, unless_refused};
use crate::steps::{Error, let_others_go_first};

/// The most that the rejected queue holds of an event, in bytes.
const MAX_REJECTED_BYTES: usize = 200_000;
/// Tries of one sending.
const SENDS: u32 = 5;

/// One event as its source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it is, in the source's own words.
    pub offset: Offset,
    /// Its task message. One that is none, or names an event itself, is rejected, and settled as failed.
    pub body: String,
}

/// What feeding came to, in events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fed {
    /// The stream afterwards; as to what is settled, it may be older.
    pub stream: Stream,
    /// Fed for the first time.
    pub new: u64,
    /// Fed before and settled: not sent again.
    pub settled: u64,
    /// Fed before and not settled: sent again.
    pub again: u64,
    /// Of those that were sent: rejected, and with that settled as failed.
    pub rejected: u64,
}

/// What was fed before.
enum Known {
    /// All of it is the same; whether each is settled.
    Same(Vec<bool>),
    /// This one is another.
    Changed(u64),
    /// It was dropped a moment ago, or is not to be seen yet.
    Moving,
}

impl<S: Streams + Tasks, Q: Outbox, E: Env> Streaming<'_, S, Q, E> {
    /// Feeds events in the source's order; the first has the number `from`, which is the stream's next, or that of an
    /// event that was fed before. All of them or, if one is refused, none. What `routes` order by arrival goes to the
    /// queue that keeps it.
    ///
    /// # Errors
    /// A port did not answer: the call must be repeated, since events may be numbered and not sent.
    pub async fn feed(&self, routes: Option<&Routes>, id: &StreamId, from: u64, events: &[Event]) -> Outcome<Fed> {
        if !(1..=MAX_FED).contains(&events.len()) {
            return Ok(Err(Refused::BadCount));
        }
        let traces: Vec<Trace> = events.iter().map(|event| Trace::of(event.offset.clone(), &event.body)).collect();
        let repeated = (from + 1..).zip(traces.windows(2)).find(|(_, pair)| pair[0].offset == pair[1].offset);
        if let Some((number, _)) = repeated {
            return Ok(Err(Refused::SameOffset(number)));
        }
        let mut tries = Tries::of("feeding events", self.env);
        loop {
            let stream = unless_refused!(self.stream(id).await?);
            if let Some(refused) = out_of_order(&stream, from, &traces) {
                return Ok(Err(refused));
            }
            let known = usize::try_from(stream.next - from).unwrap_or(usize::MAX).min(events.len());
            let settled = match self.known(&stream, from, &events[..known], &traces[..known]).await? {
                Known::Same(settled) => settled,
                Known::Changed(number) => return Ok(Err(Refused::Changed(number))),
                Known::Moving => {
                    tries.give_way().await?;
                    continue;
                }
            };
            let mut fed = stream.clone();
            if known < events.len() {
                let page = Page { start: stream.next, traces: traces[known..].to_vec() };
                if let Some(refused) = self.over(&stream, &page).await? {
                    return Ok(Err(refused));
                }
                fed = stream.fed(&page, self.env.now());
                if self.store.feed(&fed, &page).await? == Stored::Conflict {
                    tries.give_way().await?;
                    continue;
                }
            }
            let new = (events.len() - known) as u64;
            let to_send =
                (from..).zip(events).enumerate().filter(|(at, _)| !settled.get(*at).copied().unwrap_or(false));
            let to_send: Vec<(u64, &Event)> = to_send.map(|(_, numbered)| numbered).collect();
            let again = to_send.len() as u64 - new;
            let rejected = self.send_events(routes, &fed.life, &to_send).await?;
            return Ok(Ok(Fed { stream: fed, new, settled: known as u64 - again, again, rejected }));
        }
    }

    /// Why the stream does not take these new events.
    async fn over(&self, stream: &Stream, page: &Page) -> Result<Option<Refused>, Error> {
        if page.end() > MAX_NUMBER {
            return Ok(Some(Refused::TooMany));
        }
        let count = page.traces.len() as u64;
        if count <= stream.room() {
            return Ok(None);
        }
        // The last commit may be long ago: what is settled by now does not count.
        let mut now = self.commit(stream.clone(), When::Due).await?;
        if count > now.room() {
            now.watermark.settled = now.watermark.settled.max(self.count(&now).await?.0);
        }
        let refused = Refused::WindowFull { unsettled: now.unsettled(), window: now.options.window, room: now.room() };
        Ok((count > now.room()).then_some(refused))
    }

    /// Compares events with what was fed under their numbers.
    async fn known(&self, stream: &Stream, from: u64, events: &[Event], traces: &[Trace]) -> Result<Known, Error> {
        if events.is_empty() {
            return Ok(Known::Same(Vec::new()));
        }
        let (life, end) = (&stream.life, from + events.len() as u64);
        // The pages before the bits: one that is not there any more was dropped after the bits said so.
        let mut before: BTreeMap<u64, Trace> = BTreeMap::new();
        let mut start = from.saturating_sub(MAX_FED as u64 - 1);
        loop {
            let pages = self.store.pages(life, start, end, MAX_FED).await?;
            let Some(last) = pages.last() else { break };
            start = last.end();
            before.extend(pages.into_iter().flat_map(|page| (page.start..).zip(page.traces)));
        }
        let groups = [from, end - 1].map(Place::of).into_iter().flatten().map(|place| NodeId::group(place.group));
        let mut nodes: Vec<NodeId> = groups.flat_map(with_ancestors).collect();
        nodes.sort();
        nodes.dedup();
        let bits = self.store.see(life, &nodes).await?.bits;
        let mut without_page = Vec::new();
        for (number, (event, trace)) in (from..).zip(events.iter().zip(traces)) {
            match before.get(&number) {
                Some(before) if before == trace => {}
                Some(_) => return Ok(Known::Changed(number)),
                None if bits.is_settled(number) => without_page.push((number, event)),
                None => return Ok(Known::Moving),
            }
        }
        if let Some(number) = self.other_task(life, &without_page).await? {
            return Ok(Known::Changed(number));
        }
        Ok(Known::Same((from..end).map(|number| Self::is_settled(stream, &bits, number)).collect()))
    }

    /// The first of these settled events whose task was another. Tasks are forgotten after their retention, and what
    /// was rejected has none: such an event is taken for the same.
    async fn other_task(&self, life: &Life, events: &[(u64, &Event)]) -> Result<Option<u64>, Error> {
        let messages: Vec<(u64, TaskMessage)> =
            events.iter().filter_map(|(number, event)| Some((*number, message(life, *number, event).ok()?))).collect();
        let ids: Vec<_> = messages.iter().map(|(_, message)| message.id.clone()).collect();
        let tasks = self.store.read(&ids, Freshness::Eventual).await?;
        let is_other = |message: &TaskMessage| {
            tasks.iter().any(|task| {
                task.id == message.id && task.event == message.event && !task.is_repeated_by(&message.digest())
            })
        };
        Ok(messages.iter().find(|(_, message)| is_other(message)).map(|(number, _)| *number))
    }

    /// Sends events in their order; those that can never be tasks go to the rejected queue, and are settled as failed.
    /// Says how many these were.
    async fn send_events(&self, routes: Option<&Routes>, life: &Life, events: &[(u64, &Event)]) -> Result<u64, Error> {
        let mut lost = Acks::default();
        let mut messages = Vec::new();
        for (number, event) in events {
            let to_send = match message(life, *number, event) {
                Ok(message) => Outgoing {
                    to: routes.map_or(Destination::Tasks, |routes| routes.intake(&message)),
                    body: message.body(),
                    delay_ms: 0,
                    attributes: Vec::new(),
                    tenant: Some(life.id.to_string()),
                },
                Err(Rejection { code, detail, .. }) => {
                    if let Some(place) = Place::of(*number) {
                        lost.add(place, tracker::Outcome::Failed);
                    }
                    let id = EventId { life: life.clone(), number: *number }.to_string();
                    Outgoing {
                        to: Destination::Rejected,
                        body: as_rejected(&event.body),
                        delay_ms: 0,
                        attributes: vec![("Reason", code.to_string()), ("Detail", detail), ("MessageId", id)],
                        tenant: None,
                    }
                }
            };
            messages.push(to_send);
        }
        self.send_all(messages).await?;
        let rejected = lost.len();
        if rejected > 0 {
            self.settle_in(life, &lost).await?;
        }
        Ok(rejected)
    }

    /// Sends messages, again what was not taken. After one that was not, none of its lane is, so these stay in order.
    async fn send_all(&self, mut left: Vec<Outgoing>) -> Result<(), Error> {
        for tries in 1.. {
            let answers = self.outbox.send(left.clone()).await;
            let failed = left.into_iter().zip(answers).filter_map(|(message, sent)| Some((message, sent.err()?)));
            let (again, errors): (Vec<Outgoing>, Vec<_>) = failed.unzip();
            match errors.into_iter().next() {
                None => break,
                Some(error) if tries == SENDS => return Err(error.into()),
                Some(_) => let_others_go_first(self.env, tries).await,
            }
            left = again;
        }
        Ok(())
    }
}

/// Why events do not come now, whatever they are.
fn out_of_order(stream: &Stream, from: u64, traces: &[Trace]) -> Option<Refused> {
    let (next, watermark) = (stream.next, stream.watermark.number);
    if stream.state != State::Open {
        return Some(Refused::Over(stream.state));
    }
    if from > next {
        return Some(Refused::Gap { from, next });
    }
    if from < watermark {
        return Some(Refused::Behind { from, watermark });
    }
    let is_repeated = from == next && traces.first().map(|trace| &trace.offset) == stream.last.as_ref();
    is_repeated.then_some(Refused::SameOffset(from))
}

/// What the rejected queue holds of an event: it takes no empty message, and none that is too large.
fn as_rejected(body: &str) -> String {
    let mut end = body.len().min(MAX_REJECTED_BYTES);
    while !body.is_char_boundary(end) {
        end -= 1;
    }
    let kept: String = body[..end].chars().filter(|c| !c.is_control() || c.is_whitespace()).collect();
    if kept.is_empty() { "\"\"".to_owned() } else { sendable(kept) }
}

/// The task that an event becomes.
fn message(life: &Life, number: u64, event: &Event) -> Result<TaskMessage, Rejection> {
    let id = EventId { life: life.clone(), number };
    let message = task_message::parse(&event.body, id.task().as_str())?;
    if message.event.is_some() {
        return Err(Rejection::new(Code::BadEvent, "`event` is given by the stream: leave it out"));
    }
    let message = TaskMessage { event: Some(id), ..message };
    if message.list.is_some() {
        return Err(Rejection::new(Code::BadEvent, "a stream's event goes on at once: it waits on no list"));
    }
    if message.body().len() > MAX_MESSAGE_BYTES {
        return Err(Rejection::new(Code::TooLarge, format!("the message is over {MAX_MESSAGE_BYTES} bytes")));
    }
    Ok(message)
}
