//! One span, and its form for the exporter.

use std::time::{Duration, SystemTime};

use groupage_core::domain::{Timestamp, TraceParent};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// What a span is about, as OpenTelemetry tells spans apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages that came.
    Consumer,
    /// A request to a downstream.
    Client,
    /// Work between the two.
    Internal,
}

/// One span.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its own context.
    pub context: TraceParent,
    /// The span that it is part of.
    pub parent: Option<TraceParent>,
    /// What was done.
    pub name: &'static str,
    /// What it is about.
    pub kind: Kind,
    /// When it began and ended.
    pub took: (SystemTime, SystemTime),
    /// Spans of other traces that it has to do with.
    pub links: Vec<TraceParent>,
    /// More of these, that are not named.
    pub unlinked: usize,
    /// What there is to know of it: ids and counts, and never a payload or a Target.
    pub attributes: Vec<KeyValue>,
    /// Why it failed.
    pub failed: Option<String>,
}

impl Span {
    /// A span of a step that took this long.
    #[must_use]
    pub fn new(name: &'static str, context: TraceParent, (began, ended): (Timestamp, Timestamp)) -> Self {
        let time = |at: Timestamp| SystemTime::UNIX_EPOCH + Duration::from_millis(at.0);
        Self {
            context,
            parent: None,
            name,
            kind: Kind::Internal,
            took: (time(began), time(ended)),
            links: Vec::new(),
            unlinked: 0,
            attributes: Vec::new(),
            failed: None,
        }
    }

    /// The same with one thing more to know.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(name, value));
        self
    }

    pub(super) fn into_data(self) -> SpanData {
        let mut links = SpanLinks::default();
        links.links = self.links.into_iter().map(|link| Link::with_context(context(link, true))).collect();
        links.dropped_count = u32::try_from(self.unlinked).unwrap_or(u32::MAX);
        SpanData {
            span_context: context(self.context, false),
            parent_span_id: self.parent.map_or(SpanId::INVALID, |parent| parent.span().into()),
            parent_span_is_remote: self.parent.is_some(),
            span_kind: match self.kind {
                Kind::Consumer => SpanKind::Consumer,
                Kind::Client => SpanKind::Client,
                Kind::Internal => SpanKind::Internal,
            },
            name: self.name.into(),
            start_time: self.took.0,
            end_time: self.took.1,
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: self.failed.map_or(Status::Unset, Status::error),
            instrumentation_scope: InstrumentationScope::builder("groupage")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

fn context(of: TraceParent, is_remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(of.is_sampled());
    SpanContext::new(TraceId::from(of.trace()), SpanId::from(of.span()), flags, is_remote, TraceState::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(n: u8) -> TraceParent {
        TraceParent::parse(&format!("00-{n:032x}-{n:016x}-01")).unwrap()
    }

    #[test]
    fn a_span_keeps_its_ids_its_parent_and_its_links() {
        let span = Span::new("register", given(1), (Timestamp(5), Timestamp(9))).with("groupage.tasks", 3);
        let span = Span { parent: Some(given(2)), links: vec![given(3), given(4)], unlinked: 7, ..span };
        let data = span.into_data();
        let hex = |n: u8| format!("{n:032x}");
        assert_eq!(data.span_context.trace_id().to_string(), hex(1));
        assert_eq!(data.parent_span_id.to_string(), hex(2)[16..]);
        let links: Vec<String> = data.links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
        assert_eq!((links, data.links.dropped_count), (vec![hex(3), hex(4)], 7));
        assert_eq!(data.end_time.duration_since(data.start_time).unwrap(), Duration::from_millis(4));
    }
}
