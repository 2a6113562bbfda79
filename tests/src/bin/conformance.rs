//! The claims about tables and queues, on a DynamoDB and an SQS of one's choice.
//!
//! It runs the claims of `tests/tests/it/ports` one after the other, and removes the tables and queues that these made,
//! however they end. Their names are those of this run alone, so nothing else is touched.

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, ExitCode, Stdio};

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use clap::{ArgGroup, Parser};
use groupage_aws::System;
use groupage_core::ports::Env;
use groupage_lab::engine;
use serde_json::{Value, json};

/// What all claims cost on AWS at most: they make fewer than 100,000 requests, each of a unit or two.
const DOLLARS: f64 = 0.15;

/// How far an index of AWS is behind at most while nothing else is asked of it, in milliseconds: AWS promises no more
/// than "a fraction of a second, under normal conditions".
const LAG_MS: &str = "2000";

/// Run the claims about tables and queues on any DynamoDB and SQS, and show what holds there.
///
/// A claim is a small test of one promise that Groupage relies on, such as "of two writers one wins". Use this before
/// you trust an emulator, a compatible database, or a new region.
///
/// Give the address of one or both, or --aws for AWS itself. All names of tables and queues begin with --prefix and a
/// number of this run. They are removed at the end, and after Ctrl-C.
///
/// Examples:
///   conformance --dynamodb http://127.0.0.1:8000
///   conformance --dynamodb http://127.0.0.1:4566 --sqs http://127.0.0.1:4566 --json
///   conformance --aws --profile sandbox --prefix gp-conformance --yes
///
/// The exit code is 0 if all claims hold, 1 if some do not or the engine cannot be reached, and 2 if an option is
/// missing or wrong.
#[derive(Debug, Parser)]
#[command(name = "conformance", verbatim_doc_comment)]
#[command(group(ArgGroup::new("engine").required(true).multiple(true).args(["dynamodb", "sqs", "aws"])))]
struct Args {
    /// Where DynamoDB is, such as http://127.0.0.1:4566. Without it, the claims about tables are left out.
    #[arg(long, value_name = "URL")]
    dynamodb: Option<String>,
    /// Where SQS is. Without it, the claims about queues are left out.
    #[arg(long, value_name = "URL")]
    sqs: Option<String>,
    /// AWS itself. Says what it costs, and begins only with --yes.
    #[arg(long, conflicts_with_all = ["dynamodb", "sqs"])]
    aws: bool,
    /// The profile of your AWS configuration to use, whatever the environment says. Without it, the credentials of the
    /// environment.
    #[arg(long, value_name = "NAME", requires = "aws")]
    profile: Option<String>,
    /// Begin although it may cost something: on AWS, or at an address that is not this machine's.
    #[arg(long)]
    yes: bool,
    /// What the names of tables and queues begin with.
    #[arg(long, value_name = "TEXT", default_value = "groupage-conformance")]
    prefix: String,
    /// Print the result as JSON: for each suite how many claims hold, and the names of those that do not.
    #[arg(long)]
    json: bool,
}

/// What the environment says of credentials.
const CREDENTIALS: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// How the claims of a suite fared.
#[derive(Debug, Default)]
struct Suite {
    hold: usize,
    fail: Vec<String>,
}

/// By name.
type Suites = BTreeMap<String, Suite>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<bool, engine::Failure> {
    if !args.yes && args.may_cost() {
        let what = "this makes nine tables and about 150 queues, removes them, and takes some minutes";
        return Err(format!("{what}. On AWS it costs less than ${DOLLARS}: say --yes if you want that").into());
    }
    let number: String = System.fresh_id().chars().take(8).collect();
    let prefix = format!("{}-{number}", args.prefix);
    // An interrupt ends the claims, which are another process. What they made is removed all the same.
    tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    let suites = tokio::task::block_in_place(|| claims(args, &prefix));
    let config = args.config(&prefix).await;
    let at = |url: &Option<String>| match url {
        Some(url) => config.to_builder().endpoint_url(url).build(),
        None => config.clone(),
    };
    let mut removed = Vec::new();
    if args.has_tables() {
        removed.push(engine::remove_tables(&at(&args.dynamodb), &prefix).await);
    }
    if args.has_queues() {
        removed.push(engine::remove_queues(&at(&args.sqs), &prefix).await);
    }
    let suites = suites?;
    removed.into_iter().collect::<Result<(), _>>()?;
    println!("{}", if args.json { json_of(&suites).to_string() } else { table(&suites) });
    Ok(suites.values().all(|suite| suite.fail.is_empty()))
}

impl Args {
    const fn has_tables(&self) -> bool {
        self.aws || self.dynamodb.is_some()
    }

    const fn has_queues(&self) -> bool {
        self.aws || self.sqs.is_some()
    }

    /// Whether the engine is AWS, or may be: an address that is not this machine's.
    fn may_cost(&self) -> bool {
        let is_here = |url: &String| {
            let host = url::Url::parse(url).ok().and_then(|url| url.host().map(|host| host.to_owned()));
            match host {
                Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
                Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
                Some(url::Host::Domain(name)) => name == "localhost",
                None => false,
            }
        };
        self.aws || ![&self.dynamodb, &self.sqs].into_iter().flatten().all(is_here)
    }

    /// The environment that leads to the engine. An emulator takes any credentials, so none have to be given.
    fn environment(&self, prefix: &str) -> Vec<(&'static str, String)> {
        let or = |name, otherwise: &str| env::var(name).unwrap_or_else(|_| otherwise.to_owned());
        let mut environment = vec![(engine::PREFIX, prefix.to_owned())];
        if self.aws {
            environment.push((engine::LAG_MS, LAG_MS.to_owned()));
            environment.extend(self.profile.clone().map(|profile| ("AWS_PROFILE", profile)));
        } else {
            for (name, otherwise) in
                [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")]
            {
                environment.push((name, or(name, otherwise)));
            }
            environment.extend(self.dynamodb.clone().map(|url| ("AWS_ENDPOINT_URL_DYNAMODB", url)));
            environment.extend(self.sqs.clone().map(|url| ("AWS_ENDPOINT_URL_SQS", url)));
        }
        environment
    }

    /// The same for this process.
    async fn config(&self, prefix: &str) -> SdkConfig {
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(groupage_aws::http_client());
        if let Some(profile) = &self.profile {
            let provider = ProfileFileCredentialsProvider::builder().profile_name(profile).build();
            loader = loader.profile_name(profile).credentials_provider(provider);
        }
        let given: BTreeMap<_, _> = self.environment(prefix).into_iter().collect();
        // Of AWS nothing of this is given.
        if let (Some(key), Some(secret), Some(region)) =
            (given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY"), given.get("AWS_REGION"))
        {
            loader = loader.region(Region::new(region.clone()));
            loader = loader.credentials_provider(Credentials::new(key, secret, None, None, "conformance"));
        }
        loader.load().await
    }
}

/// Runs the claims in the tests' own program.
fn claims(args: &Args, prefix: &str) -> Result<Suites, engine::Failure> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--quiet", "--workspace", "--locked", "--test", "it", "--"]);
    cargo.args(["--test-threads=1", "--format=pretty"]);
    if args.has_tables() {
        cargo.args(["::on_dynamodb::", "::on_dynamodb_losing_answers::"]);
    }
    if args.has_queues() {
        cargo.arg("::on_sqs::");
    }
    if args.profile.is_some() {
        // They would count for more than the profile.
        for name in CREDENTIALS {
            cargo.env_remove(name);
        }
    }
    // Claims that do not hold are counted, so how the program ends says nothing more.
    let done = cargo.envs(args.environment(prefix)).stderr(Stdio::inherit()).output()?;
    let output = String::from_utf8_lossy(&done.stdout);
    let suites = suites(&output);
    if suites.is_empty() { Err(format!("no claim was run:\n{output}").into()) } else { Ok(suites) }
}

/// Reads the results: `test ports::SUITE::on_ENGINE::CLAIM ... ok`.
fn suites(output: &str) -> Suites {
    let mut suites = Suites::new();
    let results = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    for (test, result) in results {
        let parts: Vec<&str> = test.split("::").collect();
        let ["ports", suite @ .., fixture, claim] = parts.as_slice() else { continue };
        let suite = suites.entry(suite.join("::")).or_default();
        if result == "ok" {
            suite.hold += 1;
        } else {
            let twice = if fixture.ends_with("losing_answers") { ", if answers are lost" } else { "" };
            suite.fail.push(format!("{claim}{twice}"));
        }
    }
    suites
}

fn table(suites: &Suites) -> String {
    let row = |(name, suite): (&String, &Suite)| {
        let fail: String = suite.fail.iter().map(|claim| format!("\n    not: {claim}")).collect();
        format!("{:4} of {:4}  {name}{fail}\n", suite.hold, suite.hold + suite.fail.len())
    };
    suites.iter().map(row).collect()
}

fn json_of(suites: &Suites) -> Value {
    suites.iter().map(|(name, suite)| (name.clone(), json!({ "hold": suite.hold, "fail": suite.fail }))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn what_holds_and_what_does_not_is_counted_by_suite() {
        let output = "
running 4 tests
test ports::locks::on_dynamodb::fence_survives_a_release ... ok
test ports::locks::on_dynamodb_losing_answers::fence_survives_a_release ... FAILED
test ports::queues::on_sqs::a_delayed_message_is_not_received_yet ... ok
test leader::something_else ... ok
";
        let found = suites(output);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["locks", "queues"]);
        assert_eq!((found["locks"].hold, found["queues"].hold), (1, 1));
        assert_eq!(found["locks"].fail, ["fence_survives_a_release, if answers are lost"]);
        assert!(table(&found).contains("   1 of    2  locks\n    not: fence"));
    }

    #[test]
    fn an_engine_must_be_named_and_aws_is_not_begun_by_mistake() {
        Args::command().debug_assert();
        for wrong in [&["conformance"][..], &["conformance", "--sqs", "http://x", "--aws"], &["conformance", "--yes"]] {
            assert!(Args::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
        assert!(Args::try_parse_from(["conformance", "--aws", "--profile", "sandbox"]).is_ok_and(|args| !args.yes));
    }

    #[tokio::test]
    async fn the_price_is_said_before_anything_is_made() {
        let far = "https://dynamodb.eu-central-1.amazonaws.com";
        for given in [&["conformance", "--aws"][..], &["conformance", "--dynamodb", far]] {
            let said = run(&Args::try_parse_from(given).unwrap()).await.unwrap_err().to_string();
            assert!(said.contains("less than $0.15") && said.contains("--yes"), "{said}");
        }
    }

    #[test]
    fn an_engine_on_this_machine_costs_nothing() {
        for here in ["http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost:4566"] {
            assert!(!Args::try_parse_from(["conformance", "--sqs", here]).unwrap().may_cost(), "{here}");
        }
        let mixed = ["conformance", "--sqs", "http://127.0.0.1:1", "--dynamodb", "https://db.example"];
        assert!(Args::try_parse_from(mixed).unwrap().may_cost());
    }
}
