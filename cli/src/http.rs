//! The HTTP API on a loopback port, as `groupage local` serves it: for those that know the stack's key.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use embedded::guard::{Door, Guard, Key};
use groupage_aws::entry::AwsStack;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The port is taken, or may not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the HTTP API on 127.0.0.1:{port}: {source}. Choose another port with --http-port, or 0 for any")]
pub struct Error {
    port: u16,
    source: io::Error,
}

/// The API, for as long as this lives.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Server {
    /// Takes requests from now on; port 0 stands for any free one.
    pub async fn start(port: u16, key: &Key, stack: Arc<AwsStack>) -> Result<Self, Error> {
        let failed = |source| Error { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(Door::Api, key.clone());
        let service = TowerToHyperService::new(api::router(stack));
        // It is cut off when this is dropped.
        let serving = embedded::serve(listener, guard, service, std::future::pending::<()>(), Duration::ZERO);
        let serving = tokio::spawn(serving);
        Ok(Self { address, serving })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
