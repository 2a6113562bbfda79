//! The clients of calls over HTTP: one for all routes, and one for each set of certificates of their own.
//!
//! Only the route decides where a call goes: redirects are answers like any other, and no proxy is taken from the
//! environment.

use std::sync::Arc;
use std::time::Duration;

use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use groupage_core::routes::Allowed;
use groupage_core::routes::downstream::Tls;
use reqwest::{Client, redirect};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tracing::warn;

use super::fresh::Fresh;
use super::lookup::Guarded;
use super::secrets::{MAX_AGE, Secrets, YOUNG};

const USER_AGENT: &str = concat!("groupage/", env!("CARGO_PKG_VERSION"));

/// Packets go to and fro so often while an answer is waited for. A NAT gateway of AWS forgets a connection after 350 s
/// without any.
const KEPT_ALIVE: Duration = Duration::from_secs(60);
/// Servers close idle connections after a minute or more; a connection that is surely open saves a reset.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// A client with the machine's own certificates lasts for so long. Others last as long as their secrets do.
const LASTS: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes clients, which connect to allowed addresses only.
#[derive(Debug)]
pub(super) struct Clients {
    allowed: Arc<Allowed>,
    by_tls: Fresh<Option<Box<Tls>>, Client>,
}

impl Clients {
    pub(super) fn new(allowed: Arc<Allowed>) -> Self {
        Self { allowed, by_tls: Fresh::new(YOUNG) }
    }

    /// Returns the client for these certificates.
    pub(super) async fn get(&self, tls: &Option<Box<Tls>>, secrets: &Secrets) -> Result<Client, NoAnswer> {
        let made = async || {
            let config = match tls {
                Some(tls) => own_tls(tls, secrets).await?,
                None => self::tls().map_err(|error| unusable("http_client", &error))?,
            };
            Ok((self.connect(config)?, if tls.is_some() { MAX_AGE } else { LASTS }))
        };
        self.by_tls.get(tls, made).await
    }

    fn connect(&self, tls: ClientConfig) -> Result<Client, NoAnswer> {
        Client::builder()
            .tls_backend_preconfigured(tls)
            // A redirect would carry payloads and secrets to an address that no route names.
            .redirect(redirect::Policy::none())
            // So would a proxy variable that was set for something else.
            .no_proxy()
            .dns_resolver(Guarded::new(Arc::clone(&self.allowed)))
            .user_agent(USER_AGENT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_keepalive(KEPT_ALIVE)
            .build()
            .map_err(|error| unusable("http_client", &error))
    }
}

/// TLS by rustls and ring, with the machine's root certificates.
pub(crate) fn tls() -> Result<ClientConfig, rustls::Error> {
    Ok(builder()?.with_root_certificates(machine_roots()).with_no_client_auth())
}

/// Reads a route's own certificates.
async fn own_tls(tls: &Tls, secrets: &Secrets) -> Result<ClientConfig, NoAnswer> {
    let ca = match &tls.ca {
        Some(ca) => Some(secrets.text(ca).await?),
        None => None,
    };
    let client = match &tls.client {
        Some(of) => Some((secrets.text(&of.certificate).await?, secrets.text(&of.key).await?)),
        None => None,
    };
    with_certificates(ca.as_deref(), client.as_ref().map(|(chain, key)| (chain.as_str(), key.as_str())))
}

/// TLS with these certificates, each as PEM: the authority's, and the client's with its key.
fn with_certificates(ca: Option<&str>, client: Option<(&str, &str)>) -> Result<ClientConfig, NoAnswer> {
    let mut roots = if ca.is_some() { RootCertStore::empty() } else { machine_roots() };
    for ca in ca.iter().copied() {
        for certificate in certificates(ca, "tls.ca")? {
            roots.add(certificate).map_err(|error| unusable("tls_unusable", &error))?;
        }
    }
    let builder = builder().map_err(|error| unusable("tls_unusable", &error))?.with_root_certificates(roots);
    let Some((chain, key)) = client else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(chain, "tls.client.certificate")?;
    // What is wrong with a key is not said: its error could quote it.
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| unusable("tls_unusable", &"tls.client.key holds no private key in PEM"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| unusable("tls_unusable", &error))
}

fn certificates(pem: &str, field: &str) -> Result<Vec<CertificateDer<'static>>, NoAnswer> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = read.ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| unusable("tls_unusable", &format!("{field} holds no certificate in PEM")))
}

fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A certificate that nobody can parse is of use to nobody; with none at all, https calls fail and say so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// The provider is named, not the process's default: which one that is depends on what else is linked in.
fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
}

fn unusable(reason: &str, error: &dyn std::fmt::Display) -> NoAnswer {
    warn!(%error, "the HTTP client cannot be made");
    NoAnswer::Misconfigured(Reason::new(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downstreams::broken::tests::{PEM, serve};

    #[tokio::test]
    async fn a_server_with_an_authority_of_its_own_is_shown_the_clients_certificate() {
        let tls = with_certificates(Some(PEM), Some((PEM, PEM))).unwrap();
        let client = Clients::new(Arc::new(Allowed::on_own_machine())).connect(tls).unwrap();
        let answer = client.post(format!("https://localhost:{}/", serve(true))).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 204);
    }

    #[test]
    fn what_is_no_certificate_and_no_key_stops_the_route() {
        let unusable = NoAnswer::Misconfigured(Reason::new("tls_unusable"));
        for (ca, client) in [
            (Some("no PEM"), None),
            (None, Some(("", PEM))),
            (None, Some((PEM, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"))),
            (None, Some((PEM, ""))),
        ] {
            assert_eq!(with_certificates(ca, client).err(), Some(unusable.clone()), "{ca:?} {client:?}");
        }
    }
}
