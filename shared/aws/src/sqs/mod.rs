//! SQS: sending and postponing messages, in tens.

mod bundles;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, MessageAttributeValue,
    SendMessageBatchRequestEntry,
};
use bundles::{Bundle, MAX_ENTRIES, bundles};
use futures::{FutureExt, StreamExt, stream};
use groupage_core::domain::id::digest;
use groupage_core::domain::{LaneId, NotificationQueue};
use groupage_core::ports::{Destination, Error, Inbox, Outbox, Outgoing, Result};

use crate::config::Queues;
use crate::fault::{failed, passes};
use crate::meter::{Meter, SqsRequest};

pub use bundles::requests;

const SEND: &str = "send messages";
const POSTPONE: &str = "postpone messages";

/// How the code ends, by which SQS says that a message is in nobody's hands any more.
const NOT_IN_HAND: &str = "MessageNotInflight";
/// How it begins, and what the message says, if the message is gone altogether. The same code says that a receipt is
/// none, so it does not do alone.
const NO_SUCH_VALUE: &str = "InvalidParameterValue";
const GONE: &str = "not available for visibility timeout change";

/// An attribute's type.
const STRING: &str = "String";
/// Of one step's requests, this many are under way at once.
pub const REQUESTS_IN_FLIGHT: usize = 8;
/// SQS delays a message for 15 minutes at most.
const MAX_DELAY_S: u64 = 900;
/// And hides a received one for 12 hours at most.
const MAX_VISIBILITY_S: u64 = 43_200;

/// The ports `Outbox` and `Inbox` in SQS.
#[derive(Clone, Debug)]
pub struct Sqs {
    client: Client,
    queues: Queues,
    meter: Arc<Meter>,
}

impl Sqs {
    /// The queues at these URLs.
    pub fn new(config: &SdkConfig, queues: Queues, meter: Arc<Meter>) -> Self {
        Self { client: Client::new(config), queues, meter }
    }

    /// A destination's queue; `None` for notifications that nobody wants.
    fn url<'a>(&'a self, to: &'a Destination) -> Option<&'a str> {
        match to {
            Destination::Tasks => Some(&self.queues.tasks),
            Destination::InOrder(_) | Destination::Gather(_) => Some(&self.queues.in_order),
            Destination::Elect => Some(&self.queues.elect),
            Destination::Group => Some(&self.queues.group),
            Destination::Handle => Some(&self.queues.handle),
            Destination::LongHandle => Some(&self.queues.long_handle),
            Destination::Rejected => Some(&self.queues.rejected),
            Destination::Notification(NotificationQueue::Default) => Some(&self.queues.notifications),
            Destination::Notification(NotificationQueue::None) => None,
            Destination::Notification(NotificationQueue::Url(url)) => Some(url),
        }
    }

    async fn send_bundle(&self, url: &str, bundle: Bundle) -> Vec<(usize, Result<()>)> {
        let positions: Vec<usize> = bundle.messages.iter().map(|(position, _)| *position).collect();
        let to_all = |error: &dyn Fn() -> Error| positions.iter().map(|at| (*at, Err(error()))).collect();
        let entries: Result<Vec<_>> = bundle.messages.into_iter().map(|(at, message)| entry(at, message)).collect();
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return to_all(&|| Error::Broken { what: SEND, why: error.to_string() }),
        };
        self.meter.count_sqs(SqsRequest::Send, bundle.bytes as u64);
        match self.client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().boxed().await {
            Ok(output) => positions.iter().map(|at| (*at, outcome(*at, &output))).collect(),
            Err(error) => {
                let error = failed(SEND, error);
                to_all(&|| error.clone())
            }
        }
    }
}

impl Outbox for Sqs {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let mut outcomes: BTreeMap<usize, Result<()>> = BTreeMap::new();
        let mut stopped: HashMap<LaneId, Error> = HashMap::new();
        for wave in waves(messages) {
            let lanes: HashMap<usize, LaneId> =
                wave.iter().filter_map(|(at, message)| Some((*at, message.to.lane()?.clone()))).collect();
            let (behind, wave): (Vec<_>, Vec<_>) =
                wave.into_iter().partition(|(at, _)| lanes.get(at).is_some_and(|lane| stopped.contains_key(lane)));
            outcomes.extend(behind.iter().filter_map(|(at, _)| Some((*at, Err(stopped.get(lanes.get(at)?)?.clone())))));
            for (at, outcome) in self.send_wave(wave).await {
                if let (Err(error), Some(lane)) = (&outcome, lanes.get(&at)) {
                    stopped.insert(lane.clone(), error.clone());
                }
                outcomes.insert(at, outcome);
            }
        }
        outcomes.into_values().collect()
    }
}

impl Sqs {
    /// Sends messages in any order.
    async fn send_wave(&self, messages: Vec<(usize, Outgoing)>) -> Vec<(usize, Result<()>)> {
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut by_queue: BTreeMap<String, Vec<(usize, Outgoing)>> = BTreeMap::new();
        for (at, message) in messages {
            match self.url(&message.to).map(str::to_owned) {
                Some(url) => by_queue.entry(url).or_default().push((at, message)),
                None => outcomes.push((at, Ok(()))),
            }
        }
        let requests = by_queue
            .into_iter()
            .flat_map(|(url, messages)| bundles(messages).into_iter().map(move |bundle| (url.clone(), bundle)));
        let sent: Vec<_> = stream::iter(requests)
            .map(|(url, bundle)| async move { self.send_bundle(&url, bundle).await })
            .buffer_unordered(REQUESTS_IN_FLIGHT)
            .collect()
            .await;
        outcomes.extend(sent.into_iter().flatten());
        outcomes
    }
}

/// Messages with their places, so that each set holds one of a lane at most: a request may fail for one message and
/// succeed for the next.
fn waves(messages: Vec<Outgoing>) -> Vec<Vec<(usize, Outgoing)>> {
    let mut before: HashMap<LaneId, usize> = HashMap::new();
    let mut waves: Vec<Vec<(usize, Outgoing)>> = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        let wave = message.to.lane().map_or(0, |lane| {
            let before = before.entry(lane.clone()).or_default();
            *before += 1;
            *before - 1
        });
        if waves.len() == wave {
            waves.push(Vec::new());
        }
        waves[wave].push((at, message));
    }
    waves
}

impl Inbox for Sqs {
    async fn postpone(&self, from: &Destination, receipts: Vec<String>, delay_ms: u64) -> Vec<Result<()>> {
        let Some(url) = self.url(from) else { return receipts.iter().map(|_| Ok(())).collect() };
        let seconds = i32::try_from(delay_ms.div_ceil(1000).min(MAX_VISIBILITY_S)).unwrap_or(i32::MAX);
        let mut outcomes = Vec::with_capacity(receipts.len());
        for some in receipts.chunks(MAX_ENTRIES) {
            outcomes.extend(self.postpone_some(url, some, seconds).await);
        }
        outcomes
    }
}

impl Sqs {
    /// Postpones as many messages as go in one request.
    async fn postpone_some(&self, url: &str, receipts: &[String], seconds: i32) -> Vec<Result<()>> {
        let to_all = |error: Error| receipts.iter().map(|_| Err(error.clone())).collect();
        let entry = |(at, receipt): (usize, &String)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(at.to_string())
                .receipt_handle(receipt)
                .visibility_timeout(seconds)
                .build()
        };
        let entries = match receipts.iter().enumerate().map(entry).collect::<std::result::Result<Vec<_>, _>>() {
            Ok(entries) => entries,
            Err(error) => return to_all(Error::Broken { what: POSTPONE, why: error.to_string() }),
        };
        self.meter.count_sqs(SqsRequest::ChangeVisibility, 0);
        let request = self.client.change_message_visibility_batch().queue_url(url).set_entries(Some(entries));
        match request.send().boxed().await {
            Ok(output) => (0..receipts.len()).map(|at| postponed(at, output.failed())).collect(),
            Err(error) => to_all(failed(POSTPONE, error)),
        }
    }
}

/// What an answer that lists what failed says of one entry that was to be postponed.
fn postponed(at: usize, refused: &[BatchResultErrorEntry]) -> Result<()> {
    let id = at.to_string();
    match refused.iter().find(|refused| refused.id() == id) {
        Some(refused) if !is_out_of_hand(refused) => Err(refusal(POSTPONE, refused)),
        Some(_) | None => Ok(()),
    }
}

/// Whether a message's time ran out, so that it comes again by itself, only sooner; or somebody has deleted it.
fn is_out_of_hand(refused: &BatchResultErrorEntry) -> bool {
    let is_gone = || refused.message().is_some_and(|message| message.contains(GONE));
    let code = refused.code();
    code.ends_with(NOT_IN_HAND) || (code.contains(NO_SUCH_VALUE) && is_gone())
}

fn entry(at: usize, message: Outgoing) -> Result<SendMessageBatchRequestEntry> {
    let broken = |error: aws_sdk_sqs::error::BuildError| Error::Broken { what: SEND, why: error.to_string() };
    let delay_s = message.delay_ms.div_ceil(1000).min(MAX_DELAY_S);
    let entry = SendMessageBatchRequestEntry::builder().id(at.to_string()).message_body(message.body);
    let mut entry = match message.to.group() {
        // SQS drops what it has seen in the last five minutes, by its content if nothing else tells it apart; repeats
        // are recognised by their tasks' ids instead.
        Some(group) => entry.message_group_id(group).message_deduplication_id(uuid::Uuid::new_v4().to_string()),
        // On a standard queue a group keeps no order: it says among whom the queue is fair. A digest, since SQS takes
        // no names of over 128 characters, and not all characters.
        None => entry
            .delay_seconds(i32::try_from(delay_s).unwrap_or(i32::MAX))
            .set_message_group_id(message.tenant.map(|tenant| digest(&["tenant", &tenant]))),
    };
    for (name, value) in message.attributes {
        let value = MessageAttributeValue::builder().data_type(STRING).string_value(value).build().map_err(broken)?;
        entry = entry.message_attributes(name, value);
    }
    entry.build().map_err(broken)
}

/// What an answer says of one entry.
fn outcome(at: usize, output: &SendMessageBatchOutput) -> Result<()> {
    let id = at.to_string();
    if output.successful().iter().any(|sent| sent.id() == id) {
        return Ok(());
    }
    let Some(refused) = output.failed().iter().find(|refused| refused.id() == id) else {
        return Err(Error::Unavailable { what: SEND, why: "the answer passes a message over".to_owned() });
    };
    Err(refusal(SEND, refused))
}

/// The port's error for an entry that failed.
fn refusal(what: &'static str, refused: &BatchResultErrorEntry) -> Error {
    let why = format!("{}: {}", refused.code(), refused.message().unwrap_or("no message"));
    let status = if refused.sender_fault() { 400 } else { 500 };
    if passes(refused.code(), status) { Error::Unavailable { what, why } } else { Error::Broken { what, why } }
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::types::SendMessageBatchResultEntry;

    use super::*;

    pub(super) fn message(body_bytes: usize) -> Outgoing {
        let body = "x".repeat(body_bytes);
        Outgoing { to: Destination::Elect, body, delay_ms: 0, attributes: Vec::new(), tenant: None }
    }

    #[test]
    fn messages_of_one_lane_go_one_after_the_other() {
        let lane = |key: &str| Destination::InOrder(LaneId::new(format!("r:{key}")));
        let to = [lane("a"), Destination::Elect, lane("a"), lane("b"), Destination::Elect, lane("a")];
        let messages = to.into_iter().map(|to| Outgoing { to, ..message(1) }).collect();
        let places: Vec<Vec<usize>> =
            waves(messages).into_iter().map(|wave| wave.into_iter().map(|(at, _)| at).collect()).collect();
        assert_eq!(places, [vec![0, 1, 3, 4], vec![2], vec![5]]);
    }

    #[test]
    fn a_tenant_is_a_group_of_a_standard_queue_that_keeps_no_order() {
        let of = |to: Destination, tenant: Option<&str>| {
            entry(0, Outgoing { to, tenant: tenant.map(str::to_owned), ..message(1) }).unwrap()
        };
        let [one, same, other] = ["r:a", "r:a", "r:b"].map(|tenant| of(Destination::Elect, Some(tenant)));
        assert_eq!(one.message_group_id().map(str::len), Some(32), "whatever the Target is called");
        assert_eq!(one.message_group_id(), same.message_group_id());
        assert_ne!(one.message_group_id(), other.message_group_id());
        assert_eq!((one.message_deduplication_id(), one.delay_seconds()), (None, Some(0)));
        assert_eq!(of(Destination::Elect, None).message_group_id(), None);
        let in_order = of(Destination::InOrder(LaneId::new("r:a".to_owned())), Some("r:b"));
        assert_eq!(in_order.message_group_id(), Destination::InOrder(LaneId::new("r:a".to_owned())).group().as_deref());
    }

    #[test]
    fn a_delay_is_rounded_up_to_whole_seconds_and_ends_at_fifteen_minutes() {
        for (delay_ms, seconds) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (10_000_000, 900)] {
            let entry = entry(0, Outgoing { delay_ms, ..message(1) }).unwrap();
            assert_eq!(entry.delay_seconds(), Some(seconds));
        }
    }

    #[test]
    fn a_message_that_is_in_nobodys_hands_is_postponed_and_one_with_a_wrong_receipt_is_not() {
        let refused = |code: &str, message: &str| {
            let refused = BatchResultErrorEntry::builder().id("0").code(code).message(message).sender_fault(true);
            postponed(0, &[refused.build().unwrap()])
        };
        let gone = "Value r for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
            for visibility timeout change.";
        assert!(refused("MessageNotInflight", "").is_ok());
        assert!(refused("AWS.SimpleQueueService.MessageNotInflight", "").is_ok());
        assert!(
            refused("InvalidParameterValue", gone).is_ok() && refused("InvalidParameterValueException", gone).is_ok()
        );
        let wrong = "Value r for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
        assert!(matches!(refused("InvalidParameterValue", wrong), Err(Error::Broken { .. })));
    }

    #[test]
    fn each_entry_of_an_answer_speaks_for_itself() {
        let sent = SendMessageBatchResultEntry::builder().id("0").message_id("m").md5_of_message_body("d");
        let refused = |id: &str, code: &str, sender: bool| {
            BatchResultErrorEntry::builder().id(id).code(code).sender_fault(sender).build().unwrap()
        };
        let output = SendMessageBatchOutput::builder()
            .successful(sent.build().unwrap())
            .failed(refused("1", "InternalError", false))
            .failed(refused("2", "InvalidMessageContents", true))
            .failed(refused("3", "RequestThrottled", true))
            .build()
            .unwrap();
        assert!(outcome(0, &output).is_ok());
        assert!(matches!(outcome(1, &output), Err(Error::Unavailable { .. })));
        assert!(matches!(outcome(2, &output), Err(Error::Broken { .. })));
        assert!(matches!(outcome(3, &output), Err(Error::Unavailable { .. })));
        assert!(matches!(outcome(4, &output), Err(Error::Unavailable { .. })));
    }
}
