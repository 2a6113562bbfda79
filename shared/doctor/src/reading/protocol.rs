//! What the protocol's own tables say: routes, locks, sessions, and what waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use futures::FutureExt;
use futures::future::join_all;
use groupage_aws::{Connection, Dynamo, System};
use groupage_core::domain::{Lock, Pool, Target, Timestamp};
use groupage_core::ports::{Census, Look, Segment, Sessions, Tasks};
use groupage_core::routes::{Route, Routes, Secret};
use groupage_core::steps::look::Looking;

use super::answers::{unheard, unread};
use crate::seen::{Cloud, KeptSecret, Lease, LongWait, Pushed, Read, Step, Unread};

/// The tables, as a reader needs them: how long they keep what is settled is nothing to it.
fn store(connection: &Connection) -> Dynamo {
    connection.store(0, &Arc::default())
}

pub(super) async fn routes(connection: &Connection) -> Read<Option<Pushed>> {
    let Some(stored) = connection.routes(&Arc::default()).load().await.map_err(unheard)? else { return Ok(None) };
    let unrouted = match stored.parse() {
        Ok(routes) => {
            let looking = Looking { store: &store(connection), env: &System, routes: Some(&routes) };
            looking.unrouted().await.map_err(|error| Unread(error.to_string()))
        }
        // The check of the routes says why.
        Err(_) => Ok((BTreeMap::new(), true)),
    };
    Ok(Some(Pushed { version: stored.version, yaml: stored.yaml, unrouted }))
}

/// The routes that can be used.
fn usable(routes: &Read<Option<Pushed>>) -> Vec<Route> {
    let pushed = routes.as_ref().ok().and_then(Option::as_ref);
    let parsed = pushed.and_then(|pushed| Routes::parse(&pushed.yaml).ok());
    parsed.iter().flat_map(Routes::iter).cloned().collect()
}

pub(super) async fn secrets(
    config: &SdkConfig,
    routes: &Read<Option<Pushed>>,
    cloud: Option<&Cloud>,
) -> Vec<KeptSecret> {
    let client = &Client::new(config);
    let named = usable(routes).into_iter().flat_map(|route| {
        let http = route.downstream.http();
        let secrets: Vec<Secret> =
            http.into_iter().flat_map(|http| http.secrets()).map(|(_, secret)| secret.clone()).collect();
        secrets.into_iter().map(move |secret| (route.name.to_string(), secret))
    });
    join_all(named.map(|(route, secret)| async move {
        let is_there = match &secret {
            Secret::Env(name) => is_set(name, cloud),
            Secret::SecretsManager(name) => is_kept(client, name).await,
        };
        KeptSecret { route, secret, is_there }
    }))
    .await
}

/// Whether the function that makes the calls has this variable.
fn is_set(name: &str, cloud: Option<&Cloud>) -> Read<bool> {
    let elsewhere = || Unread(format!("the variable {name} is one of the process that runs the steps"));
    let mut functions = cloud.ok_or_else(elsewhere)?.functions.iter();
    let handler = functions.find(|function| function.step == Step::BatchHandler).ok_or_else(elsewhere)?;
    handler.settings.as_ref().map(|settings| settings.variables.iter().any(|of| of == name)).map_err(Clone::clone)
}

/// Whether Secrets Manager has it, and is not about to delete it. Its value is not read.
async fn is_kept(client: &Client, name: &str) -> Read<bool> {
    match client.describe_secret().secret_id(name).send().boxed().await {
        Ok(answer) => Ok(answer.deleted_date().is_none()),
        Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
            Ok(false)
        }
        Err(error) => Err(unread(error)),
    }
}

/// A task that has waited for longer, in milliseconds, is told of.
const LONG_MS: u64 = 15 * 60_000;
/// Entries of a page of the index, and pages that are read at most.
const PAGE: usize = 5_000;
const PAGES: usize = 20;

pub(super) async fn waiting(connection: &Connection, now: Timestamp) -> Read<Option<LongWait>> {
    let (store, all) = (store(connection), Segment { index: 0, of: 1 });
    let (mut found, mut at) = (Vec::new(), None);
    for _ in 0..PAGES {
        let look = Look::at(all, Timestamp(now.0.saturating_sub(LONG_MS)), PAGE);
        let page = store.waiting_long(look.behind(at.as_ref())).await.map_err(unheard)?;
        found.extend(page.tasks);
        at = page.next;
        if at.is_none() {
            break;
        }
    }
    let tasks = found.len();
    let oldest = found.into_iter().min_by_key(|waiting| waiting.since);
    Ok(oldest.map(|oldest| LongWait { tasks, since: oldest.since, target: oldest.target.to_string() }))
}

pub(super) async fn locks(connection: &Connection) -> Read<Vec<Lease>> {
    let held = store(connection).held_locks().await.map_err(unheard)?;
    let lease = |(target, lock): (Target, Lock)| {
        lock.holder.map(|holder| Lease { of: target.to_string(), until: holder.lease_until })
    };
    Ok(held.into_iter().filter_map(lease).collect())
}

/// This many sessions of one pool are looked at.
const MOST: usize = 1_000;

pub(super) async fn sessions(connection: &Connection, routes: &Read<Option<Pushed>>) -> Read<Vec<Lease>> {
    let (store, routes) = (store(connection), usable(routes));
    let pulled = routes.iter().filter(|route| route.is_pulled()).map(|route| Pool::of_route(&route.name));
    let mut found = Vec::new();
    for pool in Pool::of_handlers().chain(pulled) {
        found.extend(store.sessions(&pool, None, MOST).await.map_err(unheard)?.all());
    }
    Ok(found.into_iter().map(|session| Lease { of: session.worker, until: session.expires_at }).collect())
}
