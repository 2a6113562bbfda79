//! Why a call over HTTP got no answer.
//!
//! Only a token goes on: an error's text may quote the URL, and with it what an operator put there.

use std::error::Error;
use std::io::{self, ErrorKind};

use groupage_core::domain::outcome::Reason;
use groupage_core::ports::NoAnswer;
use rustls::{AlertDescription, CertificateError};

use super::lookup::{NotFound, Refused};

/// Returns why there is no answer.
#[expect(clippy::needless_pass_by_value, reason = "an error is passed on by value")]
pub(super) fn no_answer(error: reqwest::Error) -> NoAnswer {
    let causes = || std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| inner(*error));
    if error.is_builder() {
        NoAnswer::Misconfigured(Reason::new("request_unusable"))
    } else if causes().any(|cause| cause.is::<Refused>()) {
        NoAnswer::Misconfigured(Reason::new("address_refused"))
    } else if error.is_timeout() {
        NoAnswer::Timeout
    } else {
        // The innermost cause that says something says most.
        let said: Vec<&'static str> = causes().filter_map(of).collect();
        said.last().map_or(NoAnswer::Connection, |reason| NoAnswer::Other(Reason::new(*reason)))
    }
}

/// What an error was made of. An I/O error hides the one that it was made of from `source`.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn of(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if cause.is::<NotFound>() {
        Some("dns")
    } else if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        of_tls(error)
    } else if let Some(error) = cause.downcast_ref::<hyper::Error>() {
        let cut = error.is_incomplete_message().then_some("connection_closed");
        cut.or_else(|| error.is_parse().then_some("not_http"))
    } else {
        match cause.downcast_ref::<io::Error>()?.kind() {
            ErrorKind::ConnectionRefused => Some("connection_refused"),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Some("connection_closed"),
            // A chunk without its length.
            ErrorKind::InvalidInput | ErrorKind::InvalidData => Some("not_http"),
            _ => None,
        }
    }
}

/// TLS names most of what is wrong with a certificate; a server that wants one of the client says so by an alert.
fn of_tls(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::InvalidCertificate(of) => match of {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Some("tls_expired"),
            CertificateError::UnknownIssuer => Some("tls_unknown_issuer"),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Some("tls_wrong_name")
            }
            _ => Some("tls_certificate"),
        },
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::BadCertificate | AlertDescription::NoCertificate,
        ) => Some("tls_client_certificate"),
        _ => Some("tls"),
    }
}

#[cfg(test)]
pub(super) mod tests;
