//! Downstreams that only accept a batch, as a message, an event or an execution: one suite, against servers that speak
//! AWS's protocols.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use groupage_aws::Downstreams;
use groupage_core::routes::Allowed;
use groupage_lab::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::downstream::{call, call_traced, downstream, nowhere, serve, traced};
use super::functions::at;

/// A kind, and how its service speaks.
struct Kind {
    block: &'static str,
    /// The service and its operation, or what says that nobody waits.
    asks: (&'static str, &'static str),
    accepts: Value,
    missing: &'static str,
    /// Its code for what is too large, and what that means. Some have one code for all input that they do not take.
    too_large: (u16, &'static str, fn(Reason) -> NoAnswer),
    busy: &'static str,
}

fn kinds() -> [Kind; 5] {
    let message = json!({ "MessageId": "m", "MD5OfMessageBody": "5f1c" });
    let queue = Kind {
        block: "sqs:\n  queue: http://queue.example/0/load",
        asks: ("x-amz-target", "AmazonSQS.SendMessage"),
        accepts: message,
        missing: "com.amazonaws.sqs#QueueDoesNotExist",
        too_large: (400, "InvalidParameterValue", NoAnswer::Oversized),
        busy: "RequestThrottled",
    };
    [
        Kind { block: "sqs:\n  queue: http://queue.example/0/load.fifo", accepts: queue.accepts.clone(), ..queue },
        queue,
        Kind {
            block: "lambda:\n  function: load\n  mode: async",
            asks: ("x-amz-invocation-type", "Event"),
            accepts: Value::Null,
            missing: "ResourceNotFoundException",
            too_large: (413, "RequestTooLargeException", NoAnswer::Oversized),
            busy: "TooManyRequestsException",
        },
        Kind {
            block: "eventbridge:\n  bus: load",
            asks: ("x-amz-target", "AWSEvents.PutEvents"),
            accepts: json!({ "FailedEntryCount": 0, "Entries": [{ "EventId": "e" }] }),
            missing: "ResourceNotFoundException",
            too_large: (400, "ValidationException", NoAnswer::Refused),
            busy: "ThrottlingException",
        },
        Kind {
            block: "step_functions:\n  state_machine: arn:aws:states:us-east-1:1:stateMachine:load",
            asks: ("x-amz-target", "AWSStepFunctions.StartExecution"),
            accepts: json!({ "executionArn": "arn:aws:states:us-east-1:1:execution:load:b1", "startDate": 1.0 }),
            missing: "StateMachineDoesNotExist",
            too_large: (400, "InvalidExecutionInput", NoAnswer::Refused),
            busy: "ExecutionLimitExceeded",
        },
    ]
}

fn error(status: u16, code: &str) -> Response {
    let body = json!({ "__type": code, "message": "payload 4711" }).to_string();
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("x-amzn-errortype", code.to_owned())], body).into_response()
}

/// Calls a service that gives this answer: what the call came to, and what each request was.
async fn asked(
    block: &str,
    answer: impl Fn() -> Response + Send + Sync + 'static,
) -> (Result<Answer, NoAnswer>, Vec<(HeaderMap, Value)>) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let answer = Arc::new(answer);
    let router = Router::new().fallback(move |headers: HeaderMap, body: String| async move {
        let _ = tell.send((headers, serde_json::from_str(&body).unwrap()));
        answer()
    });
    let downstreams = Downstreams::new(&at(&serve(router).await), Allowed::nothing());
    let answer = call_traced(&downstreams, &downstream(block), Some(traced())).await;
    let mut requests = Vec::new();
    while let Ok(request) = told.try_recv() {
        requests.push(request);
    }
    (answer, requests)
}

fn whole(accepts: &Value) -> Response {
    let body = if accepts.is_null() { String::new() } else { accepts.to_string() };
    (StatusCode::OK, body).into_response()
}

#[tokio::test]
async fn what_is_accepted_has_succeeded_for_every_member() {
    for Kind { block, asks: (header, value), accepts, .. } in kinds() {
        let (answer, requests) = asked(block, move || whole(&accepts)).await;
        let answer = answer.unwrap_or_else(|error| panic!("{block}: {error:?}"));
        assert!((200..300).contains(&answer.status) && answer.body.is_empty(), "{block}: {answer:?}");
        let [(headers, _)] = &requests[..] else { panic!("{block}: {} requests", requests.len()) };
        assert_eq!(headers[header], value, "{block}");
    }
}

#[tokio::test]
async fn each_refusal_means_what_it_means_of_every_downstream_and_is_not_repeated() {
    for Kind { block, missing, too_large: (status, too_large, means), busy, .. } in kinds() {
        let reason = |code: &str| Reason::new(code.rsplit('#').next().unwrap());
        let busy_answer = Answer { status: 429, ..Answer::default() };
        for (status, code, means) in [
            (400, busy, Ok(busy_answer)),
            (400, missing, Err(NoAnswer::Misconfigured(reason(missing)))),
            (403, "AccessDeniedException", Err(NoAnswer::Misconfigured(reason("AccessDeniedException")))),
            (status, too_large, Err(means(reason(too_large)))),
            (500, "InternalFailure", Err(NoAnswer::Other(reason("InternalFailure")))),
        ] {
            let (answer, requests) = asked(block, move || error(status, code)).await;
            assert_eq!((answer, requests.len()), (means, 1), "{block}: {code}");
        }
    }
}

#[tokio::test]
async fn a_service_that_never_answers_is_a_timeout_and_one_that_is_not_there_a_connection() {
    for Kind { block, .. } in kinds() {
        let silent = serve(Router::new().fallback(std::future::pending::<Response>)).await;
        let timed = downstream(&format!("{block}\n  timeout_ms: 50"));
        let answer = call(&Downstreams::new(&at(&silent), Allowed::nothing()), &timed).await;
        assert_eq!(answer, Err(NoAnswer::Timeout), "{block}");
        let nobody = call(&Downstreams::new(&at("http://127.0.0.1:1"), Allowed::nothing()), &downstream(block)).await;
        assert_eq!(nobody, Err(NoAnswer::Connection), "{block}");
    }
}

#[tokio::test]
async fn what_only_aws_has_is_not_called_where_there_is_none() {
    for Kind { block, .. } in kinds() {
        let nowhere = Downstreams::new(&nowhere(), Allowed::nothing()).with_queues(&at("http://127.0.0.1:1"));
        let answer = call(&nowhere.without_aws(), &downstream(block)).await;
        let needs_aws = NoAnswer::Misconfigured(Reason::new("needs_aws"));
        let expected = if block.starts_with("sqs") { NoAnswer::Connection } else { needs_aws };
        assert_eq!(answer, Err(expected), "{block}");
    }
}

fn of(kind: usize) -> Kind {
    kinds().into_iter().nth(kind).unwrap()
}

async fn request(kind: usize) -> Value {
    let Kind { block, accepts, .. } = of(kind);
    asked(block, move || whole(&accepts)).await.1.remove(0).1
}

#[tokio::test]
async fn a_message_names_its_batch_and_a_fifo_queue_drops_its_repeats() {
    let (fifo, standard) = (request(0).await, request(1).await);
    for message in [&fifo, &standard] {
        let attributes = &message["MessageAttributes"];
        assert_eq!(message["MessageBody"], "{\"items\":[]}");
        assert_eq!(attributes["Idempotency-Key"], json!({ "DataType": "String", "StringValue": "b1" }));
        assert_eq!(attributes["Groupage-Fence"], json!({ "DataType": "Number", "StringValue": "17" }));
        assert_eq!(attributes["Groupage-Attempt"]["StringValue"], "3");
        assert_eq!(attributes["traceparent"]["StringValue"], traced().context.to_string());
    }
    assert_eq!(fifo["MessageDeduplicationId"], "b1");
    assert_eq!(fifo["MessageGroupId"].as_str().map(str::len), Some(32), "whatever the Target is called");
    assert_eq!(fifo["QueueUrl"], "http://queue.example/0/load.fifo");
    assert!(standard["MessageDeduplicationId"].is_null() && standard["MessageGroupId"].is_null());
}

#[tokio::test]
async fn an_event_is_found_by_its_source_and_type_and_may_fail_in_a_request_that_does_not() {
    let entry = json!({
        "EventBusName": "load", "Source": "groupage", "DetailType": "groupage.batch.v1", "Detail": "{\"items\":[]}",
    });
    assert_eq!(request(3).await["Entries"], json!([entry]));
    for (code, means) in [
        ("ThrottlingException", Ok(Answer { status: 429, ..Answer::default() })),
        ("InternalFailure", Err(NoAnswer::Other(Reason::new("InternalFailure")))),
        (
            "NotAuthorizedForSourceException",
            Err(NoAnswer::Misconfigured(Reason::new("NotAuthorizedForSourceException"))),
        ),
    ] {
        let failed = json!({ "FailedEntryCount": 1, "Entries": [{ "ErrorCode": code, "ErrorMessage": "4711" }] });
        assert_eq!(asked(of(3).block, move || whole(&failed)).await.0, means, "{code}");
    }
}

#[tokio::test]
async fn an_execution_is_named_by_its_batch_and_one_that_is_there_already_has_begun() {
    let execution = json!({
        "stateMachineArn": "arn:aws:states:us-east-1:1:stateMachine:load", "name": "b1", "input": "{\"items\":[]}",
    });
    assert_eq!(request(4).await, execution);
    let (answer, requests) = asked(of(4).block, || error(400, "ExecutionAlreadyExists")).await;
    assert_eq!((answer, requests.len()), (Ok(Answer { status: 202, ..Answer::default() }), 1));
}
