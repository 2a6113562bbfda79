//! What the headers of answers say: the service's time, and on a laptop the version of the stack.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;

use crate::seen::{Clock, Read, Unread};

/// The header in which the embedded stack says its version.
const VERSION: &str = "x-groupage-version";

/// What was heard so far.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    clock: Option<Clock>,
    version: Option<String>,
}

impl Heard {
    /// A configuration whose answers are listened to.
    pub(super) fn through(self: &Arc<Self>, config: &SdkConfig) -> SdkConfig {
        let Some(inner) = config.http_client() else { return config.clone() };
        let heard = Arc::clone(self);
        let client = http_client_fn(move |settings, components| {
            SharedHttpConnector::new(Listening {
                inner: inner.http_connector(settings, components),
                heard: Arc::clone(&heard),
            })
        });
        config.to_builder().http_client(client).build()
    }

    /// The most exact of the dates that came.
    pub(super) fn clock(&self) -> Read<Clock> {
        self.said(|said| said.clock).ok_or_else(|| Unread("no answer came with a date".to_owned()))
    }

    pub(super) fn version(&self) -> Option<String> {
        self.said(|said| said.version.clone())
    }

    fn said<T>(&self, look: impl FnOnce(&mut Said) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, sent_ms: i64, came_ms: i64, date: Option<&str>, version: Option<&str>) {
        let clock =
            date.and_then(|date| httpdate::parse_http_date(date).ok()).map(|date| beside(sent_ms, came_ms, ms(date)));
        self.said(|said| {
            let best = said.clock.into_iter().chain(clock);
            said.clock = best.min_by_key(|clock| clock.give_or_take_ms);
            said.version = said.version.take().or_else(|| version.map(str::to_owned));
        });
    }
}

/// The date was written between sending and receiving, and has lost its part of a second.
const fn beside(sent_ms: i64, came_ms: i64, date_ms: i64) -> Clock {
    let (middle_ms, either_side_ms) = (i64::midpoint(sent_ms, came_ms), (came_ms - sent_ms) / 2);
    Clock { ahead_ms: middle_ms - (date_ms + 500), give_or_take_ms: either_side_ms + 500 }
}

fn ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
}

#[derive(Debug)]
struct Listening {
    inner: SharedHttpConnector,
    heard: Arc<Heard>,
}

impl HttpConnector for Listening {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (sent_ms, answer, heard) = (ms(SystemTime::now()), self.inner.call(request), Arc::clone(&self.heard));
        HttpConnectorFuture::new(async move {
            let answer = answer.await?;
            let headers = answer.headers();
            heard.note(sent_ms, ms(SystemTime::now()), headers.get("date"), headers.get(VERSION));
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_from_the_date_of_an_answer_as_exactly_as_that_allows() {
        // The service's 12:00:00 is anything before 12:00:01.
        assert_eq!(beside(10_000, 10_200, 10_000), Clock { ahead_ms: -400, give_or_take_ms: 600 });
        assert_eq!(beside(70_000, 70_200, 10_000), Clock { ahead_ms: 59_600, give_or_take_ms: 600 });
    }

    #[test]
    fn the_answer_that_took_least_is_the_one_that_counts() {
        let heard = Heard::default();
        assert!(heard.clock().is_err());
        let date = httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(100));
        heard.note(100_000, 103_000, Some(&date), None);
        heard.note(100_000, 100_100, Some(&date), Some("1.2.3"));
        heard.note(100_000, 104_000, Some(&date), Some("9.9.9"));
        assert_eq!(heard.clock().unwrap().give_or_take_ms, 550);
        assert_eq!(heard.version().as_deref(), Some("1.2.3"));
    }
}
