//! The claims about tables and queues, on a DynamoDB and an SQS of one's choice.
//!
//! It runs the claims of `tests/tests/it/ports` one after the other, and removes the tables and queues that these made,
//! however they end.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use groupage_tests::engine;
use serde_json::{Value, json};

/// What all claims cost on AWS at most: they make fewer than 100,000 requests, each of a unit or two.
const DOLLARS: f64 = 0.15;

/// Run the claims about tables and queues on any DynamoDB and SQS, and show what holds there.
///
/// Give the address of one or both, or --aws for those of the account that the environment's credentials are for. The
/// names of tables and queues begin with --prefix, and all that begin so are removed at the end.
///
/// The exit code is 0 if all claims hold, and 1 if some do not.
#[derive(Debug, Parser)]
struct Args {
    /// Where DynamoDB is, such as http://127.0.0.1:4566. Without it, the claims about tables are left out.
    #[arg(long, value_name = "URL")]
    dynamodb: Option<String>,
    /// Where SQS is. Without it, the claims about queues are left out.
    #[arg(long, value_name = "URL")]
    sqs: Option<String>,
    /// AWS itself. This says what it costs, and begins only with --yes.
    #[arg(long, conflicts_with_all = ["dynamodb", "sqs"])]
    aws: bool,
    /// Begin although it costs something.
    #[arg(long, requires = "aws")]
    yes: bool,
    /// What the names of tables and queues begin with.
    #[arg(long, value_name = "TEXT", default_value = "groupage-conformance")]
    prefix: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

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
    let (tables, queues) = (args.aws || args.dynamodb.is_some(), args.aws || args.sqs.is_some());
    if !tables && !queues {
        return Err("nowhere to run: give --dynamodb or --sqs, or --aws".into());
    }
    if args.aws && !args.yes {
        let what = "this makes nine tables and about 200 queues on AWS, removes them, and takes some minutes";
        return Err(format!("{what}. It costs less than ${DOLLARS}: say --yes if you want that").into());
    }
    let suites = claims(args, tables, queues);
    let config = groupage_aws::load_config().await;
    let at = |url: &Option<String>| match url {
        Some(url) => config.to_builder().endpoint_url(url).build(),
        None => config.clone(),
    };
    if tables {
        engine::remove_tables(&at(&args.dynamodb), &args.prefix).await?;
    }
    if queues {
        engine::remove_queues(&at(&args.sqs), &args.prefix).await?;
    }
    let suites = suites?;
    println!("{}", if args.json { json_of(&suites).to_string() } else { table(&suites) });
    Ok(suites.values().all(|suite| suite.fail.is_empty()))
}

/// Runs the claims in the tests' own program.
fn claims(args: &Args, tables: bool, queues: bool) -> Result<Suites, engine::Failure> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "test",
        "--quiet",
        "--workspace",
        "--locked",
        "--test",
        "it",
        "--",
        "--test-threads=1",
        "--format=pretty",
    ]);
    if tables {
        cargo.args(["::on_dynamodb::", "::on_dynamodb_losing_answers::"]);
    }
    if queues {
        cargo.arg("::on_sqs::");
    }
    let addresses = [("AWS_ENDPOINT_URL_DYNAMODB", &args.dynamodb), ("AWS_ENDPOINT_URL_SQS", &args.sqs)];
    for (name, address) in addresses {
        if let Some(address) = address {
            cargo.env(name, address);
        }
    }
    // Failed claims are counted, so how the program ends says nothing more.
    let done = cargo.env(engine::PREFIX, &args.prefix).stderr(Stdio::inherit()).output()?;
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
mod tests {
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
}
