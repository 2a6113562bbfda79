//! What CloudWatch knows: the alarms, and how old messages are.

use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    AlarmType, CompositeAlarm, Dimension, Metric, MetricAlarm, MetricDataQuery, MetricStat, ScanBy, StateValue,
};
use futures::FutureExt;

use super::answers::unread;
use super::site::Deployed;
use crate::seen::{Alarm, Queue, Read, Unread};

/// The stack's alarms. CloudFormation begins their names with the stack's, but `groupage-` also begins those of a stack
/// named `groupage-test`: an alarm belongs to the stack that has what it watches.
pub(super) async fn alarms(config: &SdkConfig, deployed: &Deployed) -> Read<Vec<Alarm>> {
    let request = Client::new(config).describe_alarms().alarm_name_prefix(format!("{}-", deployed.name));
    let request = request.alarm_types(AlarmType::MetricAlarm).alarm_types(AlarmType::CompositeAlarm);
    let mut pages = request.into_paginator().send();
    let (mut found, mut composites) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.map_err(unread)?;
        found.extend(page.metric_alarms().iter().map(alarm_in).filter(|alarm| deployed.has(&alarm.of)));
        composites.extend(page.composite_alarms.unwrap_or_default());
    }
    Ok(composites.iter().fold(found, composed))
}

fn alarm_in(alarm: &MetricAlarm) -> Alarm {
    // One that does arithmetic has its metrics in a list. All are of the same function.
    let listed = alarm.metrics().iter().find_map(|query| query.metric_stat()?.metric());
    let dimensions = listed.map_or(alarm.dimensions(), Metric::dimensions);
    let metric = listed.map_or(alarm.metric_name(), Metric::metric_name);
    Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        metric: metric.unwrap_or_default().to_owned(),
        of: dimensions.first().and_then(Dimension::value).unwrap_or_default().to_owned(),
        tells: alarm.actions_enabled().unwrap_or_default() && !alarm.alarm_actions().is_empty(),
        is_off: alarm.state_value() == Some(&StateValue::Alarm),
    }
}

/// These alarms with a composite one in the place of those that it is made of. They tell nobody, and one of them being
/// off means nothing. It is the stack's if they are.
fn composed(mut alarms: Vec<Alarm>, composite: &CompositeAlarm) -> Vec<Alarm> {
    let rule = composite.alarm_rule().unwrap_or_default();
    let is_part = |alarm: &mut Alarm| rule.contains(&format!("\"{}\"", alarm.name));
    let parts: Vec<Alarm> = alarms.extract_if(.., is_part).collect();
    alarms.extend(parts.into_iter().next().map(|part| Alarm {
        name: composite.alarm_name().unwrap_or_default().to_owned(),
        tells: composite.actions_enabled().unwrap_or_default() && !composite.alarm_actions().is_empty(),
        is_off: composite.state_value() == Some(&StateValue::Alarm),
        ..part
    }));
    alarms
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
    let answer = request.scan_by(ScanBy::TimestampDescending).send().boxed().await.map_err(unread)?;
    let results = answer.metric_data_results().iter();
    Ok(results.filter_map(|result| Some((result.id()?.to_owned(), *result.values().first()?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(name: &str, metric: &str) -> MetricAlarm {
        let of = Dimension::builder().name("Function").value("handler").build();
        let metric = Metric::builder().metric_name(metric).dimensions(of).build();
        let stat = MetricStat::builder().metric(metric).period(300).stat("Sum").build();
        MetricAlarm::builder()
            .alarm_name(name)
            .actions_enabled(true)
            .metrics(MetricDataQuery::builder().id("failed").metric_stat(stat).build())
            .metrics(MetricDataQuery::builder().id("burn").expression("failed / 2").build())
            .state_value(StateValue::Alarm)
            .build()
    }

    #[test]
    fn a_composite_alarm_stands_for_those_that_it_is_made_of() {
        let halves = || vec![alarm_in(&half("s-hour", "TasksFailed")), alarm_in(&half("s-now", "TasksFailed"))];
        assert_eq!((halves()[0].metric.as_str(), halves()[0].of.as_str()), ("TasksFailed", "handler"));
        assert!(halves().iter().all(|half| half.is_off && !half.tells));
        let composite = CompositeAlarm::builder().alarm_name("s-burn").actions_enabled(true).alarm_actions("topic");
        let composite = composite.state_value(StateValue::Ok);
        let whole = composite.clone().alarm_rule(r#"ALARM("s-hour") AND ALARM("s-now")"#).build();
        let other = Alarm { name: "s-dead".to_owned(), ..Alarm::default() };
        let alarms = composed([vec![other.clone()], halves()].concat(), &whole);
        let burn =
            Alarm { name: "s-burn".to_owned(), tells: true, is_off: false, ..alarm_in(&half("s-hour", "TasksFailed")) };
        assert_eq!(alarms, [other, burn]);
        // Another stack's, whose name begins as this one's does.
        let foreign = composite.alarm_rule(r#"ALARM("s-test-hour")"#).build();
        assert_eq!(composed(halves(), &foreign), halves());
    }
}
