//! Spans of the steps, on their way to a collector that speaks OTLP over HTTP.
//!
//! They are off unless `OTEL_EXPORTER_OTLP_ENDPOINT` says where the collector is. A step [notes](Spans::note) its spans
//! when it is done, and the process sends them at the end of an event, or each second. What the collector does harms
//! no task: a request ends after [`PATIENCE`], and one that failed is the last for [`REST`]. Meanwhile spans are kept
//! up to [`MOST`]. Those beyond are counted and dropped.
//!
//! The ids of spans follow from batches, workflows and messages (`groupage_core::domain::trace`), so no process has to
//! tell another. The tracer of OpenTelemetry's SDK gives random ids, and a thread sends its batches that stands still
//! while a function's environment does. So only its exporter is used. It encodes spans, and reads the variables that
//! say how to reach a collector.

mod called;
#[cfg_attr(not(feature = "full"), path = "no_export.rs")]
mod export;
mod span;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::warn;

use self::export::Exporter;
pub use called::Traced;
pub use span::{Kind, Span};

/// The longest that a request to the collector may take.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long a collector that did not take spans is left alone.
pub const REST: Duration = Duration::from_secs(60);
/// Spans that are kept for the next request at most.
pub const MOST: usize = 2_048;
/// How often a process that is no function sends what it has.
const EVERY: Duration = Duration::from_secs(1);

/// The variables that name a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// Where spans go; nowhere by default.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Spans(Option<Arc<Collector>>);

#[derive(Debug, Default)]
struct Collector {
    /// The request's address; without one, the variables say it.
    address: Option<String>,
    kept: Mutex<Kept>,
    /// One request at a time.
    way: tokio::sync::Mutex<Way>,
}

#[derive(Debug, Default)]
struct Kept {
    spans: Vec<Span>,
    dropped: usize,
}

/// The way to the collector, made at the first request.
#[derive(Debug, Default)]
struct Way {
    exporter: Option<Exporter>,
    rests_until: Option<Instant>,
}

impl Spans {
    /// To the collector that the environment names, if it names one.
    pub fn from_env() -> Self {
        let is_set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
        Self(ENDPOINTS.iter().any(is_set).then(Arc::default))
    }

    /// To the collector at this base URL.
    pub fn to(endpoint: &str) -> Self {
        let address = Some(format!("{}/v1/traces", endpoint.trim_end_matches('/')));
        Self(Some(Arc::new(Collector { address, ..Collector::default() })))
    }

    /// Whether there is a collector.
    pub const fn are_collected(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a span for the next request, if its trace is sampled.
    pub fn note(&self, span: Span) {
        let Some(collector) = self.0.as_ref().filter(|_| span.context.is_sampled()) else { return };
        let mut kept = collector.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.spans.len() < MOST {
            kept.spans.push(span);
        } else {
            kept.dropped += 1;
        }
    }

    /// Sends what is kept. Whatever becomes of it, this is over in little more than [`PATIENCE`].
    pub async fn flush(&self) {
        let Some(collector) = &self.0 else { return };
        let mut way = collector.way.lock().await;
        if way.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let Kept { spans, dropped } =
            std::mem::take(&mut *collector.kept.lock().unwrap_or_else(PoisonError::into_inner));
        if spans.is_empty() {
            return;
        }
        let count = spans.len();
        let sent = match tokio::time::timeout(PATIENCE, way.send(collector.address.as_deref(), spans)).await {
            Ok(sent) => sent,
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        way.rests_until = sent.is_err().then(|| Instant::now() + REST);
        if let Err(error) = sent {
            warn!(spans = count, error, "the collector did not take these spans; they are lost, and it is left alone");
        }
        if dropped > 0 {
            warn!(spans = dropped, "more spans came than are kept for one request; these are lost");
        }
    }

    /// Sends what is kept again and again, until it is dropped.
    pub async fn keep_sending(&self) {
        if !self.are_collected() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(EVERY).await;
            self.flush().await;
        }
    }
}

impl Way {
    async fn send(&mut self, address: Option<&str>, spans: Vec<Span>) -> Result<(), String> {
        let exporter = match self.exporter.take() {
            Some(exporter) => exporter,
            None => Exporter::to(address)?,
        };
        self.exporter.insert(exporter).export(spans).await
    }
}

#[cfg(test)]
mod tests {
    use groupage_core::domain::{Timestamp, TraceParent};

    use super::*;

    fn span(flags: u8) -> Span {
        let context = format!("00-{:032x}-{:016x}-{flags:02x}", 1, 1);
        Span::new("test", TraceParent::parse(&context).unwrap(), (Timestamp(0), Timestamp(1)))
    }

    fn kept(spans: &Spans) -> (usize, usize) {
        let kept = spans.0.as_ref().unwrap().kept.lock().unwrap();
        (kept.spans.len(), kept.dropped)
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_nobody_samples_is_not_kept() {
        let spans = Spans::to("http://collector.invalid");
        spans.note(span(0));
        assert_eq!(kept(&spans), (0, 0));
        for _ in 0..MOST + 3 {
            spans.note(span(1));
        }
        assert_eq!(kept(&spans), (MOST, 3));
    }

    #[test]
    fn without_a_collector_nothing_is_kept() {
        let spans = Spans::default();
        spans.note(span(1));
        assert!(!spans.are_collected() && spans.0.is_none());
    }
}
