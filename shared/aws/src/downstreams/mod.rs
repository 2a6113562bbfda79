//! The downstream batch APIs: a call goes over HTTP or to a Lambda function, as its route says.
//!
//! One call here is one call there: nothing on the way repeats it. What to repeat, and when, is the route's retry
//! policy.

mod http;
mod lambda;
mod lookup;
mod secrets;

use std::time::Duration;

use aws_config::SdkConfig;
use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, Call, Downstream, NoAnswer};
use groupage_core::routes::{self, Allowed};

use self::http::HttpCaller;
pub(crate) use self::http::tls;
use self::lambda::LambdaCaller;
use self::secrets::Secrets;

/// The port `Downstream`. Nothing is connected, or even loaded, before the first call that needs it.
#[derive(Debug)]
pub struct Downstreams {
    http: HttpCaller,
    lambda: LambdaCaller,
}

impl Downstreams {
    /// Downstreams whose secrets and functions are reached with this configuration. No other call is made, and no other
    /// secret sent, than is `allowed`.
    pub fn new(config: &SdkConfig, allowed: Allowed) -> Self {
        let http = HttpCaller::new(Secrets::new(config.clone()), allowed);
        Self { http, lambda: LambdaCaller::new(config.clone()) }
    }
}

impl Downstream for Downstreams {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let timeout = Duration::from_millis(call.downstream.timeout_ms().unwrap_or_default());
        match call.downstream {
            routes::Downstream::Http(http) => self.http.call(http, call, timeout).await,
            routes::Downstream::Lambda(lambda) => self.lambda.call(lambda, call, timeout).await,
            // Nobody hands such a batch on; its workers have a downstream of their own.
            routes::Downstream::Pull => Err(NoAnswer::Misconfigured(Reason::new("route_is_pulled"))),
        }
    }
}
