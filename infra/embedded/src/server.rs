//! Listening on loopback: HTTP/1.1 behind a guard, and servers on a thread and runtime of their own.
//!
//! SQLite runs synchronously, and the steps run on the caller's runtime: sharing one would let a slow write hold up
//! every step. The thread ends when it is told to stop, or when its [`Server`] is dropped.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use groupage_aws::runtime::STACK_BYTES;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown};
use tokio::{net::TcpListener, sync::oneshot, task, time};

use crate::Error;
use crate::guard::{Guard, keep_to_oneself};

/// In this header each answer says the version of the stack; `groupage doctor` compares it with its own.
const VERSION: HeaderName = HeaderName::from_static("x-groupage-version");
/// How long to wait when no connection can be accepted.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves those that `guard` admits until `stopped` resolves. What is under way then has `grace` to finish.
pub async fn serve<S, B>(listener: TcpListener, guard: Guard, service: S, stopped: impl Future, grace: Duration)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let Ok(address) = listener.local_addr() else { return };
    let (guard, connections) = (Arc::new(guard), GracefulShutdown::new());
    let mut stopped = pin!(stopped);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // Out of file descriptors, say: others may be closed by the time of the next turn.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        // Answers are small and waited for: without this each would wait for the kernel to fill a packet.
        let _ = stream.set_nodelay(true);
        let (guard, service) = (Arc::clone(&guard), service.clone());
        let guarded = service_fn(move |request| ask(address.port(), Arc::clone(&guard), service.clone(), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), guarded);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                // A client that goes away in the middle of a long poll is how every shutdown looks from here.
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    // A client that sent half a request would hold the server for ever.
    let _ = time::timeout(grace, connections.shutdown()).await;
}

/// One request through the guard.
async fn ask<S, B>(
    port: u16,
    guard: Arc<Guard>,
    service: S,
    request: Request<Incoming>,
) -> Result<Response<Either<B, Full<Bytes>>>, Infallible>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    if let Err(refusal) = guard.admit(port, &request) {
        return Ok(guard.refuse::<Full<Bytes>>(refusal).map(Either::Right));
    }
    let mut response = service.call(request).await?;
    keep_to_oneself(&mut response);
    response.headers_mut().insert(VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    Ok(response.map(Either::Left))
}

/// A running server. Dropping it stops it without waiting; [`Server::shutdown`] waits.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}
impl Server {
    /// Listens on the loopback `port` (0: any free one) and runs `serve` on a new thread until it returns.
    ///
    /// `serve` must return once its receiver resolves; what it spawned is then dropped with the runtime.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port cannot be had, [`Error::Server`] if there is no thread to be had.
    pub(crate) fn start<S, F>(name: &'static str, port: u16, serve: S) -> Result<Self, Error>
    where
        S: FnOnce(TcpListener, oneshot::Receiver<()>) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let (listener, address) = listen(port).map_err(|source| Error::Listen { port, source })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::Server { name, source })?;
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            runtime.block_on(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => serve(listener, stopped).await,
                    Err(error) => tracing::error!(%error, server = name, "the listener was refused by its runtime"),
                }
            });
        };
        let thread = thread::Builder::new()
            .name(format!("embedded-{name}"))
            .stack_size(STACK_BYTES)
            .spawn(body)
            .map_err(|source| Error::Server { name, source })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The URL of its root, without a trailing slash.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it and waits until its thread has ended, so that its port and files are free.
    pub(crate) async fn shutdown(mut self) {
        self.stop.take();
        let Some(thread) = self.thread.take() else { return };
        // A panic of the server's thread has been printed by then; there is nothing left to stop.
        let _ = task::spawn_blocking(move || thread.join()).await;
    }
}

fn listen(port: u16) -> io::Result<(StdListener, SocketAddr)> {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
