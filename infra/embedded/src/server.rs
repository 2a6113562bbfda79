//! A server on a thread and runtime of its own.
//!
//! SQLite runs synchronously, and the steps run on the caller's runtime: sharing one would let a slow write hold up
//! every step. The thread ends when it is told to stop, or when its [`Server`] is dropped.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener as StdListener},
    thread::{self, JoinHandle},
};

use tokio::{net::TcpListener, sync::oneshot, task};

use crate::Error;

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
