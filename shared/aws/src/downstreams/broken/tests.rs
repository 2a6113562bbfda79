//! Servers on this machine whose certificates are no good, or that want one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use reqwest::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A certificate for `localhost` until the year 2120, and its key. It is its own authority.
pub(in crate::downstreams) const PEM: &str = include_str!("localhost.pem");

#[derive(Debug)]
struct Year(u64);

impl TimeProvider for Year {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs((self.0 - 1970) * 365 * 86_400)))
    }
}

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(PEM.as_bytes()).unwrap()).unwrap();
    Arc::new(roots)
}

/// Serves one connection, and answers 204 if it comes about. Returns the port.
pub(in crate::downstreams) fn serve(wants_certificate: bool) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = || ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(), Arc::clone(&provider)).build().unwrap();
    let builder = versions().unwrap();
    let builder =
        if wants_certificate { builder.with_client_cert_verifier(verifier) } else { builder.with_no_client_auth() };
    let chain = vec![CertificateDer::from_pem_slice(PEM.as_bytes()).unwrap()];
    let config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_slice(PEM.as_bytes()).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (connection, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), connection);
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
        // What is left unread would be answered with a reset, before which the client may not see the alert.
        let _ = std::io::copy(&mut stream.sock, &mut std::io::sink());
    });
    port
}

/// Why a call gets no answer of a client that knows the certificate, or none, in this year.
async fn why(host: &str, (knows, year): (bool, u64), wants_certificate: bool) -> NoAnswer {
    let roots = if knows { roots() } else { Arc::new(RootCertStore::empty()) };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Year(year)));
    let tls =
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let client = Client::builder().no_proxy().tls_backend_preconfigured(tls).build().unwrap();
    let url = format!("https://{host}:{}/", serve(wants_certificate));
    no_answer(client.post(url).body("{}").send().await.unwrap_err())
}

#[tokio::test]
async fn each_fault_of_a_certificate_has_its_reason() {
    let is = |reason: &str| NoAnswer::Other(Reason::new(reason));
    assert_eq!(why("localhost", (false, 2030), false).await, is("tls_unknown_issuer"));
    assert_eq!(why("localhost", (true, 2130), false).await, is("tls_expired"));
    assert_eq!(why("127.0.0.1", (true, 2030), false).await, is("tls_wrong_name"));
    assert_eq!(why("localhost", (true, 2030), true).await, is("tls_client_certificate"));
}
