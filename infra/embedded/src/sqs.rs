//! SQS on a loopback port, in memory: its messages are gone with the process.
//!
//! Delays are up to a second late, which SQS does not promise to better. The server counts the requests it answers
//! as AWS bills them, so that the price of a run is a count and not an estimate.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{
    Request,
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

mod requests;

pub use requests::{Kind, Requests};

type SqsService = SqsHttpService<RustackSqsHandler>;

/// The account that owns the embedded queues, as in their URLs and ARNs.
pub const ACCOUNT: &str = "000000000000";

/// How long to wait when no connection can be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A running SQS. Dropping it stops it; so does the end of the process, and its messages are gone either way.
#[derive(Debug)]
pub struct Sqs {
    server: Server,
    requests: Arc<Requests>,
}

impl Sqs {
    /// Starts it on the loopback `port` (0: any free one), for queues in `region`.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken.
    pub fn start(port: u16, region: &'static str) -> Result<Self, Error> {
        let requests = Arc::new(Requests::default());
        let counted = Arc::clone(&requests);
        let serve = move |listener: TcpListener, stopped| async move {
            let Ok(address) = listener.local_addr() else { return };
            let service = service(address.port(), region);
            tokio::select! {
                () = accept(listener, service, counted) => {}
                _ = stopped => {}
            }
        };
        Ok(Self { server: Server::start("sqs", port, serve)?, requests })
    }

    /// Where it listens, for example `http://127.0.0.1:40124`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// What it answered so far.
    pub fn requests(&self) -> &Requests {
        &self.requests
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

async fn accept(listener: TcpListener, service: SqsService, requests: Arc<Requests>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, service.clone(), Arc::clone(&requests)));
            }
            // Out of file descriptors, say: others may be closed by the time of the next turn.
            Err(error) => {
                tracing::warn!(%error, "the embedded SQS could not accept a connection");
                time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, service: SqsService, requests: Arc<Requests>) {
    // Answers are small and waited for: without this each would wait for the kernel to fill a packet.
    let _ = stream.set_nodelay(true);
    let counted = service_fn(move |request: Request<Incoming>| {
        let (service, requests) = (service.clone(), Arc::clone(&requests));
        async move {
            let kind = Kind::of(request.headers());
            let sent = request.body().size_hint().lower();
            let response = service.call(request).await?;
            requests.add(kind, sent.max(response.body().size_hint().lower()));
            Ok::<_, Infallible>(response)
        }
    });
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), counted).await {
        // A client that goes away in the middle of a long poll is how every shutdown looks from here.
        tracing::debug!(%error, "a connection to the embedded SQS ended");
    }
}
