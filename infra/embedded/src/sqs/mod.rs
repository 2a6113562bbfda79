//! SQS on a loopback port. Its queues are in memory; with a folder, a journal in it keeps what they hold.
//!
//! Delays are up to a second late, which SQS does not promise to better. The server counts the requests it answers
//! as AWS bills them, so that the price of a run is a count and not an estimate.

mod kept;
mod live;
mod restore;

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;

use groupage_aws::{Meter, Requests, SqsRequest};
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Request};
use rustack_sqs_core::config::SqsConfig;
use rustack_sqs_core::handler::RustackSqsHandler;
use rustack_sqs_core::provider::RustackSqs;
use rustack_sqs_http::dispatch::SqsHandler;
use rustack_sqs_http::service::{SqsHttpConfig, SqsHttpService};
use rustack_sqs_model::operations::SqsOperation;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::Error;
use crate::folder::Folder;
use crate::guard::Guard;
use crate::journal::{Journal, Opened, Writer};
use crate::server::{Server, serve};
use kept::{Answer, KeptHandler, Queues, now_ms};

type SqsService = SqsHttpService<Handler>;

/// The account that owns the embedded queues, as in their URLs and ARNs.
pub const ACCOUNT: &str = "000000000000";

const JOURNAL_FILE: &str = "queues.sqlite";

/// A running SQS. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Sqs {
    server: Server,
    meter: Arc<Meter>,
    writer: Option<Writer>,
    is_new: bool,
}

impl Sqs {
    /// Starts it on the loopback `port` (0: any free one), for queues in `region`, whose messages are gone with it.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken.
    pub fn in_memory(port: u16, guard: Guard, region: &'static str) -> Result<Self, Error> {
        let meter = Arc::new(Meter::new());
        let counted = Arc::clone(&meter);
        let serve = move |listener: TcpListener, stopped| async move {
            let Ok(address) = listener.local_addr() else { return };
            let handler = Handler::Volatile(Arc::new(RustackSqsHandler::new(provider(address.port(), region))));
            answer(listener, guard, service(handler, region), counted, stopped).await;
        };
        Ok(Self { server: Server::start("sqs", port, serve)?, meter, writer: None, is_new: true })
    }

    /// The same, with the queues and messages that the folder's journal holds.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken, [`Error::Journal`] if the journal is damaged or of a newer version.
    pub(crate) async fn in_folder(
        port: u16,
        guard: Guard,
        region: &'static str,
        folder: &Folder,
    ) -> Result<Self, Error> {
        let path = folder.file(JOURNAL_FILE)?;
        let (durability, opened) = (folder.durability, path.clone());
        let open = move || Journal::open(&opened, durability, now_ms());
        let gone = |source: tokio::task::JoinError| Error::Server { name: "journal", source: source.into() };
        let Opened { journal, writer, found } = tokio::task::spawn_blocking(open).await.map_err(gone)??;
        let meter = Arc::new(Meter::new());
        let (counted, is_new) = (Arc::clone(&meter), found.is_new);
        let (ready, restored) = oneshot::channel();
        let serve = move |listener: TcpListener, stopped| async move {
            let Ok(address) = listener.local_addr() else { return };
            let queues = Arc::new(Queues::new(provider(address.port(), region), journal));
            let filled = restore::restore(&queues, found, now_ms()).await;
            let is_filled = filled.is_ok();
            if ready.send(filled).is_ok() && is_filled {
                answer(listener, guard, service(Handler::Kept(KeptHandler(queues)), region), counted, stopped).await;
            }
        };
        let server = Server::start("sqs", port, serve)?;
        match restored.await {
            Ok(Ok(())) => Ok(Self { server, meter, writer: Some(writer), is_new }),
            Ok(Err(reason)) => Err(Error::Journal { path, reason }),
            Err(_) => Err(Error::Journal { path, reason: "the queues cannot be filled from it".to_owned() }),
        }
    }

    /// Where it listens, for example `http://127.0.0.1:40124`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Its queues came from nowhere: messages of an earlier process, if there was one, are lost.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The requests it answered so far, of all clients.
    pub fn requests(&self) -> Requests {
        self.meter.snapshot().sqs
    }

    /// Stops it and frees its port and files. Requests under way are cut off; what was answered is in the journal.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        if let Some(writer) = self.writer {
            writer.closed().await;
        }
    }
}

/// Who answers a request.
#[derive(Clone, Debug)]
enum Handler {
    /// Queues in memory alone.
    Volatile(Arc<RustackSqsHandler>),
    /// Queues with a journal.
    Kept(KeptHandler),
}

impl SqsHandler for Handler {
    fn handle_operation(&self, operation: SqsOperation, body: Bytes) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        let body = match operation {
            SqsOperation::SendMessage | SqsOperation::SendMessageBatch => without_tenants(body),
            _ => body,
        };
        match self {
            Self::Volatile(handler) => handler.handle_operation(operation, body),
            Self::Kept(handler) => handler.handle_operation(operation, body),
        }
    }
}

/// A standard queue of AWS takes message groups, and is fair among them. Those here hand messages out as they came, and
/// refuse groups: so the groups are taken away.
fn without_tenants(body: Bytes) -> Bytes {
    const GROUP: &str = "MessageGroupId";
    if !body.windows(GROUP.len()).any(|bytes| bytes == GROUP.as_bytes()) {
        return body;
    }
    let Ok(Value::Object(mut input)) = serde_json::from_slice(&body) else { return body };
    if input.get("QueueUrl").and_then(Value::as_str).is_none_or(|url| url.ends_with(".fifo")) {
        return body;
    }
    input.remove(GROUP);
    let entries = input.get_mut("Entries").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in entries.filter_map(Value::as_object_mut) {
        entry.remove(GROUP);
    }
    Value::Object(input).to_string().into()
}

fn provider(port: u16, region: &str) -> Arc<RustackSqs> {
    let config = SqsConfig {
        skip_signature_validation: true,
        default_region: region.to_owned(),
        account_id: ACCOUNT.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
    };
    Arc::new(RustackSqs::new(config))
}

fn service(handler: Handler, region: &str) -> SqsService {
    let http = SqsHttpConfig { region: region.to_owned(), ..SqsHttpConfig::default() };
    SqsHttpService::new(Arc::new(handler), http)
}

/// Answers and counts. Requests under way are cut off at the end: what was answered is in the journal.
async fn answer(
    listener: TcpListener,
    guard: Guard,
    service: SqsService,
    meter: Arc<Meter>,
    stopped: oneshot::Receiver<()>,
) {
    let counted = service_fn(move |request: Request<Incoming>| {
        let (service, meter) = (service.clone(), Arc::clone(&meter));
        async move {
            let kind = kind(request.headers());
            let sent = request.body().size_hint().lower();
            let response = service.call(request).await?;
            if let Some(kind) = kind {
                meter.count_sqs(kind, sent.max(response.body().size_hint().lower()));
            }
            Ok::<_, Infallible>(response)
        }
    });
    serve(listener, guard, counted, stopped, Duration::ZERO).await;
}

/// What a request does to messages; `None` for the rest: making queues, reading their attributes.
fn kind(headers: &HeaderMap) -> Option<SqsRequest> {
    let target = headers.get("x-amz-target")?.to_str().ok()?;
    match target.strip_prefix("AmazonSQS.")? {
        "SendMessage" | "SendMessageBatch" => Some(SqsRequest::Send),
        "ReceiveMessage" => Some(SqsRequest::Receive),
        "DeleteMessage" | "DeleteMessageBatch" => Some(SqsRequest::Delete),
        "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch" => Some(SqsRequest::ChangeVisibility),
        _ => None,
    }
}
