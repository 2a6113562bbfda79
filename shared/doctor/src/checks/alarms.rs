//! Whether somebody hears when something goes wrong.

use crate::finding::{Check, Finding, Found, findings};
use crate::seen::{Alarm, Cloud, Queue};

/// The metric by which a queue that is not worked off is noticed.
const AGE: &str = "ApproximateAgeOfOldestMessage";
/// The metric by which dead letters are noticed.
const VISIBLE: &str = "ApproximateNumberOfMessagesVisible";

pub(super) fn alarms(cloud: &Cloud, queues: &[Queue]) -> Vec<Finding> {
    const CHECK: Check = Check::Alarms;
    let alarms = match &cloud.alarms {
        Err(unread) => return findings(CHECK, "", [("", unread.into())]),
        Ok(alarms) => alarms,
    };
    let watches = |metric: &str, of: &str| alarms.iter().any(|alarm| alarm.metric == metric && alarm.of == of);
    let mut found: Vec<(&str, Found)> = Vec::new();
    let missing =
        || Found::wrong("no alarm watches it, or its dead letters", "deploy the stack again, with its alarms");
    found.extend(queues.iter().map(|queue| {
        let dead = queue.settings.as_ref().ok().and_then(|settings| settings.redrive.as_ref());
        let is_watched = watches(AGE, &queue.id) && dead.is_none_or(|(dead, _)| watches(VISIBLE, dead));
        (queue.name, Found::well_if(is_watched, missing))
    }));
    let mute: Vec<&Alarm> = alarms.iter().filter(|alarm| !alarm.tells).collect();
    found.extend(match mute.as_slice() {
        [] => Vec::new(),
        all if all.len() == alarms.len() => {
            let todo =
                "set the parameter AlarmTopicArn, and aws cloudwatch enable-alarm-actions if they were turned off";
            vec![("", Found::wrong("the alarms tell nobody: they only show in CloudWatch", todo))]
        }
        some => {
            let todo = "turn it on again: aws cloudwatch enable-alarm-actions";
            some.iter().map(|alarm| (alarm.name.as_str(), Found::wrong("it tells nobody", todo))).collect()
        }
    });
    findings(CHECK, format!("{} alarms tell their topic", alarms.len()), found)
}

pub(super) fn ringing(cloud: &Cloud) -> Vec<Finding> {
    const CHECK: Check = Check::Ringing;
    match &cloud.alarms {
        Err(unread) => findings(CHECK, "", [("", unread.into())]),
        Ok(alarms) => {
            let todo = "docs/operations.md says what each alarm means";
            let found = alarms.iter().map(|alarm| {
                (alarm.name.as_str(), Found::well_if(!alarm.is_off, || Found::wrong("it is in alarm", todo)))
            });
            findings(CHECK, "no alarm is in alarm", found)
        }
    }
}
