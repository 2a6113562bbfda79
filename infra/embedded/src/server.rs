//! Listening on loopback: HTTP/1.1 behind a guard, and servers on a thread and runtime of their own.
//!
//! SQLite runs synchronously, and the steps run on the caller's runtime: sharing one would let a slow write hold up
//! every step. The thread ends when it is told to stop, or when its [`Server`] is dropped.
//!
//! Every process of the machine may connect, and say nothing. So a connection that has not brought the key is closed
//! soon, and there are few of them: when another one comes, the oldest goes. The owner's are not counted.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use groupage_aws::{System, runtime::STACK_BYTES};
use groupage_core::ports::Env;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{net::TcpListener, sync::oneshot, task, time};

use crate::Error;
use crate::guard::{Admitted, Guard, Patience, Refusal, keep_to_oneself};
use crate::strangers::Strangers;

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
    let (guard, connections, mut strangers) = (Arc::new(guard), GracefulShutdown::new(), Strangers::default());
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
        let Patience { key, young, head, .. } = guard.patience;
        let (guard, service, is_owner) = (Arc::clone(&guard), service.clone(), Arc::<AtomicBool>::default());
        let must_go = strangers.admit(Arc::clone(&is_owner), young);
        let known = Arc::clone(&is_owner);
        let guarded = service_fn(move |request| {
            ask(address.port(), Arc::clone(&guard), service.clone(), Arc::clone(&known), request)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(head);
        let connection = connections.watch(builder.serve_connection(TokioIo::new(stream), guarded));
        tokio::spawn(attend(connection, key, must_go, is_owner));
    }
    // A client that sent half a request would hold the server for ever.
    let _ = time::timeout(grace, connections.shutdown()).await;
}

/// Serves a connection to its end, unless it is a stranger's and must go.
async fn attend(
    connection: impl Future<Output = hyper::Result<()>>,
    key_within: Duration,
    must_go: oneshot::Receiver<Infallible>,
    is_owner: Arc<AtomicBool>,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        _ = time::timeout(key_within, must_go) => match is_owner.load(Ordering::Relaxed) {
            true => connection.await,
            false => return,
        },
    };
    if let Err(error) = ended {
        // A client that goes away in the middle of a long poll is how every shutdown looks from here.
        tracing::debug!(%error, "a connection ended");
    }
}

/// One request through the guard.
async fn ask<S, B>(
    port: u16,
    guard: Arc<Guard>,
    service: S,
    is_owner: Arc<AtomicBool>,
    request: Request<Incoming>,
) -> Result<Response<Either<B, Full<Bytes>>>, Infallible>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let refused = |refusal| Ok(guard.refuse::<Full<Bytes>>(refusal).map(Either::Right));
    match guard.admit(port, System.now(), &request) {
        Ok(Admitted::Owner) => is_owner.store(true, Ordering::Relaxed),
        Ok(Admitted::Anybody) => {}
        Err(refusal) => return refused(refusal),
    }
    let Ok(answered) = time::timeout(guard.patience.answer, service.call(request)).await else {
        return refused(Refusal::Slow);
    };
    let mut response = answered?;
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::guard::{Door, Key};
    use crate::strangers::MOST_STRANGERS;

    const HEAD: &str = "POST /tasks HTTP/1.1\r\nHost: 127.0.0.1:";

    /// Long enough for whatever must happen at once, short enough for a test that fails.
    const LONG: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_millis(50);
    const PATIENT: Patience = Patience { key: LONG, young: LONG, head: LONG, answer: LONG };

    /// A server that reads each request to its end.
    async fn start(patience: Patience) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = service_fn(|request: Request<Incoming>| async {
            let _ = request.into_body().collect().await;
            Ok(Response::new(Full::new(Bytes::from("well"))))
        });
        let mut guard = Guard::new(Door::Api, Key::from("secret".to_owned()));
        guard.patience = patience;
        tokio::spawn(serve(listener, guard, service, std::future::pending::<()>(), Duration::ZERO));
        address
    }

    async fn send(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// What a connection is answered until it ends.
    async fn end(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        // A connection that is closed with something unread is reset.
        let _ = time::timeout(LONG / 2, stream.read_to_end(&mut answer)).await.expect("it ends");
        String::from_utf8(answer).unwrap()
    }

    fn owners(address: SocketAddr, body: &str) -> String {
        let port = address.port();
        format!("{HEAD}{port}\r\nAuthorization: Bearer secret\r\nConnection: close\r\nContent-Length: 4\r\n\r\n{body}")
    }

    #[tokio::test]
    async fn connections_that_say_nothing_make_room_for_those_that_come_after_them() {
        let address = start(Patience { young: Duration::ZERO, ..PATIENT }).await;
        let mut silent = Vec::new();
        for text in ["", HEAD].repeat(MOST_STRANGERS) {
            silent.push(send(address, text).await);
        }
        let answer = end(send(address, &owners(address, "body")).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        for oldest in silent.drain(..=MOST_STRANGERS) {
            assert_eq!(end(oldest).await, "");
        }
        for one in silent {
            assert_eq!(one.try_read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "there is room for it");
        }
    }

    #[tokio::test]
    async fn a_burst_of_the_owners_connections_is_answered_whole() {
        let address = start(PATIENT).await;
        let mut connections = Vec::new();
        for _ in 0..MOST_STRANGERS * 2 {
            connections.push(send(address, "").await);
        }
        for mut one in connections {
            one.write_all(owners(address, "body").as_bytes()).await.unwrap();
            assert!(end(one).await.starts_with("HTTP/1.1 200 "));
        }
    }

    #[tokio::test]
    async fn a_request_that_does_not_come_to_its_end_is_let_go() {
        let address = start(Patience { key: SHORT, ..PATIENT }).await;
        assert_eq!(end(send(address, HEAD).await).await, "", "it has not brought the key");

        let address = start(Patience { answer: SHORT, ..PATIENT }).await;
        let answer = end(send(address, &owners(address, "bo")).await).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");

        let address = start(Patience { head: SHORT, ..PATIENT }).await;
        let kept = owners(address, "body").replace("close", "keep-alive");
        let answer = end(send(address, &(kept + HEAD)).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("well"), "{answer}");
    }
}
