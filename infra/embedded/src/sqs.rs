//! SQS on a loopback port, in memory: its messages are gone with the process.
//!
//! Delays are up to a second late, which SQS does not promise to better. The server counts the requests it answers
//! as AWS bills them, so that the price of a run is a count and not an estimate.

use std::{convert::Infallible, sync::Arc, time::Duration};

use groupage_aws::{Meter, Requests, SqsRequest};
use hyper::{
    HeaderMap, Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::TokioIo;
use rustack_sqs_core::{config::SqsConfig, handler::RustackSqsHandler, provider::RustackSqs};
use rustack_sqs_http::service::{SqsHttpConfig, SqsHttpService};
use tokio::{
    net::{TcpListener, TcpStream},
    time,
};

use crate::{Error, server::Server};

type SqsService = SqsHttpService<RustackSqsHandler>;

/// The account that owns the embedded queues, as in their URLs and ARNs.
pub const ACCOUNT: &str = "000000000000";

/// How long to wait when no connection can be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A running SQS. Dropping it stops it; so does the end of the process, and its messages are gone either way.
#[derive(Debug)]
pub struct Sqs {
    server: Server,
    meter: Arc<Meter>,
}

impl Sqs {
    /// Starts it on the loopback `port` (0: any free one), for queues in `region`.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken.
    pub fn start(port: u16, region: &'static str) -> Result<Self, Error> {
        let meter = Arc::new(Meter::new());
        let counted = Arc::clone(&meter);
        let serve = move |listener: TcpListener, stopped| async move {
            let Ok(address) = listener.local_addr() else { return };
            let service = service(address.port(), region);
            tokio::select! {
                () = accept(listener, service, counted) => {}
                _ = stopped => {}
            }
        };
        Ok(Self { server: Server::start("sqs", port, serve)?, meter })
    }

    /// Where it listens, for example `http://127.0.0.1:40124`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The requests it answered so far, whoever made them.
    pub fn requests(&self) -> Requests {
        self.meter.snapshot().sqs
    }

    /// Stops it and frees its port. Requests under way are cut off: there is no state to save.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

fn service(port: u16, region: &str) -> SqsService {
    let config = SqsConfig {
        skip_signature_validation: true,
        default_region: region.to_owned(),
        account_id: ACCOUNT.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
    };
    let handler = RustackSqsHandler::new(Arc::new(RustackSqs::new(config)));
    let http = SqsHttpConfig { region: region.to_owned(), ..SqsHttpConfig::default() };
    SqsHttpService::new(Arc::new(handler), http)
}

async fn accept(listener: TcpListener, service: SqsService, meter: Arc<Meter>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, service.clone(), Arc::clone(&meter)));
            }
            // Out of file descriptors, say: others may be closed by the time of the next turn.
            Err(error) => {
                tracing::warn!(%error, "the embedded SQS could not accept a connection");
                time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, service: SqsService, meter: Arc<Meter>) {
    // Answers are small and waited for: without this each would wait for the kernel to fill a packet.
    let _ = stream.set_nodelay(true);
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
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), counted).await {
        // A client that goes away in the middle of a long poll is how every shutdown looks from here.
        tracing::debug!(%error, "a connection to the embedded SQS ended");
    }
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
