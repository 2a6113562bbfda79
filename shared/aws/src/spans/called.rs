//! Calls of downstreams, each with a span.

use std::time::SystemTime;

use groupage_core::domain::Timestamp;
use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};

use super::{Kind, Span, Spans};

/// Downstreams whose calls have spans.
#[derive(Debug)]
pub struct Traced<D> {
    inner: D,
    spans: Spans,
}

impl<D> Traced<D> {
    /// Those of `inner`.
    pub const fn new(inner: D, spans: Spans) -> Self {
        Self { inner, spans }
    }
}

impl<D: Downstream> Downstream for Traced<D> {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let began = SystemTime::now();
        let answer = self.inner.call(call).await;
        if let Some(trace) = &call.trace {
            let span = Span::new("groupage call", trace.context, (Timestamp(0), Timestamp(0)))
                .with("groupage.batch", call.batch.as_str().to_owned())
                .with("groupage.attempt", i64::from(call.attempt));
            let span = match &answer {
                Ok(answer) => span.with("http.response.status_code", i64::from(answer.status)),
                Err(_) => span,
            };
            let failed = match &answer {
                Ok(answer) if answer.status < 400 => None,
                Ok(answer) => Some(format!("http_{}", answer.status)),
                Err(no_answer) => Some(why(no_answer)),
            };
            self.spans.note(Span {
                kind: Kind::Client,
                took: (began, SystemTime::now()),
                links: trace.links.clone(),
                unlinked: trace.unlinked,
                failed,
                ..span
            });
        }
        answer
    }

    fn is_collected(&self) -> bool {
        self.spans.are_collected()
    }
}

/// As the reasons of failed tasks say it.
fn why(no_answer: &NoAnswer) -> String {
    match no_answer {
        NoAnswer::Connection => "connection".to_owned(),
        NoAnswer::Timeout => "timeout".to_owned(),
        NoAnswer::TooLarge => "answer_too_large".to_owned(),
        NoAnswer::Misconfigured(reason)
        | NoAnswer::Failed(reason)
        | NoAnswer::Refused(reason)
        | NoAnswer::Oversized(reason)
        | NoAnswer::Unreadable(reason)
        | NoAnswer::Other(reason) => reason.to_string(),
    }
}
