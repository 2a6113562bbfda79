//! `groupage pause` and `groupage resume`: holding calls back by hand.

use std::sync::Arc;

use anyhow::{Error, Result, anyhow};
use groupage_core::domain::gate::{Gate, Scope};
use groupage_core::domain::id::{RouteName, Target};
use groupage_core::ports::Env;
use groupage_core::routes::Routes;

use crate::output::{Ending, Output, after_step};
use crate::stack::{self, Access};
use crate::status::gates::{Shown, sheet};

/// Whose calls.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Whose {
    /// All calls of this route.
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// The calls for this Target, as stored: route:value, for example parcels:truck-7.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
}

/// What the examples teach.
const EXAMPLE: &str = "\
Example: the downstream of route parcels is deployed anew.
  groupage pause --route parcels --reason 'deployment 42'
  groupage status routes
  groupage resume --route parcels";

/// Hold back the calls of a route or of one Target until `groupage resume`.
///
/// Tasks keep arriving and wait. A batch that is being called ends as ever. Repeating it is safe, and may give another
/// reason.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Pause {
    #[command(flatten)]
    whose: Whose,
    /// Why, for people who look at the status.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Let the calls of a route or of one Target go on.
///
/// It ends what `groupage pause` began, the pause that a downstream asked for with Retry-After, and the wait for a
/// downstream that counts as away. What waited goes on slowly at first, that of a Target that only a person held at
/// once. Those that can go first are woken at once, the others by sweep when their turn is near.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Resume {
    #[command(flatten)]
    whose: Whose,
}

/// Holds calls back.
pub async fn pause(options: &Pause, name: Option<&str>, output: &Output) -> Result<Ending> {
    let (access, scope, _) = open(&options.whose, name).await?;
    let held = access.holding().pause(&scope, options.reason.as_deref()).await.map_err(again)??;
    show(&access, &scope, &held, output);
    Ok(Ending::Well)
}

/// Lets calls go on.
pub async fn resume(options: &Resume, name: Option<&str>, output: &Output) -> Result<Ending> {
    let (access, scope, routes) = open(&options.whose, name).await?;
    let resumed = access.holding().resume(&scope).await.map_err(again)?;
    if let Some(route) = scope.route().and_then(|route| routes.get(&route)) {
        access.waker(route).wake_behind(&scope).await.map_err(again)?;
    }
    show(&access, &scope, &resumed, output);
    Ok(Ending::Well)
}

async fn open(whose: &Whose, name: Option<&str>) -> Result<(Access, Scope, Arc<Routes>)> {
    let connection = stack::open(name).await?;
    let routes = stack::remote_steps(&connection)?.routes.current().await?;
    let scope = whose.scope()?;
    if let Some(route) = scope.route().filter(|route| routes.get(route).is_none()) {
        return Err(anyhow!("no route is named `{route}`"));
    }
    Ok((Access::to(&connection), scope, routes))
}

impl Whose {
    fn scope(&self) -> Result<Scope> {
        match (&self.route, &self.target) {
            (Some(route), _) => Ok(Scope::Route(RouteName::parse(route).map_err(Error::msg)?)),
            (None, Some(target)) if target.contains(':') => Ok(Scope::Target(Target::new(target).whole())),
            (None, Some(target)) => Err(anyhow!("a Target is ROUTE:TARGET, such as parcels:truck-7, not `{target}`")),
            (None, None) => Err(anyhow!("say --route or --target")),
        }
    }
}

fn again(error: groupage_core::steps::Error) -> Error {
    after_step(error.into(), ": repeat the command")
}

fn show(access: &Access, scope: &Scope, gate: &Gate, output: &Output) {
    let now = access.env().now();
    let shown = Shown::of(scope, gate, now);
    output.sheet(&shown, || sheet(std::slice::from_ref(&shown), now));
}
