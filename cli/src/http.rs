//! What is served over HTTP on a loopback port: the API, and the console's pages.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use embedded::guard::{COOKIE_OF_LINK, Door, FORM, Guard, Key, LINK};
use groupage_console::{Console, Pass};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The port is taken, or may not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on 127.0.0.1:{port}: {source}. Choose another port with {option}, or 0 for any")]
pub struct Error {
    port: u16,
    option: &'static str,
    source: io::Error,
}

/// A server, for as long as this lives.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    link: Key,
    serving: Vec<JoinHandle<()>>,
}

impl Server {
    /// Takes requests for `router` from now on, from those that know the key; port 0 stands for any free one. `option`
    /// chooses another port.
    pub async fn start(port: u16, option: &'static str, key: &Key, router: Router) -> Result<Self, Error> {
        let failed = |source| Error { port, option, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(Door::Api, key.clone());
        let service = TowerToHyperService::new(router);
        // It is cut off when this is dropped.
        let serving = embedded::serve(listener, guard, service, std::future::pending::<()>(), Duration::ZERO);
        Ok(Self { address, link: key.derived(LINK), serving: vec![tokio::spawn(serving)] })
    }

    /// The same, while the console keeps its figures.
    pub fn with_figures_of(mut self, console: Arc<Console>) -> Self {
        self.serving.push(tokio::spawn(async move {
            loop {
                console.note();
                tokio::time::sleep(SAMPLED_EVERY).await;
            }
        }));
        self
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The link to the console.
    pub fn console(&self) -> String {
        format!("{}/console?key={}", self.url(), self.link.reveal())
    }
}

/// How often the console's figures are kept.
const SAMPLED_EVERY: Duration = Duration::from_secs(5);

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

/// What lets a browser into the console of a stack with this key.
pub fn pass(key: &Key) -> Pass {
    let [link, cookie, form] = [LINK, COOKIE_OF_LINK, FORM].map(|purpose| key.derived(purpose).reveal().to_owned());
    Pass { link, cookie, form }
}
