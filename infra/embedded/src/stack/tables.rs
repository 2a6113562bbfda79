//! The tables, as `template.yaml` defines them.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndex,
    GlobalSecondaryIndexUpdate, KeySchemaElement, KeyType, Projection, ProjectionType, ScalarAttributeType,
    TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use futures::FutureExt;
use groupage_aws::config::Tables;

use crate::Error;

/// The attribute that says when an item may go, in seconds since 1970.
const TTL_ATTRIBUTE: &str = "Ttl";

/// How often a new table is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a table is made of.
struct Shape<'a> {
    name: &'a str,
    key: &'static str,
    sort: Option<&'static str>,
    indexes: Vec<Index>,
    expires: bool,
}

/// A sparse index.
struct Index {
    name: &'static str,
    hash: &'static str,
    range: (&'static str, ScalarAttributeType),
    /// What it carries beside the keys.
    carries: &'static [&'static str],
}

/// Creates the tables that are not there; their names begin with `prefix`. Items expire in them if `expires` is true.
pub async fn create(client: &Client, prefix: &str, expires: bool) -> Result<Tables, Error> {
    let tables = Tables {
        tasks: format!("{prefix}-tasks"),
        locks: format!("{prefix}-locks"),
        batches: format!("{prefix}-batches"),
        sessions: format!("{prefix}-sessions"),
        trackers: format!("{prefix}-trackers"),
        lists: format!("{prefix}-lists"),
        lanes: format!("{prefix}-lanes"),
        streams: format!("{prefix}-streams"),
        routes: format!("{prefix}-routes"),
    };
    let (text, number) = (ScalarAttributeType::S, ScalarAttributeType::N);
    let index = |name, hash, range, carries| Index { name, hash, range, carries };
    let waits: &[&str] = &["Round", "Bytes", "WaitsSince"];
    let waiting = index(Tables::WAITING_INDEX, "Target", ("Status", text.clone()), waits);
    let failed: &[&str] = &["Reason", "Attempts", "GroupedBy", "AnswerStatus"];
    let filed = index(Tables::FILED_INDEX, "Filed", ("FiledAt", text), failed);
    let unfinished = index(Tables::UNFINISHED_INDEX, "Open", ("Due", number.clone()), &[]);
    let due = || index(Tables::DUE_INDEX, "Part", ("Due", number.clone()), &[]);
    let stopped = index(Tables::STOPPED_INDEX, "Stopped", ("ActiveAt", number.clone()), &[]);
    let plain = |name, key| Shape { name, key, sort: None, indexes: Vec::new(), expires };
    let shapes = [
        Shape { indexes: vec![waiting, filed], ..plain(&tables.tasks, "Id") },
        plain(&tables.locks, "Target"),
        Shape { indexes: vec![unfinished], ..plain(&tables.batches, "BatchId") },
        Shape { sort: Some("SessionId"), ..plain(&tables.sessions, "Pool") },
        Shape { sort: Some("Node"), indexes: vec![due()], expires: false, ..plain(&tables.trackers, "TrackerId") },
        Shape { sort: Some("Slot"), indexes: vec![due()], ..plain(&tables.lists, "ListId") },
        Shape { sort: Some("Turn"), indexes: vec![stopped], ..plain(&tables.lanes, "LaneId") },
        Shape { sort: Some("Node"), indexes: vec![due()], expires: false, ..plain(&tables.streams, "StreamId") },
        Shape { expires: false, ..plain(&tables.routes, "Name") },
    ];
    for shape in shapes {
        ensure(client, &shape)
            .await
            .map_err(|source| Error::Create { what: format!("table {}", shape.name), source })?;
    }
    Ok(tables)
}

async fn ensure(client: &Client, shape: &Shape<'_>) -> Result<(), BoxError> {
    let mut request = client
        .create_table()
        .table_name(shape.name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(shape.key, ScalarAttributeType::S)?)
        .key_schema(key(shape.key, KeyType::Hash)?);
    if let Some(sort) = shape.sort {
        request = request
            .attribute_definitions(attribute(sort, ScalarAttributeType::S)?)
            .key_schema(key(sort, KeyType::Range)?);
    }
    for index in &shape.indexes {
        let [hash, range] = index.attributes()?;
        request = request.attribute_definitions(hash).attribute_definitions(range);
        request = request.global_secondary_indexes(index.definition()?);
    }
    match request.send().boxed().await {
        Ok(_) => until_active(client, shape.name).await?,
        Err(error) if exists(&error) => add_indexes(client, shape).await?,
        Err(error) => return Err(error.into()),
    }
    if shape.expires { expire(client, shape.name).await } else { Ok(()) }
}

/// Waits until a new table can be used: in this process it can at once, on AWS after some seconds.
async fn until_active(client: &Client, table: &str) -> Result<(), BoxError> {
    loop {
        let described = client.describe_table().table_name(table).send().boxed().await?;
        if described.table().and_then(|table| table.table_status()) == Some(&TableStatus::Active) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Adds the indexes that a table of an earlier version does not have.
async fn add_indexes(client: &Client, shape: &Shape<'_>) -> Result<(), BoxError> {
    let described = client.describe_table().table_name(shape.name).send().boxed().await?;
    let there = described.table().map(|table| table.global_secondary_indexes()).unwrap_or_default();
    let is_there = |index: &&Index| there.iter().any(|other| other.index_name() == Some(index.name));
    for index in shape.indexes.iter().filter(|index| !is_there(index)) {
        let [hash, range] = index.attributes()?;
        let GlobalSecondaryIndex { index_name, key_schema, projection, .. } = index.definition()?;
        let addition = CreateGlobalSecondaryIndexAction::builder().index_name(index_name);
        let addition = addition.set_key_schema(Some(key_schema)).set_projection(projection).build()?;
        let create = GlobalSecondaryIndexUpdate::builder().create(addition).build();
        let update = client.update_table().table_name(shape.name).attribute_definitions(hash);
        update.attribute_definitions(range).global_secondary_index_updates(create).send().boxed().await?;
    }
    Ok(())
}

fn exists(error: &SdkError<CreateTableError>) -> bool {
    error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception)
}

/// Turns the time to live on. Asking twice is an error to DynamoDB, so it reads first: a crash between this and the
/// table's creation is healed by the next start.
async fn expire(client: &Client, table: &str) -> Result<(), BoxError> {
    let found = client.describe_time_to_live().table_name(table).send().boxed().await?;
    let status = found.time_to_live_description().and_then(|description| description.time_to_live_status());
    if status == Some(&TimeToLiveStatus::Enabled) {
        return Ok(());
    }
    let wanted = TimeToLiveSpecification::builder().attribute_name(TTL_ATTRIBUTE).enabled(true).build()?;
    client.update_time_to_live().table_name(table).time_to_live_specification(wanted).send().boxed().await?;
    Ok(())
}

impl Index {
    fn attributes(&self) -> Result<[AttributeDefinition; 2], BoxError> {
        let (range, kind) = &self.range;
        Ok([attribute(self.hash, ScalarAttributeType::S)?, attribute(range, kind.clone())?])
    }

    /// What it shows.
    fn projection(&self) -> Projection {
        let projection = if self.carries.is_empty() {
            Projection::builder().projection_type(ProjectionType::KeysOnly)
        } else {
            let carried = self.carries.iter().map(|&name| name.to_owned()).collect();
            Projection::builder().projection_type(ProjectionType::Include).set_non_key_attributes(Some(carried))
        };
        projection.build()
    }

    fn definition(&self) -> Result<GlobalSecondaryIndex, BoxError> {
        let index = GlobalSecondaryIndex::builder()
            .index_name(self.name)
            .key_schema(key(self.hash, KeyType::Hash)?)
            .key_schema(key(self.range.0, KeyType::Range)?)
            .projection(self.projection())
            .build()?;
        Ok(index)
    }
}

fn attribute(name: &str, kind: ScalarAttributeType) -> Result<AttributeDefinition, BoxError> {
    Ok(AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()?)
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, BoxError> {
    Ok(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?)
}
