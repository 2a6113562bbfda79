//! Reading a stack. Each thing is read by itself: what is refused leaves the others as they are.

mod answers;
mod clock;
mod functions;
mod protocol;
mod queues;
mod site;
mod tables;
mod watch;

use std::sync::Arc;

use aws_config::SdkConfig;
use futures::join;
use groupage_aws::{Connection, System};
use groupage_core::ports::Env;

use self::clock::Heard;
pub use self::site::{Deployed, Site};
use crate::seen::{Cloud, Seen, Step};

/// Reads everything.
pub async fn examine(site: &Site<'_>) -> Seen {
    let heard = Arc::new(Heard::default());
    let config = heard.through(&site.connection.config);
    let connection = Connection { config, ..site.connection.clone() };
    let now = System.now();
    let (routes, (mut queues, ended), tables, waiting, locks, cloud) = join!(
        protocol::routes(&connection),
        queues::read(&connection),
        tables::read(&connection, site.deployed.is_some()),
        protocol::waiting(&connection, now),
        protocol::locks(&connection),
        read_cloud(&connection.config, site.deployed.as_ref()),
    );
    let (secrets, sessions) = join!(
        protocol::secrets(&connection.config, &routes, cloud.as_ref()),
        protocol::sessions(&connection, &routes),
    );
    // Without long calls no function reads it, and no alarm watches it.
    queues.retain(|queue| queue.reader != Step::LongBatchHandler || site.allowed.long_calls());
    if site.deployed.is_some() {
        watch::ages(&connection.config, &mut queues).await;
    }
    let version = match &site.deployed {
        Some(deployed) => deployed.outputs.get("Version").cloned(),
        None => heard.version(),
    };
    Seen {
        now,
        own_version: site.own_version.to_owned(),
        version,
        routes,
        allowed: site.allowed.clone(),
        secrets,
        queues,
        ended,
        tables,
        waiting,
        locks,
        sessions,
        clock: heard.clock(),
        cloud,
    }
}

async fn read_cloud(config: &SdkConfig, deployed: Option<&Deployed>) -> Option<Cloud> {
    let deployed = deployed?;
    let (functions, account, alarms) =
        join!(functions::read(config, deployed), functions::account(config), watch::alarms(config, deployed));
    Some(Cloud { functions, account, alarms })
}
