//! DynamoDB's JSON protocol: an operation's name in a header, its input and output as JSON.
//!
//! What the database says is passed on as it is. A body that cannot be read is a `SerializationException`, which AWS
//! words more finely.

use bytes::Bytes;
use dynoxide::{Database, DynoxideError};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::{Serialize, de::DeserializeOwned};

/// DynamoDB takes no larger ones.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;
const TARGET: &str = "DynamoDB_20120810.";
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

/// Answers one request.
pub(super) async fn answer(database: &Database, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(TARGET)).unwrap_or_default().to_owned();
    let done = match Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await {
        Ok(body) => run(database, &operation, &body.to_bytes()),
        Err(error) => Err(DynoxideError::SerializationException(error.to_string())),
    };
    let (status, body) = match done {
        Ok(output) => (StatusCode::OK, output),
        Err(error) => {
            tracing::debug!(operation, %error, "the embedded DynamoDB refused a request");
            (StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST), error.to_json().into())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

type Done = dynoxide::Result<Vec<u8>>;

/// Reads the input, does what is asked, and writes the output.
fn with<I: DeserializeOwned, O: Serialize>(body: &[u8], work: impl FnOnce(I) -> dynoxide::Result<O>) -> Done {
    let unreadable = |error: serde_json::Error| DynoxideError::SerializationException(error.to_string());
    let output = work(serde_json::from_slice(body).map_err(unreadable)?)?;
    serde_json::to_vec(&output).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

fn run(database: &Database, operation: &str, body: &[u8]) -> Done {
    match operation {
        "PutItem" => with(body, |input| database.put_item(input)),
        "GetItem" => with(body, |input| database.get_item(input)),
        "UpdateItem" => with(body, |input| database.update_item(input)),
        "DeleteItem" => with(body, |input| database.delete_item(input)),
        "Query" => with(body, |input| database.query(input)),
        "Scan" => with(body, |input| database.scan(input)),
        "BatchGetItem" => with(body, |input| database.batch_get_item(input)),
        "BatchWriteItem" => with(body, |input| database.batch_write_item(input)),
        "TransactGetItems" => with(body, |input| database.transact_get_items(input)),
        "TransactWriteItems" => with(body, |input| database.transact_write_items(input)),
        "CreateTable" => with(body, |input| database.create_table(input)),
        "UpdateTable" => with(body, |input| database.update_table(input)),
        "DeleteTable" => with(body, |input| database.delete_table(input)),
        "DescribeTable" => with(body, |input| database.describe_table(input)),
        "ListTables" => with(body, |input| database.list_tables(input)),
        "UpdateTimeToLive" => with(body, |input| database.update_time_to_live(input)),
        "DescribeTimeToLive" => with(body, |input| database.describe_time_to_live(input)),
        "ExecuteStatement" => with(body, |input| database.execute_statement(input)),
        "ExecuteTransaction" => with(body, |input| database.execute_transaction(input)),
        "BatchExecuteStatement" => with(body, |input| database.batch_execute_statement(input)),
        "TagResource" => with(body, |input| database.tag_resource(input)),
        "UntagResource" => with(body, |input| database.untag_resource(input)),
        "ListTagsOfResource" => with(body, |input| database.list_tags_of_resource(input)),
        other => Err(DynoxideError::UnsupportedCapability(other.to_owned())),
    }
}
