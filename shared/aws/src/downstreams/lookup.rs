//! Names become addresses here, and only those addresses are connected to that a call may go to.
//!
//! The client asks nobody else, and connects to what it gets: there is no second look-up whose answer could be another.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use groupage_core::routes::Allowed;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Looks a host's name up.
type LookUp = fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;

/// Every address of the name is one that calls may not go to.
#[derive(Debug, thiserror::Error)]
#[error("no address of the host is allowed")]
pub(crate) struct Refused;

/// The name cannot be looked up.
#[derive(Debug, thiserror::Error)]
#[error("the host's name is not found")]
pub(crate) struct NotFound;

/// Looks names up, and leaves out what calls may not go to.
#[derive(Debug)]
pub(crate) struct Guarded {
    allowed: Arc<Allowed>,
    look_up: LookUp,
}

impl Guarded {
    /// By the system's resolver.
    pub(crate) fn new(allowed: Arc<Allowed>) -> Self {
        Self {
            allowed,
            look_up: |host| Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }),
        }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, allowed, found) =
            (name.as_str().to_owned(), Arc::clone(&self.allowed), (self.look_up)(name.as_str().to_owned()));
        Box::pin(async move {
            let mut found = found.await.map_err(|_| NotFound)?;
            found.retain(|address| allowed.address(&host, address.ip()));
            if found.is_empty() {
                return Err(Refused.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use groupage_core::domain::outcome::Reason;
    use groupage_core::ports::NoAnswer;

    use super::*;
    use crate::downstreams::broken::no_answer;

    async fn found(allowed: Allowed, host: &str) -> Option<Vec<IpAddr>> {
        let answer =
            |_| Box::pin(async { Ok(vec![address("10.0.0.1"), address("1.1.1.1"), address("127.0.0.1")]) }) as _;
        let guarded = Guarded { allowed: Arc::new(allowed), look_up: answer };
        guarded.resolve(host.parse().unwrap()).await.ok().map(|addresses| addresses.map(|found| found.ip()).collect())
    }

    fn address(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 0)
    }

    #[tokio::test]
    async fn a_name_means_only_its_allowed_addresses() {
        let is = |ips: &[&str]| Some(ips.iter().map(|ip| address(ip).ip()).collect::<Vec<_>>());
        assert_eq!(found(Allowed::nothing(), "a.example").await, is(&["1.1.1.1"]));
        assert_eq!(found(Allowed::nothing().with_hosts("a.example"), "a.example").await, is(&["10.0.0.1", "1.1.1.1"]));
    }

    #[tokio::test]
    async fn a_name_without_an_allowed_address_is_refused_and_the_client_says_so() {
        let inside = |_| Box::pin(async { Ok(vec![address("10.0.0.1"), address("169.254.169.254")]) }) as _;
        let guarded = Guarded { allowed: Arc::new(Allowed::nothing()), look_up: inside };
        let client =
            reqwest::Client::builder().no_proxy().tls_backend_preconfigured(crate::downstreams::client::tls().unwrap());
        let client = client.dns_resolver(guarded).build().unwrap();
        let error = client.get("https://inside.example/").send().await.unwrap_err();
        assert_eq!(no_answer(error), NoAnswer::Misconfigured(Reason::new("address_refused")));
    }
}
