//! Whether the stack that a command is to work on can be reached at all, asked once before anything else: what an SDK
//! says of a refused connection or of missing credentials helps nobody.

use std::env;
use std::net::TcpStream;

use anyhow::{Result, anyhow, bail};
use aws_config::SdkConfig;
use aws_sdk_cloudformation::config::ProvideCredentials as _;

/// What to do when no stack is named.
pub const HOW_TO_NAME_IT: &str =
    "start `groupage local` and load its environment with `. groupage-data/env`, or name a deployed stack with --stack";

/// The variables that say where a stack on this machine is.
const ADDRESSES: [&str; 3] = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"];

/// Fails if the environment names a server on this machine where nothing listens.
pub fn answers() -> Result<()> {
    let addresses = ADDRESSES.iter().filter_map(|name| env::var(name).ok());
    for address in addresses {
        if let Some(place) = on_this_machine(&address)
            && TcpStream::connect(place).is_err()
        {
            bail!("nothing answers at {address}: is `groupage local` running?");
        }
    }
    Ok(())
}

/// Host and port of an address, if it is one of this machine.
fn on_this_machine(address: &str) -> Option<&str> {
    let place = address.strip_prefix("http://")?.split('/').next()?;
    let (host, port) = place.rsplit_once(':')?;
    let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    (is_here && port.parse::<u16>().is_ok()).then_some(place)
}

/// Fails if there are no credentials for AWS.
pub async fn has_credentials(config: &SdkConfig) -> Result<()> {
    let missing = || {
        anyhow!(
            "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in \
             with `aws sso login`"
        )
    };
    let provider = config.credentials_provider().ok_or_else(missing)?;
    provider.provide_credentials().await.map(|_| ()).map_err(|_| missing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_told_from_others() {
        assert_eq!(on_this_machine("http://127.0.0.1:9324"), Some("127.0.0.1:9324"));
        assert_eq!(on_this_machine("http://localhost:80/"), Some("localhost:80"));
        for other in ["https://127.0.0.1:1", "http://sqs.example:9324", "http://127.0.0.1", "http://127.0.0.1:x"] {
            assert_eq!(on_this_machine(other), None, "{other}");
        }
    }
}
