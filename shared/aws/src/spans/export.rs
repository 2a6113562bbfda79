//! The exporter of OpenTelemetry's SDK, and a span's form for it.

use groupage_core::domain::TraceParent;
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};

use super::{Kind, PATIENCE, Span};
use crate::downstreams::tls;

const SERVICE: &str = "OTEL_SERVICE_NAME";

/// A connection to a collector.
#[derive(Debug)]
pub(super) struct Exporter(SpanExporter);

impl Exporter {
    /// Connects as calls do: with rustls and the machine's root certificates, by no proxy, and with no redirect.
    pub(super) fn to(address: Option<&str>) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls().map_err(|error| error.to_string())?)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        // One that does not answer is not asked again at once.
        let exporter = SpanExporter::builder().with_http().with_http_client(client);
        let exporter = exporter.with_retry_policy(RetryPolicy::disabled());
        let exporter = match address {
            Some(address) => exporter.with_endpoint(address),
            None => exporter,
        };
        let mut exporter = exporter.build().map_err(|error| error.to_string())?;
        exporter.set_resource(&resource());
        Ok(Self(exporter))
    }

    pub(super) async fn export(&self, spans: Vec<Span>) -> Result<(), String> {
        self.0.export(spans.into_iter().map(data).collect()).await.map_err(|error| error.to_string())
    }
}

/// Which service the spans are of, as the environment says it, and which function.
fn resource() -> Resource {
    let mut resource = Resource::builder();
    if std::env::var_os(SERVICE).is_none() {
        resource = resource.with_service_name("groupage");
    }
    let function = std::env::var("AWS_LAMBDA_FUNCTION_NAME").ok();
    resource.with_attributes(function.map(|name| KeyValue::new("faas.name", name))).build()
}

fn data(span: Span) -> SpanData {
    let mut links = SpanLinks::default();
    links.links = span.links.into_iter().map(|link| Link::with_context(context(link, true))).collect();
    links.dropped_count = u32::try_from(span.unlinked).unwrap_or(u32::MAX);
    SpanData {
        span_context: context(span.context, false),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| parent.span().into()),
        parent_span_is_remote: span.parent.is_some(),
        span_kind: match span.kind {
            Kind::Consumer => SpanKind::Consumer,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        },
        name: span.name.into(),
        start_time: span.took.0,
        end_time: span.took.1,
        attributes: span.attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: span.failed.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("groupage")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn context(of: TraceParent, is_remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(of.is_sampled());
    SpanContext::new(TraceId::from(of.trace()), SpanId::from(of.span()), flags, is_remote, TraceState::NONE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use groupage_core::domain::Timestamp;

    use super::*;

    fn given(n: u8) -> TraceParent {
        TraceParent::parse(&format!("00-{n:032x}-{n:016x}-01")).unwrap()
    }

    #[test]
    fn a_span_keeps_its_ids_its_parent_and_its_links() {
        let span = Span::new("register", given(1), (Timestamp(5), Timestamp(9))).with("groupage.tasks", 3);
        let span = Span { parent: Some(given(2)), links: vec![given(3), given(4)], unlinked: 7, ..span };
        let data = data(span);
        let hex = |n: u8| format!("{n:032x}");
        assert_eq!(data.span_context.trace_id().to_string(), hex(1));
        assert_eq!(data.parent_span_id.to_string(), hex(2)[16..]);
        let links: Vec<String> = data.links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
        assert_eq!((links, data.links.dropped_count), (vec![hex(3), hex(4)], 7));
        assert_eq!(data.end_time.duration_since(data.start_time).unwrap(), Duration::from_millis(4));
    }
}
