//! What is served over HTTP on a loopback port: the API, and the console's pages.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use embedded::guard::{Door, Guard, Key, Opens};
use groupage_aws::System;
use groupage_console::{Console, Entry, Pass};
use groupage_core::domain::time::DAY_MS;
use groupage_core::ports::Env;
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
    link: String,
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
        let link = key.pass(Opens::Console, System.now().plus_ms(DAY_MS));
        Ok(Self { address, link, serving: vec![tokio::spawn(serving)] })
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

    /// The link to the console. It works for a day from the start.
    pub fn console(&self) -> String {
        format!("{}/console?key={}", self.url(), self.link)
    }
}

/// How often the console's figures are kept.
const SAMPLED_EVERY: Duration = Duration::from_secs(5);

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

/// Lets browsers into the console of a stack with this key, each for a day.
pub fn pass(key: &Key) -> Pass {
    let (entered, acted) = (key.clone(), key.clone());
    Pass {
        enter: Box::new(move |link| {
            let (now, ends) = (System.now(), System.now().plus_ms(DAY_MS));
            let [cookie, act] = [Opens::Pages, Opens::Acts].map(|opens| entered.pass(opens, ends));
            entered.admits(Opens::Console, link, now).then_some(Entry { cookie, act, seconds: DAY_MS / 1_000 })
        }),
        may_act: Box::new(move |brought| acted.admits(Opens::Acts, brought, System.now())),
    }
}
