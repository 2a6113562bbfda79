//! What CloudWatch knows: the alarms, and how old messages are.

use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricAlarm, MetricDataQuery, MetricStat, ScanBy, StateValue};

use super::answers::unread;
use super::site::Deployed;
use crate::seen::{Alarm, Queue, Read, Unread};

/// The stack's alarms. CloudFormation begins their names with the stack's, but `groupage-` also begins those of a stack
/// named `groupage-test`: an alarm belongs to the stack that has what it watches.
pub(super) async fn alarms(config: &SdkConfig, deployed: &Deployed) -> Read<Vec<Alarm>> {
    let client = Client::new(config);
    let mut pages = client.describe_alarms().alarm_name_prefix(format!("{}-", deployed.name)).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let alarms = page.map_err(unread)?;
        found.extend(alarms.metric_alarms().iter().map(alarm_in).filter(|alarm| deployed.has(&alarm.of)));
    }
    Ok(found)
}

fn alarm_in(alarm: &MetricAlarm) -> Alarm {
    Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        metric: alarm.metric_name().unwrap_or_default().to_owned(),
        of: alarm.dimensions().first().and_then(Dimension::value).unwrap_or_default().to_owned(),
        tells: alarm.actions_enabled().unwrap_or_default() && !alarm.alarm_actions().is_empty(),
        is_off: alarm.state_value() == Some(&StateValue::Alarm),
    }
}

/// SQS reports once a minute, and some minutes late.
const LOOKED_BACK_S: i64 = 10 * 60;

/// Writes the age of its oldest message into each queue that holds any.
pub(super) async fn ages(config: &SdkConfig, queues: &mut [Queue]) {
    let read = newest(config, queues).await;
    for (at, queue) in queues.iter_mut().enumerate() {
        let holds_some = queue.settings.as_ref().is_ok_and(|settings| settings.messages > 0);
        queue.oldest_s = match &read {
            Ok(ages) => match ages.iter().find(|(id, _)| *id == id_of(at)) {
                Some((_, age_s)) => Ok(Some(*age_s)),
                // A queue without messages reports nothing after some hours.
                None if !holds_some => Ok(None),
                None => Err(Unread("CloudWatch has no age of its messages yet".to_owned())),
            },
            Err(unread) => Err(unread.clone()),
        };
    }
}

fn id_of(at: usize) -> String {
    format!("q{at}")
}

async fn newest(config: &SdkConfig, queues: &[Queue]) -> Read<Vec<(String, f64)>> {
    let end = DateTime::from(SystemTime::now());
    let queries = queues.iter().enumerate().map(|(at, queue)| {
        let dimension = Dimension::builder().name("QueueName").value(&queue.id).build();
        let metric = Metric::builder().namespace("AWS/SQS").metric_name("ApproximateAgeOfOldestMessage");
        let stat = MetricStat::builder().metric(metric.dimensions(dimension).build()).period(60).stat("Maximum");
        MetricDataQuery::builder().id(id_of(at)).metric_stat(stat.build()).build()
    });
    let request = Client::new(config).get_metric_data().set_metric_data_queries(Some(queries.collect()));
    let request = request.start_time(DateTime::from_secs(end.secs() - LOOKED_BACK_S)).end_time(end);
    let answer = request.scan_by(ScanBy::TimestampDescending).send().await.map_err(unread)?;
    let results = answer.metric_data_results().iter();
    Ok(results.filter_map(|result| Some((result.id()?.to_owned(), *result.values().first()?))).collect())
}
