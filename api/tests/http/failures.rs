//! What is not the sender's fault: a port that does not answer, or refuses, or a bug.

use groupage_core::ports::{Error, Outbox, Outgoing, Result};
use serde_json::json;

use crate::desk::{Answer, Desk};

/// What the queue's service says of each request; it may name accounts and addresses.
const WHY: &str = "4111";

/// A queue that never takes a message.
enum Never {
    Answers,
    Allows,
    Returns,
}

impl Outbox for Never {
    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Result<()>> {
        let failure = || match self {
            Self::Answers => Error::Unavailable { what: "sending", why: WHY.to_owned() },
            Self::Allows => Error::Broken { what: "sending", why: WHY.to_owned() },
            Self::Returns => panic!("{WHY}"),
        };
        messages.iter().map(|_| Err(failure())).collect()
    }
}

async fn send(desk: &Desk<Never>) -> Answer {
    let answer = desk.post("/tasks", r#"{"tasks":[{"id":"a","payload":{}}]}"#).await;
    assert!(!answer.body.to_string().contains(WHY), "the service's words are for the log: {answer:?}");
    answer
}

#[tokio::test]
async fn a_queue_that_does_not_answer_is_a_503_that_says_when_to_repeat_the_call() {
    let answer = send(&Desk::with(Never::Answers).await).await;
    answer.problem(503);
    assert_eq!(answer.body["type"], "urn:groupage:unavailable");
    assert!(answer.retry_after.parse::<u32>().unwrap() > 0, "{answer:?}");
}

#[tokio::test]
async fn a_queue_that_refuses_is_a_500_that_nobody_need_repeat() {
    let answer = send(&Desk::with(Never::Allows).await).await;
    answer.problem(500);
    assert_eq!(answer.retry_after, "");
}

#[tokio::test]
async fn a_bug_is_the_answer_to_its_own_request_and_to_no_other() {
    let desk = Desk::with(Never::Returns).await;
    send(&desk).await.problem(500);
    assert_eq!(desk.post("/trackers", json!({ "id": "t" }).to_string()).await.status, 201);
}

#[tokio::test]
async fn a_notice_that_cannot_be_sent_now_keeps_no_tracker_from_ending() {
    let desk = Desk::with(Never::Answers).await;
    desk.tracker("t", 1).await;
    assert_eq!(desk.post("/trackers/t/seal", "").await.body["state"], "sealed");
    assert_eq!(desk.post("/trackers/t/acks", r#"{"succeeded":["t:0:0"]}"#).await.body["state"], "completed");
    assert_eq!(desk.shown("t").await["notice_sent"], false);
}
