//! The last hour, as CloudWatch keeps it: the steps of a deployed stack write their figures there.
//!
//! Each series is the sum over the stack's functions. All that look share one request a minute, since CloudWatch asks
//! money for each metric that it gives. If it gives none, or not in time, the reason is kept for as long.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat};
use groupage_aws::entry::NAMESPACE;
use groupage_core::domain::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::history::Series;

/// For so long an answer holds.
const HOLDS: Duration = Duration::from_secs(60);
/// A page waits no longer for it: what waits, and why, matters more.
const PATIENCE: Duration = Duration::from_secs(5);
/// CloudWatch adds up what came within a minute.
const PERIOD_S: i32 = 60;
/// Minutes that are shown.
const MINUTES: usize = 60;

/// The figures of a deployed stack.
#[derive(Debug)]
pub struct Recorded {
    client: Client,
    /// The names of its functions, under which they write.
    functions: Vec<String>,
    /// Locked while it is asked, so that all who come meanwhile get the same answer.
    known: Mutex<Option<(Instant, Arc<Answer>)>>,
}

/// What CloudWatch gave, or why it did not.
pub type Answer = Result<Hour, String>;

/// The whole minutes of the last hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Hour {
    from_s: u64,
    counts: Vec<(Series, Vec<f64>)>,
}

impl Recorded {
    /// Of the stack with these functions.
    #[must_use]
    pub fn new(config: &SdkConfig, functions: Vec<String>) -> Self {
        Self { client: Client::new(config), functions, known: Mutex::default() }
    }

    /// Metrics of one request.
    pub(crate) fn metrics(&self) -> usize {
        Series::ALL.len() * self.functions.len()
    }

    /// The last hour, at most a minute old.
    pub(crate) async fn hour(&self, now: Timestamp) -> Arc<Answer> {
        let mut known = self.known.lock().await;
        if let Some((_, answer)) = known.as_ref().filter(|(at, _)| at.elapsed() < HOLDS) {
            return Arc::clone(answer);
        }
        let too_late = |_| Err(format!("it did not answer within {} s", PATIENCE.as_secs()));
        let answer = Arc::new(timeout(PATIENCE, self.ask(now)).await.unwrap_or_else(too_late));
        *known = Some((Instant::now(), Arc::clone(&answer)));
        answer
    }

    async fn ask(&self, now: Timestamp) -> Answer {
        let mut hour = Hour::before(now);
        let mut pages = self
            .client
            .get_metric_data()
            .start_time(DateTime::from_secs(hour.from_s.cast_signed()))
            .end_time(DateTime::from_secs(hour.until_s().cast_signed()))
            .set_metric_data_queries(Some(self.queries()))
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| groupage_aws::chain(&error))?;
            page.metric_data_results().iter().for_each(|result| hour.add(result));
        }
        Ok(hour)
    }

    fn queries(&self) -> Vec<MetricDataQuery> {
        let each = Series::ALL.into_iter().flat_map(|series| {
            self.functions.iter().enumerate().map(move |(place, function)| (series, place, function))
        });
        each.map(|(series, place, function)| {
            let function = Dimension::builder().name("Function").value(function).build();
            let metric = Metric::builder().namespace(NAMESPACE).metric_name(name(series)).dimensions(function).build();
            let sum = MetricStat::builder().metric(metric).period(PERIOD_S).stat("Sum").build();
            MetricDataQuery::builder().id(format!("{}{place}", prefix(series))).metric_stat(sum).build()
        })
        .collect()
    }
}

fn name(series: Series) -> String {
    format!("{:?}", series.metric())
}

/// An answer is known by what its query is called. Names begin with a small letter.
fn prefix(series: Series) -> String {
    format!("m_{}_", name(series))
}

impl Hour {
    fn before(now: Timestamp) -> Self {
        let minutes = MINUTES as u64 * PERIOD_S.unsigned_abs() as u64;
        let until_s = now.0 / 1_000 / 60 * 60;
        let counts = Series::ALL.map(|series| (series, vec![0.0; MINUTES])).into();
        Self { from_s: until_s.saturating_sub(minutes), counts }
    }

    const fn until_s(&self) -> u64 {
        self.from_s + MINUTES as u64 * 60
    }

    /// Adds what one function counted. Pages come in any order, and so do minutes.
    fn add(&mut self, result: &MetricDataResult) {
        let id = result.id().unwrap_or_default();
        let Some((_, counts)) = self.counts.iter_mut().find(|(series, _)| id.starts_with(&prefix(*series))) else {
            return;
        };
        for (at, value) in result.timestamps().iter().zip(result.values()) {
            let minute = u64::try_from(at.secs()).ok().and_then(|at| at.checked_sub(self.from_s)).map(|s| s / 60);
            if let Some(count) = minute.and_then(|minute| counts.get_mut(usize::try_from(minute).ok()?)) {
                *count += value;
            }
        }
    }

    /// What was counted in each minute, the newest last.
    pub fn minutes(&self, series: Series) -> &[f64] {
        self.counts.iter().find(|(of, _)| *of == series).map_or(&[], |(_, minutes)| minutes)
    }

    /// What was counted in the whole hour.
    pub fn total(&self, series: Series) -> f64 {
        self.minutes(series).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use aws_config::{BehaviorVersion, Region};
    use aws_sdk_cloudwatch::config::{Credentials, SharedCredentialsProvider};
    use axum::Router;
    use axum::http::StatusCode;
    use tokio::net::TcpListener;

    use super::*;

    const NOON_S: i64 = 1_700_000_040 / 60 * 60;

    fn given(id: &str, minutes_ago: &[i64], values: &[f64]) -> MetricDataResult {
        let at = minutes_ago.iter().map(|ago| DateTime::from_secs(NOON_S - 60 * ago)).collect();
        MetricDataResult::builder().id(id).set_timestamps(Some(at)).set_values(Some(values.to_vec())).build()
    }

    /// A CloudWatch that refuses everything, and counts how often.
    async fn refusing() -> (SdkConfig, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let refuse = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(StatusCode::FORBIDDEN)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(refuse)).await });
        let key = SharedCredentialsProvider::new(Credentials::new("a", "b", None, None, "test"));
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(key)
            .http_client(groupage_aws::http_client())
            .endpoint_url(endpoint);
        (config.build(), asked)
    }

    #[tokio::test]
    async fn all_that_look_share_one_request_and_its_refusal() {
        let (config, asked) = refusing().await;
        let recorded = Recorded::new(&config, vec!["sweep".to_owned()]);
        let now = Timestamp(NOON_S.unsigned_abs() * 1_000);
        let (first, second) = futures::join!(recorded.hour(now), recorded.hour(now));
        let third = recorded.hour(now).await;
        assert!([first, second, third].iter().all(|answer| answer.is_err()));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn functions_add_up_in_the_minute_in_which_they_counted_whatever_the_order() {
        let mut hour = Hour::before(Timestamp((NOON_S.unsigned_abs() + 59) * 1_000));
        assert_eq!(hour.until_s(), NOON_S.unsigned_abs(), "the minute that runs is left out");
        hour.add(&given("m_TasksRegistered_0", &[1, 60], &[5.0, 7.0]));
        hour.add(&given("m_TasksRegistered_5", &[60, 1], &[1.0, 2.0]));
        hour.add(&given("m_TasksFailed_0", &[2], &[9.0]));
        hour.add(&given("m_TasksRegistered_1", &[61, 0], &[100.0, 100.0]));
        hour.add(&given("another", &[1], &[100.0]));
        let minutes = hour.minutes(Series::Tasks);
        assert_eq!((minutes.len(), minutes[0], minutes[59]), (60, 8.0, 7.0));
        assert_eq!(
            (hour.total(Series::Tasks), hour.total(Series::Failed), hour.total(Series::Calls)),
            (15.0, 9.0, 0.0)
        );
    }

    #[test]
    fn no_name_begins_with_another() {
        for (one, other) in Series::ALL.into_iter().flat_map(|one| Series::ALL.map(|other| (one, other))) {
            assert!(one == other || !prefix(one).starts_with(&prefix(other)), "{one:?} {other:?}");
        }
    }
}
