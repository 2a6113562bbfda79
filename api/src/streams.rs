//! Streams: opened, fed, ended, looked at.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use groupage_core::domain::stream::{
    Ending, MAX_COMMIT_MS, MAX_FED, MAX_NUMBER, Offset, Options, State as Stored, Stream as StoredStream, WINDOW,
};
use groupage_core::domain::{NotificationQueue, StreamId};
use groupage_core::steps::stream::{Event, Fed as FedEvents};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::body::{Body, Contents, Fields, MAX_WHOLE};
use crate::parameters::Id;
use crate::problem::Problem;
use crate::responses::{AnyPort, ById, Conflicts, WithBody};
use crate::routes::pushed;
use crate::trackers::notification_queue;

/// How a stream is opened.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStream {
    /// Its name.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,40}$")]
    id: String,
    /// The shortest time between two commits of the watermark, in milliseconds; 1000 if it is missing.
    #[schema(minimum = 0, maximum = 3_600_000)]
    commit_ms: Option<u64>,
    /// Commit whenever this many more events are settled.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    commit_events: Option<u64>,
    /// How many events may be unsettled; 10000 if it is missing.
    #[schema(minimum = 1, maximum = 1_000_000)]
    window: Option<u64>,
    /// The queue that is told of each commit: `default` (the stack's own queue), `none`, or the URL of an SQS queue
    /// that a route names for notifications; `none` if it is missing.
    #[schema(pattern = "^(default|none|https?://.+)$")]
    notify: Option<String>,
}

impl Contents for NewStream {
    const FIELDS: &[&str] = &["id", "commit_ms", "commit_events", "window", "notify"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        Ok(Self {
            id: fields.required("id", "a string")?,
            commit_ms: fields.optional_whole("commit_ms", 0..=MAX_COMMIT_MS)?,
            commit_events: fields.optional_whole("commit_events", 1..=MAX_WHOLE)?,
            window: fields.optional_whole("window", WINDOW)?,
            notify: fields.optional("notify", "a string")?,
        })
    }
}

impl NewStream {
    fn options(&self, notify: NotificationQueue) -> Options {
        let Options { commit_ms, window, .. } = Options::default();
        Options {
            commit_ms: self.commit_ms.unwrap_or(commit_ms),
            commit_events: self.commit_events,
            window: self.window.unwrap_or(window),
            notify,
        }
    }
}

/// Events to feed.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `NewEvents` keeps each task as it was written")]
pub struct EventList {
    /// The first one's number: the stream's `fed`, or that of an event at or after its watermark, to feed it again.
    #[schema(minimum = 0, maximum = 368_293_445_631_u64)]
    from: u64,
    /// The events, in the source's order.
    #[schema(min_items = 1, max_items = 500)]
    events: Vec<NewEvent>,
}

/// An event to feed.
#[derive(Debug, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the published contract; `NewEvents` keeps each task as it was written")]
pub struct NewEvent {
    /// Where it is in the source, in the source's own words; another one than that of the event before it.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    offset: String,
    /// Its task, as it is sent with `POST /tasks`. One that cannot be registered is rejected, and settled as failed.
    #[schema(value_type = Object)]
    task: crate::tasks::NewTask,
}

/// Events as they were written.
#[derive(Debug)]
pub struct NewEvents {
    from: u64,
    events: Vec<Event>,
}

impl Contents for NewEvents {
    const FIELDS: &[&str] = &["from", "events"];

    fn read(fields: &Fields) -> Result<Self, Problem> {
        let raw: Vec<Box<RawValue>> = fields.required("events", "a list of events")?;
        if !(1..=MAX_FED).contains(&raw.len()) {
            return Err(Problem::field("events", format!("`events` must hold 1 to {MAX_FED} events")));
        }
        let event = |(position, raw): (usize, Box<RawValue>)| {
            let within = |problem: Problem| problem.within(&format!("events[{position}]"));
            let fields = Fields::of(raw.get(), &["offset", "task"]).map_err(within)?;
            let offset: String = fields.required("offset", "a string").map_err(within)?;
            let offset = Offset::parse(&offset).map_err(|why| within(Problem::field("offset", why)))?;
            let task: Box<RawValue> = fields.required("task", "an object").map_err(within)?;
            if task.get().starts_with('{') {
                Ok(Event { offset, body: task.get().to_owned() })
            } else {
                Err(within(Problem::field("task", "`task` must be an object")))
            }
        };
        let events = raw.into_iter().enumerate().map(event).collect::<Result<_, _>>()?;
        Ok(Self { from: fields.whole("from", 0..=MAX_NUMBER - 1)?, events })
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamState {
    /// Takes events.
    Open,
    /// Takes no more events; some are not settled.
    Ended,
    /// Its source gave up.
    Failed,
    /// It was ended, and all is settled.
    Completed,
}

/// A stream, as it was committed last.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stream {
    /// Its name.
    #[schema(value_type = String)]
    id: StreamId,
    /// Where it stands.
    state: StreamState,
    /// Events fed so far; the next one has this number.
    fed: u64,
    /// All events before this number are settled: a source that starts anew feeds from here on.
    watermark: u64,
    /// The offset of the last event before the watermark; null at the beginning.
    #[schema(value_type = String, required = true, nullable = true)]
    offset: Option<Offset>,
    /// Events settled, before the watermark and beyond it.
    settled: u64,
    /// Those that failed.
    failed: u64,
    /// How many events may be unsettled.
    window: u64,
    /// When the watermark was committed.
    #[schema(format = DateTime)]
    committed_at: String,
    /// When the stream was opened.
    #[schema(format = DateTime)]
    opened_at: String,
}

impl From<StoredStream> for Stream {
    fn from(stream: StoredStream) -> Self {
        let state = match stream.state {
            Stored::Open => StreamState::Open,
            Stored::Ended => StreamState::Ended,
            Stored::Failed => StreamState::Failed,
            Stored::Completed => StreamState::Completed,
        };
        Self {
            state,
            fed: stream.next,
            watermark: stream.watermark.number,
            offset: stream.watermark.offset,
            settled: stream.watermark.settled,
            failed: stream.watermark.failed,
            window: stream.options.window,
            committed_at: stream.watermark.at.shown(),
            opened_at: stream.life.opened_at.shown(),
            id: stream.life.id,
        }
    }
}

/// Events that were fed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Fed {
    /// Events that the stream has now: feed on from this number.
    fed: u64,
    /// Those of this call that it did not have.
    new: u64,
    /// Those that it had, not settled: sent again.
    again: u64,
    /// Those that it had, settled: not sent.
    settled: u64,
    /// Of those that were sent: rejected, and with that settled as failed.
    rejected: u64,
}

impl From<FedEvents> for Fed {
    fn from(FedEvents { stream, new, settled, again, rejected }: FedEvents) -> Self {
        Self { fed: stream.next, new, again, settled, rejected }
    }
}

/// Open a stream
///
/// The same call again finds it.
#[utoipa::path(
    post, path = "/streams", tag = "streams", operation_id = "open_stream",
    request_body(content = NewStream, example = json!({ "id": "orders", "window": 5000 })),
    responses(
        (status = 201, description = "It is new.", body = Stream),
        (status = 200, description = "It was there.", body = Stream),
        Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn open<B: Backend>(
    State(backend): State<Arc<B>>,
    Body(new): Body<NewStream>,
) -> Result<(StatusCode, Json<Stream>), Problem> {
    let id = StreamId::parse(&new.id).map_err(|why| Problem::field("id", why))?;
    let notify = notification_queue(new.notify.as_deref().unwrap_or("none"), &backend.stack().routes).await?;
    let (stream, is_new) = backend.streaming().open(id, new.options(notify)).await??;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(stream.into())))
}

/// Show a stream
#[utoipa::path(
    get, path = "/streams/{id}", tag = "streams", operation_id = "show_stream",
    params(("id" = String, Path, description = "The stream's name.", pattern = "^[A-Za-z0-9_-]{1,40}$", example = "orders")),
    responses((status = 200, description = "The stream, as it was committed last.", body = Stream), ById, AnyPort),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<StreamId>) -> Result<Json<Stream>, Problem> {
    Ok(Json(backend.streaming().stream(&id).await??.into()))
}

/// Feed events
///
/// All of them or, if one is refused, none. Events that were fed before are recognised by their number, offset and
/// content; those that are not settled are sent again. If the answer is lost, or an error, repeat the call.
#[utoipa::path(
    post, path = "/streams/{id}/events", tag = "streams", operation_id = "feed_stream",
    params(("id" = String, Path, description = "The stream's name.", pattern = "^[A-Za-z0-9_-]{1,40}$", example = "orders")),
    request_body(
        content = EventList,
        example = json!({
            "from": 0,
            "events": [{ "offset": "0/16B3748", "task": { "payload": { "type": "order", "user": "u-7" } } }],
        }),
    ),
    responses(
        (
            status = 200, description = "They are fed.", body = Fed,
            example = json!({ "fed": 1, "new": 1, "again": 0, "settled": 0, "rejected": 0 }),
        ),
        (
            status = 429, description = "Its window is full: wait until some events are settled. Nothing was changed.",
            body = Problem, content_type = "application/problem+json"
        ),
        ById, Conflicts, WithBody, AnyPort,
    ),
)]
pub async fn feed<B: Backend>(
    State(backend): State<Arc<B>>,
    Id(id): Id<StreamId>,
    Body(NewEvents { from, events }): Body<NewEvents>,
) -> Result<Json<Fed>, Problem> {
    let routes = pushed(&backend.stack().routes).await?;
    Ok(Json(backend.streaming().feed(routes.as_deref(), &id, from, &events).await??.into()))
}

/// End a stream
///
/// It takes no more events, and is completed when all are settled. The same call again finds it ended.
#[utoipa::path(
    post, path = "/streams/{id}/end", tag = "streams", operation_id = "end_stream",
    params(("id" = String, Path, description = "The stream's name.", pattern = "^[A-Za-z0-9_-]{1,40}$", example = "returns")),
    responses((status = 200, description = "It has ended.", body = Stream), ById, Conflicts, AnyPort),
)]
pub async fn end<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<StreamId>) -> Result<Json<Stream>, Problem> {
    Ok(Json(backend.streaming().end(&id, Ending::Ended).await??.into()))
}

/// Give a stream up
///
/// Its source has failed: it takes no more events, and is never completed. What is settled is committed once more.
#[utoipa::path(
    post, path = "/streams/{id}/fail", tag = "streams", operation_id = "fail_stream",
    params(("id" = String, Path, description = "The stream's name.", pattern = "^[A-Za-z0-9_-]{1,40}$", example = "given-up")),
    responses((status = 200, description = "It is given up.", body = Stream), ById, Conflicts, AnyPort),
)]
pub async fn fail<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<StreamId>) -> Result<Json<Stream>, Problem> {
    Ok(Json(backend.streaming().end(&id, Ending::Failed).await??.into()))
}
