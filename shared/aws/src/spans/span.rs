//! One span.

use std::time::{Duration, SystemTime};

use groupage_core::domain::{Timestamp, TraceParent};
use opentelemetry::{KeyValue, Value};

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
#[must_use]
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
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push(KeyValue::new(name, value));
        self
    }
}
