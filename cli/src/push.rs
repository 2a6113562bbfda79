//! `groupage push`: put a routes file in force, or a former one again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use aws_config::SdkConfig;
use groupage_aws::{Connection, Publication, RouteTable, StoredRoutes, System};
use groupage_console::words::counted;
use groupage_core::domain::id::digest;
use groupage_core::domain::{RouteName, Timestamp};
use groupage_core::ports::Env;
use groupage_core::routes::{Route, Routes};
use serde::Serialize;
use similar::TextDiff;

use crate::output::{Ending, Output};
use crate::sheet::{Cell, Moment, Sheet};
use crate::stack::Access;
use crate::{check, stack};

/// Check a routes file and put it in force. Functions take it over within a minute.
///
/// Each push is a version with its time, its publisher and its digest. The former versions stay, and the difference to
/// the version before is printed. The routes say where payloads and secrets go, so what the stack's parameters do not
/// allow is refused: see `SecretHosts` and `PrivateHosts`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The routes file (YAML).
    #[arg(value_name = "FILE", default_value = "routes.yaml", conflicts_with_all = ["rollback", "history"])]
    file: PathBuf,
    /// Check the file and show the difference, but change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Put a former version in force again, as a new version. Without a number: the one before.
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true)]
    rollback: Option<Option<u64>>,
    /// Show the latest versions: number, time, digest, publisher.
    #[arg(long, conflicts_with_all = ["rollback", "dry_run"])]
    history: bool,
}

/// How many versions `--history` shows at most.
const SHOWN: u64 = 20;

/// A version without its file.
#[derive(Serialize)]
struct Version<'a> {
    version: u64,
    digest: &'a str,
    pushed_at: Moment,
    pushed_by: Option<&'a str>,
    restores: Option<u64>,
}

impl<'a> From<&'a StoredRoutes> for Version<'a> {
    fn from(stored: &'a StoredRoutes) -> Self {
        let StoredRoutes { version, digest, pushed_at, pushed_by, restores, .. } = stored;
        let (version, restores) = (*version, *restores);
        Self { version, digest, pushed_at: Moment(*pushed_at), pushed_by: pushed_by.as_deref(), restores }
    }
}

/// What became of a push.
#[derive(Serialize)]
struct Pushed<'a> {
    /// Whether another file is in force now.
    changed: bool,
    digest: String,
    /// What is in force now.
    version: Option<Version<'a>>,
    former: Option<Version<'a>>,
    diff: String,
    /// Routes of former files that this one does not have, and of which tasks wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unrouted: Vec<Unrouted>,
    /// Numbered routes of the former file that this one does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unnumbered: Vec<RouteName>,
}

/// A route that the file does not have, and of which tasks wait.
#[derive(Serialize)]
struct Unrouted {
    route: RouteName,
    tasks: usize,
    /// Whether these are all.
    are_all: bool,
}

impl Unrouted {
    fn warning(&self) -> String {
        let (route, tasks) = (&self.route, counted(self.tasks, self.are_all));
        format!(
            "\nwarning: {tasks} tasks wait for the route {route}, which this file does not have. Nothing calls them \
             before it is back: put it back until they are done, or cancel them (`groupage cancel --target \
             {route}:VALUE`); `groupage status` names their Targets"
        )
    }
}

/// Checks a routes file and writes it to the route table. If that fails, what was in force before still is.
pub async fn run(options: &Args, name: Option<&str>, output: &Output) -> Result<Ending> {
    let (connection, allowed) = stack::open_with_allowed(name).await?;
    let table = connection.routes(&Arc::default());
    if options.history {
        return history(&table, *output).await;
    }
    let former = table.load().await?;
    let (yaml, restores, what) = match options.rollback {
        None => (check::read(&options.file, *output)?, None, options.file.display().to_string()),
        Some(asked) => {
            let back = version(&table, former.as_ref(), asked).await?;
            (back.yaml, Some(back.version), format!("version {}", back.version))
        }
    };
    check::judge(Path::new(&what), &yaml, &allowed)?;
    let (gone, unrouted) = unrouted(&connection, former.as_ref(), &yaml).await?;
    let diff = difference(former.as_ref(), &yaml, &what);
    let is_same = former.as_ref().is_some_and(|former| former.digest == digest(&[&yaml]));
    let pushed = if is_same || options.dry_run {
        None
    } else {
        let by = publisher(name, &connection.config).await?;
        let publication = Publication { yaml: &yaml, by: &by, restores, gone: &gone };
        let pushed = table.publish(former.as_ref(), publication, System.now()).await?;
        let overtaken = "other routes were pushed meanwhile; yours are not in force. Look at the difference again";
        Some(pushed.context(overtaken)?)
    };
    let report = Pushed {
        changed: pushed.is_some(),
        digest: digest(&[&yaml]),
        version: pushed.as_ref().or(former.as_ref()).map(Version::from),
        former: former.as_ref().map(Version::from),
        diff,
        unrouted,
        unnumbered: unnumbered(former.as_ref(), &Routes::parse(&yaml)?),
    };
    let warnings: String =
        report.unrouted.iter().map(Unrouted::warning).chain(report.unnumbered.iter().map(numbers_are_lost)).collect();
    output.result(&report, || match (&pushed, &report.version) {
        (Some(StoredRoutes { version, .. }), _) => {
            let pushed = format!("{what} is pushed as version {version}; it is in force everywhere within a minute");
            format!("{}\n{pushed}{warnings}", report.diff)
        }
        (None, Some(now)) if is_same => format!("{what} is in force already, as version {}{warnings}", now.version),
        (None, _) => format!("{}\n{what} is right; nothing is changed{warnings}", report.diff),
    });
    Ok(Ending::Well)
}

/// The routes that this file will not have and former ones had, as far as tasks of them may be left; and of which tasks
/// wait now.
async fn unrouted(
    connection: &Connection,
    former: Option<&StoredRoutes>,
    yaml: &str,
) -> Result<(Vec<RouteName>, Vec<Unrouted>)> {
    let (Some(former), routes) = (former, Routes::parse(yaml)?) else { return Ok((Vec::new(), Vec::new())) };
    let routes = routes.clone().without(former.gone_with(&routes));
    let (tasks, are_all) = Access::to(connection).looking(Some(&routes)).unrouted().await?;
    let gone = routes.gone().iter().filter(|name| tasks.contains_key(name) || !are_all).cloned().collect();
    Ok((gone, tasks.into_iter().map(|(route, tasks)| Unrouted { route, tasks, are_all }).collect()))
}

/// Returns the routes of the former file whose tasks bring their numbers along and which this file does not have. A
/// former file that cannot be read had no such route in force.
fn unnumbered(former: Option<&StoredRoutes>, routes: &Routes) -> Vec<RouteName> {
    let Some(former) = former.and_then(|former| Routes::parse(&former.yaml).ok()) else { return Vec::new() };
    let is_lost = |route: &&Route| route.is_numbered() && routes.get(&route.name).is_none();
    former.iter().filter(is_lost).map(|route| route.name.clone()).collect()
}

fn numbers_are_lost(route: &RouteName) -> String {
    format!(
        "\nwarning: the order keys of the route {route} go by the numbers of their tasks. A route that takes its tasks \
         over begins each key at its own first number, so a task with a later number waits: give the numbers before it \
         up (`groupage lane skip`). `groupage lane stopped` lists the keys that wait"
    )
}

/// The version to go back to: the one that was asked for, or the one before that which is in force. If that is itself
/// an earlier one, the one before that earlier one: going back twice goes back further.
async fn version(table: &RouteTable, former: Option<&StoredRoutes>, asked: Option<u64>) -> Result<StoredRoutes> {
    let now = former.context("no routes are in force yet: there is nothing to go back to")?;
    let wanted = asked.or_else(|| now.restores.unwrap_or(now.version).checked_sub(1));
    let found = match wanted {
        Some(wanted) => table.load_version(wanted).await?,
        None => None,
    };
    found.with_context(|| match wanted {
        Some(wanted) => format!("there is no version {wanted}: `groupage push --history` shows which there are"),
        None => "there is no version before the one in force".to_owned(),
    })
}

/// What changes, line by line, as `diff -u` has it.
fn difference(former: Option<&StoredRoutes>, yaml: &str, what: &str) -> String {
    let (old, name) = match former {
        Some(former) => (former.yaml.as_str(), format!("version {}", former.version)),
        None => ("", "nothing".to_owned()),
    };
    TextDiff::from_lines(old, yaml).unified_diff().header(&name, what).to_string()
}

/// Who publishes: on AWS what the credentials stand for, and elsewhere the person at this machine.
async fn publisher(name: Option<&str>, config: &SdkConfig) -> Result<String> {
    if name.is_none() {
        return Ok(stack::person());
    }
    let answer = aws_sdk_sts::Client::new(config).get_caller_identity().send().await;
    let identity = answer.map_err(|error| anyhow!("cannot find out who you are: {}", groupage_aws::chain(&error)))?;
    identity.arn.context("cannot find out who you are: AWS names nobody")
}

/// Shows the versions, the newest first.
async fn history(table: &RouteTable, output: Output) -> Result<Ending> {
    let stored = table.history(SHOWN).await?;
    if stored.is_empty() {
        bail!("no routes are in force yet");
    }
    let versions: Vec<Version<'_>> = stored.iter().map(Version::from).collect();
    let columns = &["version", "pushed", "digest", "by", "again"];
    output.sheet(&versions, || {
        Sheet::table("", columns, versions.iter().map(|version| row(version, System.now())).collect())
    });
    Ok(Ending::Well)
}

fn row(version: &Version<'_>, now: Timestamp) -> Vec<Cell> {
    vec![
        Cell::number(version.version),
        version.pushed_at.told(now).into(),
        format!("{:.12}", version.digest).into(),
        version.pushed_by.unwrap_or("unknown").into(),
        version.restores.map(|of| format!("version {of}")).unwrap_or_default().into(),
    ]
}
