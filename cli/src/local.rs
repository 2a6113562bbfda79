//! `groupage local`: the whole stack in this process, kept running on a data folder.
//!
//! Tables and queues are kept in the folder and survive `kill -9`: a start goes on where the last process ended. A
//! folder with tables and no queues, as an earlier version left it, is driven on from the tables. With `--no-steps`
//! only tables and queues run here, and the steps in processes of their own, which can die alone.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_config::SdkConfig;
use embedded::{Durability, Pipeline, Ports, Processes, Storage};
use groupage_aws::entry::{AwsStack, NoRoutes, RouteSource};
use groupage_aws::spans::Traced;
use groupage_aws::{Downstreams, Meter, System, config};
use groupage_console::{Console, Work, Worked};
use groupage_core::ports::{self, Env};
use groupage_core::routes::Allowed;
use groupage_core::steps::revive::{self, Leaders};
use serde::Serialize;

use crate::http::{self, Server, pass};
use crate::output::{Ending, Output, grouped};
use crate::stop::Stop;
use crate::{check, stack, steps};

/// Run the whole stack on this machine, on a data folder, until it is stopped.
///
/// It prints the environment lines with which this command and any AWS SDK use it. They hold the key of the data
/// folder. A request without the key is refused, and so is every web page.
///
/// What it has accepted is in the data folder before the sender has its answer. That survives any end of the process,
/// `kill -9` too: start it again, and it goes on. Give --fsync to survive a power cut as well.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data folder; made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "groupage-data")]
    data: PathBuf,
    /// Put this routes file in force first. Without it, the one pushed last stays in force.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// The loopback port of DynamoDB; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    dynamodb_port: u16,
    /// The loopback port of SQS; 0 for any free one.
    #[arg(long, value_name = "PORT", default_value_t = 9324)]
    sqs_port: u16,
    /// The loopback port of the HTTP API and of the console's pages; 0 for any free one.
    ///
    /// The console shows in a browser what waits, why, and what failed. Open the link that is printed.
    ///
    /// Over it, programs send tasks, count fan-outs with trackers, hold tasks on lists, feed streams, and ask where
    /// tasks and batches stand. Its address is among the lines printed, as GROUPAGE_API_URL; GET
    /// $GROUPAGE_API_URL/openapi.json describes every request. Each but that one needs the header "Authorization:
    /// Bearer $GROUPAGE_API_TOKEN".
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    http_port: u16,
    /// Wait for the disk at every write, so that what is acknowledged survives a power cut. Each send then takes as
    /// long as the disk does.
    #[arg(long)]
    fsync: bool,
    /// Run tables, queues and the API only; `groupage steps` runs the steps, in as many processes as you like.
    #[arg(long)]
    no_steps: bool,
}

/// The file in the data folder that holds the environment lines.
const ENVIRONMENT_FILE: &str = "env";
/// The environment line that says where the HTTP API is.
const API_URL: &str = "GROUPAGE_API_URL";
/// The environment line with the console's link.
const CONSOLE_URL: &str = "GROUPAGE_CONSOLE_URL";
/// The environment line with the HTTP API's key.
const API_TOKEN: &str = "GROUPAGE_API_TOKEN";

/// The stack did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The routes file cannot be used.
    #[error(transparent)]
    File(#[from] check::Error),
    /// A port is taken.
    #[error("cannot listen on 127.0.0.1:{port}: {source}. Choose another port with {option}, or 0 for any")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// The option that asks for another.
        option: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The folder cannot be had, or the database is damaged.
    #[error(transparent)]
    Stack(#[from] embedded::Error),
    /// A variable makes no sense.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The HTTP API and the console have no port.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// The stack just started does not answer.
    #[error(transparent)]
    Table(#[from] ports::Error),
    /// The folder holds no routes yet, and none were given.
    #[error("there are no routes in {} yet: name a file with --routes", .0.display())]
    NoRoutes(PathBuf),
    /// The routes in the folder are of no use.
    #[error(transparent)]
    Routes(NoRoutes),
    /// What has not settled could not be driven on.
    #[error("cannot drive on what has not settled: {0}")]
    Revive(#[from] groupage_core::steps::Error),
    /// The environment lines cannot be written.
    #[error("cannot write {}: {source}", file.display())]
    Environment {
        /// Their file.
        file: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What is running, for programs.
#[derive(Serialize)]
struct Started {
    environment: serde_json::Map<String, serde_json::Value>,
    environment_file: PathBuf,
    revived: Revived,
}

/// What was driven on.
#[derive(Default, Serialize)]
struct Revived {
    leaders: usize,
    waiting_tasks: usize,
    batches: usize,
    tasks_without_route: usize,
}

/// Runs the stack until it is told to stop.
///
/// # Errors
/// [`Error`]; nothing is left running.
pub async fn run(options: &Args, output: &Output) -> Result<Ending, Error> {
    let yaml = options.routes.as_deref().map(|file| check::read(file, *output)).transpose()?;
    let allowed = config::allowed_from_env(Allowed::on_own_machine())?;
    let ports = Ports { dynamo: options.dynamodb_port, sqs: options.sqs_port };
    let durability = if options.fsync { Durability::Machine } else { Durability::Process };
    let stack = embedded::Stack::start(Storage::Folder(options.data.clone(), durability), ports).await;
    let stack = stack.map_err(|error| not_started(error, options))?;

    let meter = Arc::new(Meter::new());
    let table = stack.connection().routes(&meter);
    if let Some(yaml) = yaml {
        table.push(&yaml, &stack::person(), System.now()).await?;
    }
    let steps = stack::steps(stack.connection(), RouteSource::table(table), &meter)?;
    let revived = match drive_on(&steps, &options.data, stack.has_new_queues()).await {
        // Others run the steps, and may push routes later.
        Err(Error::NoRoutes(_)) if options.no_steps => Revived::default(),
        revived => revived?,
    };
    if !options.no_steps {
        warn_of_aws(&steps, *output).await;
    }
    let stop = Stop::listen(None);
    let pipeline = match options.no_steps {
        true => None,
        false => Some(start_steps(&stack, &steps, allowed).await?),
    };
    let work = pipeline.as_ref().map(|pipeline| work(pipeline, &meter));
    let name = options.data.display().to_string();
    let console = Arc::new(Console::new(stack.connection(), name, pass(stack.key()), work));
    let router = api::router(Arc::clone(&steps)).merge(groupage_console::router(Arc::clone(&console)));
    let server = Server::start(options.http_port, "--http-port", stack.key(), router).await?.with_figures_of(console);
    let mut environment = stack.environment();
    environment.extend([
        (API_URL, server.url()),
        (API_TOKEN, stack.key().reveal().to_owned()),
        (CONSOLE_URL, server.console()),
    ]);
    announce(&environment, options, revived, *output)?;
    match pipeline {
        Some(pipeline) => steps::until_stopped(pipeline, &stop).await,
        None => stop.requested().await,
    }
    drop(server);
    stack.shutdown().await;
    Ok(Ending::Well)
}

/// Starts the steps in this process.
async fn start_steps(stack: &embedded::Stack, steps: &Arc<AwsStack>, allowed: Allowed) -> Result<Pipeline, Error> {
    let mut downstream = Downstreams::new(&downstream_config(stack).await, allowed).with_queues(stack.sdk_config());
    if !has_aws() {
        downstream = downstream.without_aws();
    }
    let downstream = Arc::new(Traced::new(downstream, steps.spans.clone()));
    let sqs = aws_sdk_sqs::Client::new(stack.sdk_config());
    Ok(Pipeline::start(&sqs, stack.queues(), Processes::One, steps, &downstream)?)
}

/// Says what the steps of this process have done, whenever the console asks.
fn work(pipeline: &Pipeline, meter: &Arc<Meter>) -> Work {
    let (counts, meter) = (pipeline.counter(), Arc::clone(meter));
    Box::new(move || Worked { counts: counts(), usage: meter.snapshot() })
}

/// Names the option that chooses another port.
fn not_started(error: embedded::Error, options: &Args) -> Error {
    match error {
        embedded::Error::Listen { port, source } => {
            let option = if port == options.dynamodb_port { "--dynamodb-port" } else { "--sqs-port" };
            Error::Listen { port, option, source }
        }
        other => Error::Stack(other),
    }
}

/// Drives everything on from the tables if its messages are lost. Messages that are there drive their own tasks on.
async fn drive_on(steps: &AwsStack, data: &Path, is_lost: bool) -> Result<Revived, Error> {
    let routes = steps.routes.current().await.map_err(|error| match error {
        NoRoutes::NotPushed => Error::NoRoutes(data.to_owned()),
        NoRoutes::Port(_) | NoRoutes::Invalid(_) => Error::Routes(error),
    })?;
    if !is_lost {
        return Ok(Revived::default());
    }
    let report = revive::revive(&steps.store, &steps.queues, &steps.env, &routes, Leaders::GoOn).await?;
    Ok(Revived {
        leaders: report.leaders,
        waiting_tasks: report.waiting,
        batches: report.batches,
        tasks_without_route: report.stranded,
    })
}

/// Functions, buses, state machines and secrets that routes name are those of the user's own AWS account, if there is
/// one here.
async fn downstream_config(stack: &embedded::Stack) -> SdkConfig {
    if has_aws() {
        groupage_aws::load_config().await
    } else {
        // Asking the machine's metadata service for a region would hold up the start for seconds.
        stack.sdk_config().clone()
    }
}

/// Says which routes wait because this process knows of no AWS.
async fn warn_of_aws(steps: &AwsStack, output: Output) {
    let Ok(routes) = steps.routes.current().await else { return };
    for route in routes.iter().filter(|route| !has_aws() && route.downstream.needs_aws()) {
        let (what, which) = route.downstream.named();
        output.warning(&format!(
            "route `{}`: {what} `{}` is in AWS, of which nothing is known here, so its batches wait: set AWS_REGION and \
             credentials, or the endpoint of an emulator, and start again",
            route.name,
            which.unwrap_or_default()
        ));
    }
}

/// Whether this process was told of an AWS account, or of an emulator.
fn has_aws() -> bool {
    ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Says where everything is, once it is there.
fn announce(
    environment: &[(&'static str, String)],
    options: &Args,
    revived: Revived,
    output: Output,
) -> Result<(), Error> {
    let lines = exports(environment);
    let console = environment.iter().find(|(name, _)| *name == CONSOLE_URL).map_or("", |(_, link)| link.as_str());
    let file = options.data.join(ENVIRONMENT_FILE);
    embedded::write_privately(&file, &(warning(environment) + &lines))
        .map_err(|source| Error::Environment { file: file.clone(), source })?;
    let driven_on = revived.waiting_tasks + revived.batches + revived.leaders;
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
    let started = Started { environment, environment_file: file.clone(), revived };
    output.result(&started, || {
        let mut text = format!("{lines}\n# These lines are in {0} too: . {0}\n", file.display());
        if driven_on > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# Driven on from the tables: {}", grouped(driven_on as u64));
        }
        let what =
            if options.no_steps { "Tables, queues and API run; `groupage steps` runs the steps." } else { "Running." };
        let _ = writeln!(text, "# Console: {console}");
        text + &format!("# {what} Stop with Ctrl-C.")
    });
    Ok(())
}

/// A line for a shell that has AWS keys of its own, which the others replace.
fn warning(environment: &[(&str, String)]) -> String {
    let key = environment.iter().find(|(name, _)| *name == "AWS_ACCESS_KEY_ID").map_or("", |(_, key)| key.as_str());
    let says = "groupage: the AWS keys and region of this shell are replaced; a new shell has them again";
    format!("case \"${{AWS_ACCESS_KEY_ID-}}\" in ''|'{key}') ;; *) echo '{says}' >&2 ;; esac\n")
}

/// Lines for a shell. No value holds a quote: they are names, URLs and ports.
fn exports(environment: &[(&str, String)]) -> String {
    environment.iter().map(|(name, value)| format!("export {name}='{value}'\n")).collect()
}
