//! The routes file in its table: how `groupage push` hands it to the functions, which read it again every minute.
//!
//! Each publication is a version. The item [`ROUTES`] is the one in force; beside it each version has an item of its
//! own, which nobody changes any more. Both are written together, if what was in force before still is.

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, TransactWriteItem};
use futures::FutureExt;
use futures::future::try_join_all;
use groupage_core::domain::id::digest;
use groupage_core::domain::{RouteName, Timestamp};
use groupage_core::ports::Result;
use groupage_core::routes::{self, Routes};
use serde::{Deserialize, Serialize};

use crate::config::Tables;
use crate::dynamo::expression::Clause;
use crate::dynamo::item::{decode, encode, number, text};
use crate::dynamo::transaction;
use crate::fault::failed;
use crate::meter::{Meter, Place};

const TABLE: &str = "route table";
/// The key of the file in force.
const ROUTES: &str = "routes";

/// The table that holds the routes file.
#[derive(Clone, Debug)]
pub struct RouteTable {
    client: Client,
    table: String,
    meter: Arc<Meter>,
}

/// A routes file as it was pushed.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StoredRoutes {
    /// The file.
    pub yaml: String,
    /// Its digest: tells whether a file read again is another one.
    pub digest: String,
    /// When it was pushed.
    pub pushed_at: Timestamp,
    /// Counts publications; 0 is what was pushed before they were counted.
    #[serde(default)]
    pub version: u64,
    /// Who pushed it, as its command said.
    pub pushed_by: Option<String>,
    /// The former version whose file this is, if it was pushed to go back to that one.
    pub restores: Option<u64>,
    /// Routes of former files that this one does not have, and of which tasks may be left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<RouteName>,
}

/// The most routes that are remembered as gone: each costs a look up to 16 read units.
const GONE: usize = 8;

impl StoredRoutes {
    /// The routes of this file.
    ///
    /// # Errors
    /// The file is wrong.
    pub fn parse(&self) -> std::result::Result<Routes, routes::Error> {
        Ok(Routes::parse(&self.yaml)?.without(self.gone.clone()))
    }

    /// The routes of this file and before that these do not have: those first that went last.
    pub fn gone_with(&self, routes: &Routes) -> Vec<RouteName> {
        let own = Routes::parse(&self.yaml).map(|own| own.iter().map(|route| route.name.clone()).collect());
        let names: Vec<RouteName> = own.unwrap_or_default();
        let gone = names.into_iter().chain(self.gone.iter().cloned());
        gone.filter(|name| routes.get(name).is_none()).take(GONE).collect()
    }
}

/// What is to be published.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// The file. The caller has checked it; the functions check it once more.
    pub yaml: &'a str,
    /// Who publishes it.
    pub by: &'a str,
    /// The former version whose file it is.
    pub restores: Option<u64>,
    /// Routes that it does not have, and of which tasks may be left.
    pub gone: &'a [RouteName],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    name: &'a str,
    #[serde(flatten)]
    routes: &'a StoredRoutes,
}

impl RouteTable {
    /// The table named by `tables`.
    pub fn new(config: &SdkConfig, tables: &Tables, meter: Arc<Meter>) -> Self {
        Self { client: Client::new(config), table: tables.routes.clone(), meter }
    }

    /// The same table; what is consumed through this one goes to `meter`.
    #[must_use]
    pub fn metered(&self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self.clone() }
    }

    /// Reads the routes file as it is now; `None` if nobody has pushed one.
    ///
    /// # Errors
    /// The table does not answer, or what it holds is no routes file.
    pub async fn load(&self) -> Result<Option<StoredRoutes>> {
        self.read(ROUTES).await
    }

    /// Reads a version; `None` if there is none of this number. What was in force before versions began is number 0.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub async fn load_version(&self, version: u64) -> Result<Option<StoredRoutes>> {
        self.read(&key_of(version)).await
    }

    /// Reads the latest versions, up to this number, the newest first: that is the one in force. None, if nobody has
    /// pushed anything.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub async fn history(&self, most: u64) -> Result<Vec<StoredRoutes>> {
        let Some(now) = self.load().await? else { return Ok(Vec::new()) };
        let oldest = (now.version + 1).saturating_sub(most);
        let before = (oldest..now.version).rev().map(|version| self.load_version(version));
        let before = try_join_all(before).await?.into_iter().flatten();
        Ok(std::iter::once(now).chain(before).collect())
    }

    async fn read(&self, name: &str) -> Result<Option<StoredRoutes>> {
        let output = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("Name", text(name))
            // Who has just pushed a file and starts a function expects that file.
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .boxed()
            .await
            .map_err(|error| failed("read the routes", error))?;
        self.meter.count_read(Place::Routes, output.consumed_capacity());
        output.item.map(|item| decode(TABLE, name, item)).transpose()
    }

    /// Puts a routes file in force as the next version, whatever is in force now. The same file once more is no
    /// version.
    ///
    /// # Errors
    /// As of [`Self::publish`].
    pub async fn push(&self, yaml: &str, by: &str, now: Timestamp) -> Result<StoredRoutes> {
        loop {
            let former = self.load().await?;
            if let Some(same) = former.as_ref().filter(|former| former.digest == digest(&[yaml])) {
                return Ok(same.clone());
            }
            let routes = Routes::parse(yaml).ok();
            let gone = former.as_ref().zip(routes.as_ref()).map(|(former, routes)| former.gone_with(routes));
            let publication = Publication { yaml, by, restores: None, gone: &gone.unwrap_or_default() };
            if let Some(pushed) = self.publish(former.as_ref(), publication, now).await? {
                return Ok(pushed);
            }
        }
    }

    /// Puts a routes file in force as the next version after `former`, which the caller has seen in force. `None` if
    /// another file is in force meanwhile: nothing is written then.
    ///
    /// # Errors
    /// The table does not answer, or refuses the file: over 400 KB, for example.
    pub async fn publish(
        &self,
        former: Option<&StoredRoutes>,
        publication: Publication<'_>,
        now: Timestamp,
    ) -> Result<Option<StoredRoutes>> {
        const WHAT: &str = "write the routes";
        let Publication { yaml, by, restores, gone } = publication;
        let uncounted = match former {
            Some(former) if former.version == 0 => Some(self.counted(former).await?),
            Some(_) | None => None,
        };
        let before = uncounted.as_ref().or(former).map_or(0, |former| former.version);
        let routes = StoredRoutes {
            yaml: yaml.to_owned(),
            digest: digest(&[yaml]),
            pushed_at: now,
            version: before + 1,
            pushed_by: Some(by.to_owned()),
            restores,
            gone: gone.to_vec(),
        };
        let unchanged = match former {
            None => vec![Clause::Absent("Name")],
            Some(StoredRoutes { digest, pushed_at, .. }) => {
                vec![Clause::Equals("Digest", text(digest)), Clause::Equals("PushedAt", number(pushed_at.0))]
            }
        };
        let mut writes = vec![self.put(ROUTES, &routes, &unchanged)?];
        writes.push(self.put(&key_of(routes.version), &routes, &[Clause::Absent("Name")])?);
        if let Some(kept) = &uncounted {
            writes.push(self.put(&key_of(kept.version), kept, &[Clause::Absent("Name")])?);
        }
        let answer = self
            .client
            .transact_write_items()
            .set_transact_items(Some(writes))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .boxed()
            .await;
        match answer {
            Ok(output) => {
                output.consumed_capacity().iter().for_each(|of| self.meter.count_write(Place::Routes, Some(of)));
                Ok(Some(routes))
            }
            Err(error) => match error.as_service_error() {
                // Another publication, or this very one, whose answer was lost.
                Some(TransactWriteItemsError::TransactionCanceledException(_)) => {
                    Ok(self.load().await?.filter(|current| *current == routes))
                }
                _ => Err(failed(WHAT, error)),
            },
        }
    }

    /// The newest version with an item of its own beside these routes in force.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub async fn newest_version(&self, routes: &StoredRoutes) -> Result<u64> {
        if routes.version > 0 { Ok(routes.version) } else { Ok(self.free_number().await?.saturating_sub(1)) }
    }

    /// What a command pushed that does not count yet: it has no item of its own, and gets the first number that is
    /// free.
    async fn counted(&self, routes: &StoredRoutes) -> Result<StoredRoutes> {
        Ok(StoredRoutes { version: self.free_number().await?, ..routes.clone() })
    }

    async fn free_number(&self) -> Result<u64> {
        let mut version = 0;
        while self.load_version(version).await?.is_some() {
            version += 1;
        }
        Ok(version)
    }

    fn put(&self, name: &str, routes: &StoredRoutes, clauses: &[Clause]) -> Result<TransactWriteItem> {
        transaction::put("write the routes", &self.table, encode(TABLE, name, &Entry { name, routes })?, clauses)
    }
}

fn key_of(version: u64) -> String {
    format!("{ROUTES}#{version}")
}
