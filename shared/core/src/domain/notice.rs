//! What people's programs are told, as CloudEvents 1.0 in JSON: one event for each settled task whose route asks for
//! it, one for each tracker that has ended, one for each commit of a stream that asks for it, and one each for the
//! beginning and the end of an outage.
//!
//! An event's id is derived from what it tells, so that a receiver can drop a repeat.

use serde::Serialize;

pub use super::destination::NotificationQueue;
use super::gate::{Event, OutboxEntry, Scope};
use super::id::{BatchId, Round, RouteName, StreamId, Target, TaskId, TrackerId};
use super::outcome::Reason;
use super::output::Output;
use super::stream::{Offset, Stream};
use super::time::Timestamp;
use super::tracker::{End, Ending, ItemId, ItemRange, Tracker};

/// A CloudEvents 1.0 event in its JSON format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CloudEvent<D> {
    specversion: &'static str,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: &'static str,
    subject: String,
    time: String,
    datacontenttype: &'static str,
    data: D,
}

/// What is told of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfTask {
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// The task that is called in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    /// The output that its downstream gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
    /// The size of an output that is too large to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_omitted_bytes: Option<u64>,
}

/// What a failed task's initiator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// Calls it was part of, over all rounds.
    pub attempts: u32,
}

/// The event's `type` for a task that succeeded.
pub const SUCCEEDED: &str = "groupage.task.succeeded.v1";
/// The event's `type` for a task that failed.
pub const FAILED: &str = "groupage.task.failed.v1";

/// Why a notice is in the rejected queue.
pub const UNDELIVERABLE: &str = "notice_undeliverable";
/// For so long a queue may refuse a notice, in milliseconds: a day.
const UNDELIVERABLE_MS: u64 = 24 * 60 * 60 * 1_000;

/// Whether a notice of what was settled then, and is refused still, is to go to the rejected queue.
pub fn is_undeliverable(settled_at: Timestamp, now: Timestamp) -> bool {
    now.since(settled_at) >= UNDELIVERABLE_MS
}

/// A task that is settled.
#[derive(Clone, Copy, Debug)]
pub struct Settled<'a> {
    /// The task.
    pub task: &'a TaskId,
    /// What it is, or would have been, grouped by.
    pub target: &'a Target,
    /// The batch that settled it, if one did.
    pub batch: Option<&'a BatchId>,
    /// The round in which it was settled.
    pub round: Round,
    /// The newer task that is called in its place, if one is.
    pub superseded_by: Option<&'a TaskId>,
    /// The output that its downstream gave, if it gave one.
    pub output: Option<&'a Output>,
}

/// The notice of one settled task; `failure` is `None` if it succeeded.
pub fn of_task(settled: Settled<'_>, failure: Option<&Failure>, at: Timestamp) -> CloudEvent<OfTask> {
    let Settled { task, target, batch, round, superseded_by, output } = settled;
    let by = match (batch, round) {
        (Some(batch), _) => batch.to_string(),
        (None, Round(0)) => "queued".to_owned(),
        // It was run again since, and has ended again.
        (None, round) => format!("queued-{round}"),
    };
    CloudEvent {
        specversion: "1.0",
        id: format!("{by}/{task}"),
        source: format!("groupage/{}", target.route()),
        kind: if failure.is_some() { FAILED } else { SUCCEEDED },
        subject: task.to_string(),
        time: at.shown(),
        datacontenttype: "application/json",
        data: OfTask {
            task: task.to_string(),
            batch: batch.map(ToString::to_string),
            target: target.value().to_owned(),
            reason: failure.map(|failure| failure.reason.clone()),
            attempts: failure.map(|failure| failure.attempts),
            superseded_by: superseded_by.map(ToString::to_string),
            output: output.filter(|output| output.omitted_bytes().is_none()).cloned(),
            output_omitted_bytes: output.and_then(Output::omitted_bytes),
        },
    }
}

/// What is told of a tracker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfTracker {
    tracker: TrackerId,
    items: u64,
    succeeded: u64,
    failed: u64,
    missing: u64,
    /// The first that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed_items: Vec<ItemId>,
    /// The first that are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_items: Vec<ItemRange>,
    /// Whether more failed, or are missing, than are named here; the tracker's items list them all, page by page.
    more: bool,
}

/// The notice of a tracker's end, with the first of its failed items; it is the same however often it is made.
pub fn of_tracker(tracker: &Tracker, end: &End, failed_items: Vec<ItemId>) -> CloudEvent<OfTracker> {
    let named = end.missing_items.iter().map(ItemRange::len).sum::<u64>();
    let more = end.failed > failed_items.len() as u64 || end.missing > named;
    CloudEvent {
        specversion: "1.0",
        // Its opening goes in, too: the id of a tracker that was removed may be used again.
        id: format!("tracker/{}/{}", tracker.id, tracker.opened_at.0),
        source: "groupage/trackers".to_owned(),
        kind: match end.how {
            Ending::Completed => "groupage.tracker.completed.v1",
            Ending::Overdue => "groupage.tracker.overdue.v1",
            Ending::Abandoned => "groupage.tracker.abandoned.v1",
        },
        subject: tracker.id.to_string(),
        time: end.at.shown(),
        datacontenttype: "application/json",
        data: OfTracker {
            tracker: tracker.id.clone(),
            items: tracker.items,
            succeeded: tracker.items - end.failed - end.missing,
            failed: end.failed,
            missing: end.missing,
            failed_items,
            missing_items: end.missing_items.clone(),
            more,
        },
    }
}

/// What is told of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfStream {
    stream: StreamId,
    state: &'static str,
    watermark: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<Offset>,
    settled: u64,
    failed: u64,
}

/// The notice of a stream's last commit. Notices may come in another order than they were sent: the highest watermark
/// counts.
pub fn of_stream(stream: &Stream) -> CloudEvent<OfStream> {
    let (life, watermark, state) = (&stream.life, &stream.watermark, stream.state.word());
    CloudEvent {
        specversion: "1.0",
        // Its opening goes in, too: the name of a stream that was removed may be used again.
        // Every commit is told as a text of its own, even if the watermark stays: more may be settled behind it.
        id: format!("stream/{}/{}/{}", life.id, life.opened_at.0, stream.revision),
        source: "groupage/streams".to_owned(),
        kind: "groupage.stream.committed.v1",
        subject: life.id.to_string(),
        time: watermark.at.shown(),
        datacontenttype: "application/json",
        data: OfStream {
            stream: life.id.clone(),
            state,
            watermark: watermark.number,
            offset: watermark.offset.clone(),
            settled: watermark.settled,
            failed: watermark.failed,
        },
    }
}

/// The event's `type` when a downstream begins to count as away.
pub const OUTAGE_BEGAN: &str = "groupage.outage.began.v1";
/// The event's `type` when it answers again, or a person lets calls go on.
pub const OUTAGE_ENDED: &str = "groupage.outage.ended.v1";

/// What is told of an outage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfOutage {
    route: RouteName,
    /// If each Target of the route has a breaker of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Why the call failed with which it began.
    reason: Reason,
    /// What to change in the route, if its settings are at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    /// Since when no call was answered.
    since: String,
}

/// The notice of an outage behind the gate of this scope.
pub fn of_outage(scope: &Scope, entry: &OutboxEntry, event: Event) -> CloudEvent<OfOutage> {
    let (route, target) = match scope {
        Scope::Route(route) => (route.clone(), None),
        Scope::Target(target) => (target.route(), Some(target.value().to_owned())),
        // It has no breaker.
        Scope::Limit(limit) => (RouteName::new(limit.as_str()), None),
    };
    let (word, kind) = match event {
        Event::Began => ("began", OUTAGE_BEGAN),
        Event::Ended => ("ended", OUTAGE_ENDED),
    };
    CloudEvent {
        specversion: "1.0",
        id: format!("outage/{}/{}/{word}", scope.key(), entry.since.0),
        source: format!("groupage/{route}"),
        kind,
        subject: target.clone().unwrap_or_else(|| route.to_string()),
        time: entry.at(event).shown(),
        datacontenttype: "application/json",
        data: OfOutage {
            route,
            target,
            reason: entry.reason.clone(),
            change: entry.reason.remedy(),
            since: entry.since.shown(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::RouteName;
    use crate::domain::stream::{self, Watermark};
    use crate::domain::tracker;

    #[test]
    fn a_queue_may_refuse_a_notice_for_a_day() {
        assert!(!is_undeliverable(Timestamp(5), Timestamp(5 + UNDELIVERABLE_MS - 1)));
        assert!(is_undeliverable(Timestamp(5), Timestamp(5 + UNDELIVERABLE_MS)));
    }

    #[test]
    fn a_notice_is_a_cloudevent_with_an_id_that_a_repeat_shares() {
        let target = Target::of(&RouteName::new("parcels"), "truck-7");
        let (task, batch) = (TaskId::new("t1"), BatchId::new("b1"));
        let output = Output::of(r#"{"why": "over 30 kg"}"#.to_owned());
        let settled = Settled {
            task: &task,
            target: &target,
            batch: Some(&batch),
            round: Round(2),
            superseded_by: None,
            output: Some(&output),
        };
        let failure = Failure { reason: Reason::new("too_heavy"), attempts: 2 };
        let event = of_task(settled, Some(&failure), Timestamp(1_000));
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["specversion"], "1.0");
        assert_eq!(json["id"], "b1/t1");
        assert_eq!(json["source"], "groupage/parcels");
        assert_eq!(json["type"], FAILED);
        assert_eq!(json["time"], "1970-01-01T00:00:01.000Z");
        assert_eq!(
            (&json["data"]["reason"], &json["data"]["output"]["why"]),
            (&"too_heavy".into(), &"over 30 kg".into())
        );
        assert_eq!(of_task(settled, Some(&failure), Timestamp(1_000)), event);
        // Without a batch its round tells what it was told before from what it is told now.
        let id = |round| of_task(Settled { batch: None, round, ..settled }, Some(&failure), Timestamp(1_000)).id;
        assert_eq!([id(Round(0)), id(Round(2))], ["queued/t1", "queued-2/t1"]);
    }

    #[test]
    fn a_trackers_notice_adds_up_and_says_whether_it_names_all() {
        let options = tracker::Options { deadline: None, notify: NotificationQueue::None };
        let tracker = Tracker { items: 100, ..Tracker::open(TrackerId::new("t"), options, Timestamp(7)) };
        let notice = |failed, missing| {
            let end = End {
                how: Ending::Overdue,
                at: Timestamp(1_000),
                failed,
                missing,
                missing_items: vec![ItemRange::parse("t:0:0-19").unwrap()],
                failed_items: Vec::new(),
                told: false,
            };
            let event = of_tracker(&tracker, &end, vec![ItemId::parse("t:0:30").unwrap()]);
            serde_json::to_value(event).unwrap()
        };
        for (failed, missing, succeeded, more) in [(1, 20, 79, false), (2, 20, 78, true), (1, 21, 78, true)] {
            let event = notice(failed, missing);
            assert_eq!((&event["id"], &event["time"]), (&"tracker/t/7".into(), &"1970-01-01T00:00:01.000Z".into()));
            assert_eq!((&event["data"]["succeeded"], &event["data"]["more"]), (&succeeded.into(), &more.into()));
        }
    }

    #[test]
    fn a_streams_notice_has_an_id_for_each_commit() {
        let opened = Stream::open(StreamId::new("s"), stream::Options::default(), Timestamp(7));
        let found = |number| Watermark { number, settled: number, at: Timestamp(2_000), ..Watermark::default() };
        let once = Stream { next: 9, ..opened }.reached(found(3)).unwrap();
        let [first, again, second] = [&once, &once, &once.reached(found(4)).unwrap()].map(of_stream);
        assert_eq!((first.id.as_str(), first.data.watermark), ("stream/s/7/2", 3));
        assert_eq!(again, first);
        assert_ne!(second.id, first.id);
    }

    #[test]
    fn an_outage_is_told_when_it_begins_and_when_it_ends() {
        let entry = OutboxEntry {
            since: Timestamp(1_000),
            began: Timestamp(2_000),
            reason: Reason::new("http_503"),
            is_notified: true,
            ended: Some(Timestamp(9_000)),
            retry_at: None,
        };
        let (parcels, target) = (RouteName::new("parcels"), Target::of(&RouteName::new("parcels"), "truck-7"));
        let json = |scope, event| serde_json::to_value(of_outage(&scope, &entry, event)).unwrap();
        let began = json(Scope::Route(parcels), Event::Began);
        assert_eq!((&began["id"], &began["type"]), (&"outage/#route:parcels/1000/began".into(), &OUTAGE_BEGAN.into()));
        assert_eq!((&began["subject"], &began["time"]), (&"parcels".into(), &"1970-01-01T00:00:02.000Z".into()));
        let data = serde_json::json!({"route": "parcels", "reason": "http_503", "since": "1970-01-01T00:00:01.000Z"});
        assert_eq!(began["data"], data);
        let ended = json(Scope::Target(target), Event::Ended);
        assert_eq!((&ended["type"], &ended["data"]["target"]), (&OUTAGE_ENDED.into(), &"truck-7".into()));
        assert_eq!((&ended["subject"], &ended["time"]), (&"truck-7".into(), &"1970-01-01T00:00:09.000Z".into()));
    }
}
