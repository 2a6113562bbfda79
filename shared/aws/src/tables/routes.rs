//! The routes file in its table: how `groupage push` hands it to the functions, which read it again every minute.

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use groupage_core::domain::Timestamp;
use groupage_core::domain::id::digest;
use groupage_core::ports::Result;
use serde::{Deserialize, Serialize};

use crate::config::Tables;
use crate::dynamo::item::{decode, encode, text};
use crate::fault::failed;
use crate::meter::{Meter, Place};

const TABLE: &str = "route table";
/// The one item's key.
const ROUTES: &str = "routes";

/// The table that holds the routes file.
#[derive(Clone, Debug)]
pub struct RouteTable {
    client: Client,
    table: String,
    meter: Arc<Meter>,
}

/// A routes file as it was pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct StoredRoutes {
    /// The file.
    pub yaml: String,
    /// Its digest: tells whether a file read again is another one.
    pub digest: String,
    /// When it was pushed.
    pub pushed_at: Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    name: &'static str,
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
        let output = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("Name", text(ROUTES))
            // Who has just pushed a file and starts a function expects that file.
            .consistent_read(true)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("read the routes", error))?;
        self.meter.count_read(Place::Routes, output.consumed_capacity());
        output.item.map(|item| decode(TABLE, ROUTES, item)).transpose()
    }

    /// Puts a routes file in place of the one before. The caller has checked it; the functions check it once more.
    ///
    /// # Errors
    /// The table does not answer, or refuses the file: over 400 KB, for example.
    pub async fn push(&self, yaml: &str, now: Timestamp) -> Result<StoredRoutes> {
        let routes = StoredRoutes { yaml: yaml.to_owned(), digest: digest(&[yaml]), pushed_at: now };
        let item = encode(TABLE, ROUTES, &Entry { name: ROUTES, routes: &routes })?;
        let output = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| failed("write the routes", error))?;
        self.meter.count_write(Place::Routes, output.consumed_capacity());
        Ok(routes)
    }
}
