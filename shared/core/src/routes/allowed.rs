//! What calls may reach, and which secret may go to which host.
//!
//! The routes say where payloads and secrets go. The person that deploys a stack limits that in the stack's parameters,
//! so a person that may only publish routes cannot send a secret elsewhere or look into the network that the functions
//! run in. The same rules are asked twice: when routes are published, and right before each call. Stored routes are
//! therefore read whatever they say; a call that is not allowed is not made.

use std::net::IpAddr;

use url::Url;

use super::Routes;
use super::address::Network;
use super::downstream::{Auth, Http, Secret, USUAL_MS};

/// Environment variables that routes may name as secrets begin with this, so that no other variable leaves the process.
pub const SECRET_PREFIX: &str = "GROUPAGE_SECRET_";

/// What calls may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Host and secret; `None` allows each secret for every host.
    secrets: Option<Vec<(String, String)>>,
    /// Hosts of which the address may be one that is not public.
    hosts: Hosts,
    /// Whether a call may be long.
    long_calls: bool,
}

/// Hosts that are let into networks that are not public.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// These.
    Named(Vec<String>),
    /// This machine.
    ThisMachine,
    /// Any: nothing is known of the place where calls will be made.
    Any,
}

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// Anybody on the way could read it.
    #[error("`{0}` must begin with https://; only a downstream on the same machine is called over http")]
    NotHttps(String),
    /// Its host is an address, or has one, that is not public, and is not among the allowed.
    #[error("`{0}` is no public address, and `PrivateHosts` does not allow its host")]
    Address(String),
    /// A variable that is no secret for routes.
    #[error("the secret `env: {0}` must be a variable whose name begins with {SECRET_PREFIX}")]
    NotASecret(String),
    /// A header that is for the next machine only.
    #[error("the header `{0}` is between two machines on the way, not between a client and its server: leave it out")]
    HopByHop(String),
    /// No function has the time.
    #[error("`timeout_ms` is over {USUAL_MS}: long calls need the stack's parameter `LongCalls=true`")]
    LongCall,
    /// The stack does not let this host have this secret.
    #[error("`SecretHosts` does not allow the secret for this host: it would have to hold `{0}`")]
    Secret(String),
}

impl Forbidden {
    /// The reason that a call's members get.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotHttps(_) => "not_https",
            Self::Address(_) => "address_refused",
            Self::HopByHop(_) => "header_not_allowed",
            Self::LongCall => "long_call_not_allowed",
            Self::NotASecret(_) | Self::Secret(_) => "secret_not_allowed",
        }
    }
}

/// A route that may not do what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route `{route}`: {why}")]
pub struct Refused {
    /// Where it begins in the file, counted from 1.
    pub line: u64,
    /// The route's name.
    pub route: String,
    /// What it may not do.
    pub why: Forbidden,
}

impl Allowed {
    /// No secret, public addresses only, and no long call.
    pub const fn nothing() -> Self {
        Self { secrets: Some(Vec::new()), hosts: Hosts::Named(Vec::new()), long_calls: false }
    }

    /// What a person allows who runs everything on a machine of one's own: every secret, and this machine.
    pub const fn on_own_machine() -> Self {
        Self { secrets: None, hosts: Hosts::ThisMachine, long_calls: true }
    }

    /// Whatever some stack may allow; what is refused then is refused everywhere.
    pub const fn by_some_stack() -> Self {
        Self { secrets: None, hosts: Hosts::Any, long_calls: true }
    }

    /// The same with secrets as a list allows them: `HOST=SECRET,…`. A secret is written as its `secrets_manager` says
    /// it, or as `env:NAME`.
    ///
    /// # Errors
    /// The entry that is no such pair.
    pub fn with_secrets(self, list: &str) -> Result<Self, String> {
        let pair = |entry: &str| {
            let (host, secret) =
                entry.split_once('=').filter(|(host, secret)| !host.is_empty() && !secret.is_empty())?;
            Some((host.to_ascii_lowercase(), secret.to_owned()))
        };
        let pairs = entries(list).map(|entry| pair(entry).ok_or_else(|| entry.to_owned()));
        Ok(Self { secrets: Some(pairs.collect::<Result<_, _>>()?), ..self })
    }

    /// The same with the hosts of a list (`HOST,…`) let into networks that are not public, and no others.
    #[must_use]
    pub fn with_hosts(self, list: &str) -> Self {
        Self { hosts: Hosts::Named(entries(list).map(str::to_ascii_lowercase).collect()), ..self }
    }

    /// The same with long calls, or without.
    #[must_use]
    pub fn with_long_calls(self, long_calls: bool) -> Self {
        Self { long_calls, ..self }
    }

    /// Whether a call may be long.
    pub const fn long_calls(&self) -> bool {
        self.long_calls
    }

    /// Whether routes may be published: the first that says what it may not do.
    ///
    /// # Errors
    /// That route.
    pub fn check(&self, routes: &Routes) -> Result<(), Refused> {
        routes.iter().try_for_each(|route| {
            let why = |why| Refused { line: route.line, route: route.name.to_string(), why };
            // Of the others the functions' role says what may be called; workers that pull come by themselves.
            route.downstream.http().map_or(Ok(()), |http| self.call(http).map_err(why))
        })
    }

    /// Whether a call may be made, as far as the route says it. A host's name is not looked up here: see
    /// [`Self::address`].
    ///
    /// # Errors
    /// Why not.
    pub fn call(&self, http: &Http) -> Result<(), Forbidden> {
        // Parsed as the client parses it; the routes file was refused if that fails.
        let host = self.host(http.url.origin().as_ref(), http.url.as_str())?;
        if let Some(header) = http.hop_by_hop() {
            return Err(Forbidden::HopByHop(header.to_owned()));
        }
        if http.is_long() && !self.long_calls {
            return Err(Forbidden::LongCall);
        }
        http.secrets().try_for_each(|(_, secret)| self.secret(&host, secret))?;
        match http.auth.as_deref() {
            // What the role may do, a signature may do. So the stack says for which hosts there are signatures.
            Some(Auth::Sigv4(sigv4)) => self.named(&host, sigv4.signer()),
            // The called host gets the token, and the token endpoint the secret that it is made of.
            Some(Auth::Oauth2(client)) => {
                let url = &client.token_url;
                self.secret(&self.host(Some(url), url.as_str())?, &client.client_secret)
            }
            Some(Auth::StandardWebhooks(_)) | None => Ok(()),
        }
    }

    /// Returns the host of a URL that may be called, as far as the URL says it.
    fn host(&self, url: Option<&Url>, written: &str) -> Result<String, Forbidden> {
        let host = url.and_then(Url::host_str).unwrap_or_default().to_ascii_lowercase();
        if let Some(address) = literal(&host)
            && !self.address(&host, address)
        {
            return Err(Forbidden::Address(host));
        }
        if url.is_none_or(|url| url.scheme() != "https") && !is_this_machine(&host) {
            return Err(Forbidden::NotHttps(written.to_owned()));
        }
        Ok(host)
    }

    /// Whether a call to this host may go to this address, which is the host's own or what its name was found to mean.
    ///
    /// A name that is allowed may mean a private address. It may not mean this machine or the link, where a function's
    /// runtime and credentials are: that must be spelt out, as an address or as `localhost`.
    pub fn address(&self, host: &str, address: IpAddr) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_named = |names: &[String]| names.contains(&host);
        match (Network::of(address), &self.hosts) {
            (Network::Public, _) | (_, Hosts::Any) => true,
            (Network::Private, Hosts::Named(names)) => is_named(names),
            (Network::Loopback, Hosts::Named(names)) => is_this_machine(&host) && is_named(names),
            (Network::Loopback, Hosts::ThisMachine) => is_this_machine(&host),
            (Network::Special, Hosts::Named(names)) => literal(&host) == Some(address) && is_named(names),
            (Network::Private | Network::Special, Hosts::ThisMachine) => false,
        }
    }

    fn secret(&self, host: &str, secret: &Secret) -> Result<(), Forbidden> {
        let name = match secret {
            Secret::Env(name) if !name.starts_with(SECRET_PREFIX) => return Err(Forbidden::NotASecret(name.clone())),
            Secret::Env(name) => format!("env:{name}"),
            Secret::SecretsManager(name) => name.clone(),
        };
        self.named(host, &name)
    }

    /// Judges whether this host may have what `SecretHosts` calls so.
    fn named(&self, host: &str, name: &str) -> Result<(), Forbidden> {
        let is_allowed = |(at, of): &(String, String)| *at == host && *of == name;
        match &self.secrets {
            Some(pairs) if !pairs.iter().any(is_allowed) => Err(Forbidden::Secret(format!("{host}={name}"))),
            Some(_) | None => Ok(()),
        }
    }
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// The address that a URL's host is, if it is no name.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || literal(host).is_some_and(|address| Network::of(address) == Network::Loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(http: &str) -> Routes {
        let yaml = format!("version: 1\nroutes:\n  - {{ name: r, target: t, downstream: {{ http: {{ {http} }} }} }}\n");
        Routes::parse(&yaml).unwrap()
    }

    fn refusal(allowed: &Allowed, http: &str) -> Option<&'static str> {
        allowed.check(&routes(http)).err().map(|refused| refused.why.reason())
    }

    fn at(allowed: &Allowed, url: &str) -> Option<&'static str> {
        refusal(allowed, &format!("url: '{url}'"))
    }

    #[test]
    fn a_stack_that_allows_nothing_calls_public_addresses_over_https() {
        let nothing = Allowed::nothing();
        for url in ["https://api.example.com/x", "https://1.1.1.1/", "https://[2606:4700::1111]/"] {
            assert_eq!(at(&nothing, url), None, "{url}");
        }
        for url in [
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/",
            "http://127.0.0.1:9001/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[fd00:ec2::254]/",
            // Ways to write an address that a client understands.
            "https://2852039166/",
            "https://0xa9.0xfe.0xa9.0xfe/",
            "https://0251.0376.0251.0376/",
            "https://127.1/",
            "https://0/",
            "https://①69.254.169.254/",
        ] {
            assert_eq!(at(&nothing, url), Some("address_refused"), "{url}");
        }
        assert_eq!(at(&nothing, "http://api.example.com/"), Some("not_https"));
    }

    #[test]
    fn plain_http_stays_on_this_machine_whatever_is_allowed() {
        let all = Allowed::by_some_stack().with_hosts("10.0.0.1,intern.example,localhost,127.0.0.1");
        for (url, refused) in [
            ("http://10.0.0.1/", Some("not_https")),
            ("http://intern.example/", Some("not_https")),
            ("http://localhost.example/", Some("not_https")),
            ("http://localhost:8080/", None),
            ("http://LOCALHOST/", None),
            ("http://127.0.0.1/", None),
            ("https://10.0.0.1/", None),
        ] {
            assert_eq!(at(&all, url), refused, "{url}");
        }
    }

    #[test]
    fn a_name_may_mean_what_its_allowance_covers_and_never_the_runtime_or_the_metadata() {
        let named = Allowed::nothing().with_hosts("Intern.example, 169.254.1.1");
        let may = |allowed: &Allowed, host: &str, address: &str| allowed.address(host, address.parse().unwrap());
        assert!(may(&named, "intern.example", "10.0.0.1") && may(&named, "INTERN.example.", "fd12::1"));
        assert!(may(&named, "other.example", "1.1.1.1"));
        assert!(!may(&named, "other.example", "10.0.0.1"));
        assert!(!may(&named, "intern.example", "169.254.169.254") && !may(&named, "intern.example", "127.0.0.1"));
        assert!(may(&named, "169.254.1.1", "169.254.1.1") && !may(&named, "169.254.1.1", "169.254.169.254"));
        let own = Allowed::on_own_machine();
        assert!(may(&own, "localhost", "127.0.0.1") && may(&own, "localhost", "::1"));
        assert!(!may(&own, "rebound.example", "127.0.0.1"), "only the machine's own names mean it");
        assert!(!may(&own, "localhost", "10.0.0.1") && !may(&own, "localhost", "169.254.169.254"));
        assert!(!may(&Allowed::nothing(), "localhost", "127.0.0.1"));
    }

    #[test]
    fn a_long_call_needs_a_stack_that_makes_some() {
        let of = |timeout_ms: u64| format!("url: 'https://api.example.com/', timeout_ms: {timeout_ms}");
        assert_eq!(refusal(&Allowed::nothing(), &of(30_000)), None);
        assert_eq!(refusal(&Allowed::nothing(), &of(30_001)), Some("long_call_not_allowed"));
        assert_eq!(refusal(&Allowed::nothing().with_long_calls(true), &of(840_000)), None);
        assert_eq!(refusal(&Allowed::by_some_stack(), &of(840_000)), None);
    }

    const KEY: &str = "headers: { A: { secret: { secrets_manager: 'trucks/key' } } }";

    #[test]
    fn a_secret_goes_to_the_host_that_it_is_allowed_for_and_to_no_other() {
        let trucks = Allowed::nothing().with_secrets("Trucks.example=trucks/key, mail.example=env:GROUPAGE_SECRET_M");
        let trucks = trucks.unwrap();
        assert_eq!(refusal(&trucks, &format!("url: 'https://TRUCKS.example:444/', {KEY}")), None);
        for url in ["https://evil.example/", "https://trucks.example.evil/", "https://trucks.example@evil.example/"] {
            assert_eq!(refusal(&trucks, &format!("url: '{url}', {KEY}")), Some("secret_not_allowed"), "{url}");
        }
        let env =
            |name: &str| format!("url: 'https://mail.example/', headers: {{ A: {{ secret: {{ env: {name} }} }} }}");
        assert_eq!(refusal(&trucks, &env("GROUPAGE_SECRET_M")), None);
        assert_eq!(refusal(&trucks, &env("GROUPAGE_SECRET_N")), Some("secret_not_allowed"));
        assert_eq!(
            refusal(&Allowed::nothing(), &format!("url: 'https://trucks.example/', {KEY}")),
            Some("secret_not_allowed")
        );
    }

    #[test]
    fn a_signature_and_a_tokens_secret_go_to_the_hosts_that_they_are_allowed_for() {
        let role = "arn:aws:iam::123456789012:role/loader";
        let (key, at) = ("env:GROUPAGE_SECRET_C", |host: &str, what: &str| format!("{host}.example={what},"));
        let list = at("a", "sigv4") + &at("b", role) + &at("id", key) + &at("api", key);
        let allowed = Allowed::nothing().with_secrets(&list).unwrap();
        let signed =
            |host: &str, role: &str| format!("url: 'https://{host}/', auth: {{ sigv4: {{ service: es{role} }} }}");
        let with_role = format!(", role: '{role}'");
        let token = |api: &str, id: &str| {
            let client = "client_id: c, client_secret: { env: GROUPAGE_SECRET_C }";
            format!("url: 'https://{api}/', auth: {{ oauth2: {{ token_url: '{id}', {client} }} }}")
        };
        for (http, refused) in [
            (signed("a.example", ""), None),
            (signed("a.example", &with_role), Some("secret_not_allowed")),
            (signed("b.example", &with_role), None),
            (signed("b.example", ""), Some("secret_not_allowed")),
            (token("api.example", "https://id.example/token"), None),
            (token("evil.example", "https://id.example/token"), Some("secret_not_allowed")),
            (token("api.example", "https://evil.example/token"), Some("secret_not_allowed")),
            (token("api.example", "http://id.example/token"), Some("not_https")),
            (token("api.example", "https://169.254.169.254/token"), Some("address_refused")),
        ] {
            assert_eq!(refusal(&allowed, &http), refused, "{http}");
        }
        let webhooks = "url: 'https://a.example/', auth: { standard_webhooks: { secret: { secrets_manager: w } } }";
        let tls = "url: 'https://a.example/', tls: { client: { certificate: { secrets_manager: c }, \
                   key: { secrets_manager: k } } }";
        let named = "url: 'https://a.example/{secrets.k}', secrets: { k: { secrets_manager: k } }";
        for http in [webhooks, tls, named] {
            assert_eq!(refusal(&allowed, http), Some("secret_not_allowed"), "{http}");
        }
    }

    #[test]
    fn a_variable_without_the_prefix_is_no_secret_anywhere() {
        let aws = "url: 'https://a.example/', headers: { A: { secret: { env: AWS_SECRET_ACCESS_KEY } } }";
        for allowed in [Allowed::by_some_stack(), Allowed::on_own_machine()] {
            assert_eq!(refusal(&allowed, aws), Some("secret_not_allowed"));
        }
        let text = Allowed::by_some_stack().check(&routes(aws)).unwrap_err().to_string();
        assert!(text.starts_with("route `r`: the secret `env: AWS_SECRET_ACCESS_KEY`"), "{text}");
    }

    #[test]
    fn a_header_that_frames_a_request_is_refused() {
        for header in ["Connection: close", "transfer-encoding: chunked", "TE: trailers", "Upgrade: h2c"] {
            let http = format!("url: 'https://a.example/', headers: {{ {header} }}");
            assert_eq!(refusal(&Allowed::by_some_stack(), &http), Some("header_not_allowed"), "{header}");
        }
    }

    #[test]
    fn an_address_that_is_filled_in_is_judged_by_its_host() {
        let named = Allowed::nothing().with_hosts("10.0.0.1");
        assert_eq!(at(&named, "https://10.0.0.1/{target}?b={batch}"), None);
        assert_eq!(at(&Allowed::nothing(), "https://10.0.0.1/{target}"), Some("address_refused"));
        assert_eq!(at(&named, "http://a.example/{target}"), Some("not_https"));
    }

    #[test]
    fn an_entry_that_is_no_pair_is_named() {
        for entry in ["trucks.example", "=key", "trucks.example="] {
            assert_eq!(Allowed::nothing().with_secrets(&format!("a=b,{entry}")), Err(entry.to_owned()));
        }
        assert_eq!(Allowed::on_own_machine().with_secrets(" ,").unwrap().secrets, Some(Vec::new()));
    }
}
