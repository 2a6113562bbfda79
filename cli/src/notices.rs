//! `groupage notices`: what waits in a notification queue.

use anyhow::Result;
use groupage_aws::System;
use groupage_aws::desk::{Desk, Notices, Queue};
use groupage_core::domain::{NotificationQueue, Timestamp};
use groupage_core::ports::Env;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::output::{self, Ending, Output};
use crate::sheet::{Cell, Sheet, Tone};
use crate::stack;

/// What the examples teach.
const EXAMPLES: &str = "\
Examples:
  groupage notices                                  look at the next ten; they stay in the queue
  groupage --json notices --take --most 1000        print up to a thousand, one a line, and delete them
  groupage notices --queue https://sqs.eu-central-1.amazonaws.com/123456789012/told";

/// Show what waits in a notification queue, the stack's own or another, and delete it if you say so.
///
/// SQS shows a message only by handing it out. While this looks, your program does not get these notices: they are
/// hidden for up to 10 seconds and then given back. Each look counts as a receive. If the queue has a redrive policy,
/// as many looks as its maxReceiveCount move a notice to that queue's dead-letter queue; the stack's own queue has
/// none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// How many at most. Without --take, more than some hundred may come twice in one look.
    #[arg(long, value_name = "N", default_value_t = 10)]
    most: u64,
    /// Delete what is shown: nobody else is told then. It is deleted after it was printed, so what you interrupt comes
    /// again.
    #[arg(long)]
    take: bool,
    /// The URL of another queue that a route or tracker names.
    #[arg(long, value_name = "URL", value_parser = url)]
    queue: Option<String>,
}

fn url(text: &str) -> Result<String, String> {
    match NotificationQueue::parse(text) {
        Ok(NotificationQueue::Url(url)) => Ok(url),
        Ok(NotificationQueue::Default | NotificationQueue::None) => Err("give the URL of a queue".to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

/// What people are told of a notice.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    time: String,
    data: About,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct About {
    reason: String,
    batch: String,
}

/// Prints what waits, and deletes it if that is wanted.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let desk = stack::open(name).await?.desk();
    let queue = desk.notice_queue(options.queue.as_deref());
    if options.take {
        take(&desk, &queue, options.most, *output).await?;
    } else {
        let notices = desk.look_at_notices(&queue, options.most).await?;
        print(&notices, *output);
        if notices.count() == 0 {
            nothing(*output);
        }
    }
    Ok(Ending::Well)
}

/// Ten at a time: each is printed before it is deleted.
async fn take(desk: &Desk, queue: &Queue, most: u64, output: Output) -> Result<()> {
    let mut taken = 0;
    while taken < most && output::is_read() {
        let notices = desk.hand_out_notices(queue, most - taken).await?;
        if notices.count() == 0 {
            break;
        }
        print(&notices, output);
        // What nobody has read stays.
        if output::is_read() {
            taken += notices.count();
            desk.delete_notices(queue, notices).await?;
        }
    }
    if taken == 0 {
        nothing(output);
    }
    Ok(())
}

fn nothing(output: Output) {
    if !output.is_json() {
        output.sheet(&(), || Sheet::line("no notice waits"));
    }
}

/// For programs each as it was sent, on a line of its own.
fn print(notices: &Notices, output: Output) {
    if output.is_json() {
        notices.bodies().for_each(|body| output.line(&Sent::of(body), String::new));
    } else if notices.count() > 0 {
        let columns = &["told", "of", "because of", "batch", "when"];
        output.sheet(&(), || Sheet::table("", columns, notices.bodies().map(|body| row(body, System.now())).collect()));
    }
}

/// A notice as it was sent. What is no JSON is somebody else's message, and becomes a string.
#[derive(Serialize)]
#[serde(untagged)]
enum Sent<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl<'a> Sent<'a> {
    fn of(body: &'a str) -> Self {
        serde_json::from_str(body).map_or(Self::Text(body), Self::Json)
    }
}

fn row(body: &str, now: Timestamp) -> Vec<Cell> {
    let Ok(Told { kind, subject, time, data: About { reason, batch } }) = serde_json::from_str(body) else {
        return vec![Cell::new("no notice of Groupage", Tone::Bad), body.into()];
    };
    let what = kind.strip_prefix("groupage.").unwrap_or(&kind);
    let what = what.rsplit_once(".v").map_or(what, |(what, _)| what);
    let bad = ["failed", "overdue", "abandoned"].iter().any(|word| what.ends_with(word));
    let at = humantime::parse_rfc3339(&time).ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let when = at.and_then(|at| u64::try_from(at.as_millis()).ok()).map(Timestamp);
    vec![
        Cell::new(what.replace('.', " "), if bad { Tone::Bad } else { Tone::Good }),
        subject.into(),
        reason.into(),
        batch.into(),
        when.map_or(time, |at| groupage_console::words::moment(at, now)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_of_what_it_tells_and_why() {
        let body = r#"{"specversion":"1.0","id":"b/t","source":"groupage/r","type":"groupage.task.failed.v1",
            "subject":"t","time":"1970-01-01T00:00:01.000Z","data":{"task":"t","batch":"b","reason":"jam","attempts":1}}"#;
        let told = row(body, Timestamp(4_000));
        let expected = [
            Cell::new("task failed", Tone::Bad),
            "t".into(),
            "jam".into(),
            "b".into(),
            "3 s ago (1970-01-01T00:00:01.000Z)".into(),
        ];
        assert_eq!(told, expected);
        assert_eq!(row("hello", Timestamp(0))[0], Cell::new("no notice of Groupage", Tone::Bad));
    }

    #[test]
    fn programs_get_a_notice_as_it_was_sent() {
        let json = |body: &str| serde_json::to_string(&Sent::of(body)).unwrap();
        assert_eq!(json(r#"{"id":1.0}"#), r#"{"id":1.0}"#);
        assert_eq!(json("hello"), r#""hello""#);
    }

    #[test]
    fn another_queue_is_named_by_its_url() {
        assert!(url("https://sqs.eu-central-1.amazonaws.com/123456789012/told").is_ok());
        assert!(url("default").is_err() && url("told").is_err());
    }
}
