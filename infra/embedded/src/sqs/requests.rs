//! SQS requests, counted as AWS bills them.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::HeaderMap;

/// AWS bills an API call once for every started chunk of this many bytes of payload.
const CHUNK_BYTES: u64 = 64 * 1024;

/// What a request does. A batch of ten is one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `SendMessage` or `SendMessageBatch`.
    Send,
    /// `ReceiveMessage`, whether it brought messages or none.
    Receive,
    /// `DeleteMessage` or `DeleteMessageBatch`.
    Delete,
    /// `ChangeMessageVisibility` or its batch.
    ChangeVisibility,
    /// Anything else: creating queues, reading their attributes.
    Other,
}

impl Kind {
    /// Reads it from the request's `X-Amz-Target` header.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let target = headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match target.rsplit('.').next().unwrap_or_default() {
            "SendMessage" | "SendMessageBatch" => Self::Send,
            "ReceiveMessage" => Self::Receive,
            "DeleteMessage" | "DeleteMessageBatch" => Self::Delete,
            "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch" => Self::ChangeVisibility,
            _ => Self::Other,
        }
    }
}

/// Billed requests so far, by kind. Reads are of one moment each, not of one moment together.
#[derive(Debug, Default)]
pub struct Requests {
    send: AtomicU64,
    receive: AtomicU64,
    delete: AtomicU64,
    change_visibility: AtomicU64,
    other: AtomicU64,
}

impl Requests {
    /// Billed requests of one kind.
    pub fn billed(&self, kind: Kind) -> u64 {
        self.counter(kind).load(Ordering::Relaxed)
    }

    /// Billed requests that move messages: all but [`Kind::Other`].
    pub fn billed_for_messages(&self) -> u64 {
        [Kind::Send, Kind::Receive, Kind::Delete, Kind::ChangeVisibility].map(|kind| self.billed(kind)).iter().sum()
    }

    /// Counts one request whose larger side, the request's or the answer's, has `bytes`.
    pub(super) fn add(&self, kind: Kind, bytes: u64) {
        self.counter(kind).fetch_add(bytes.div_ceil(CHUNK_BYTES).max(1), Ordering::Relaxed);
    }

    fn counter(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Send => &self.send,
            Kind::Receive => &self.receive,
            Kind::Delete => &self.delete,
            Kind::ChangeVisibility => &self.change_visibility,
            Kind::Other => &self.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_billed_once_per_started_64_kib() {
        let requests = Requests::default();
        for (bytes, total) in [(0, 1), (CHUNK_BYTES, 2), (CHUNK_BYTES + 1, 4)] {
            requests.add(Kind::Send, bytes);
            assert_eq!(requests.billed(Kind::Send), total, "{bytes} bytes");
        }
        assert_eq!(requests.billed_for_messages(), 4);
        assert_eq!(requests.billed(Kind::Receive), 0);
    }

    #[test]
    fn the_target_header_tells_the_kind() {
        let mut headers = HeaderMap::new();
        assert_eq!(Kind::of(&headers), Kind::Other);
        headers.insert("x-amz-target", "AmazonSQS.DeleteMessageBatch".parse().unwrap());
        assert_eq!(Kind::of(&headers), Kind::Delete);
    }
}
