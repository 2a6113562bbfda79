//! The tables, as `template.yaml` defines them.

use aws_sdk_dynamodb::{
    Client,
    error::SdkError,
    operation::create_table::CreateTableError,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
        ScalarAttributeType, TimeToLiveSpecification, TimeToLiveStatus,
    },
};
use shared::config::Tables;

use crate::Error;

/// The attribute that says when an item may go, in seconds since 1970.
const TTL_ATTRIBUTE: &str = "Ttl";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a table is made of.
struct Shape<'a> {
    name: &'a str,
    key: &'static str,
    /// Whether it has the index of waiting tasks.
    waiting: bool,
    expires: bool,
}

/// Creates the tables that are not there.
pub(super) async fn create(client: &Client) -> Result<Tables, Error> {
    let tables = Tables {
        tasks: "groupage-tasks".to_owned(),
        locks: "groupage-locks".to_owned(),
        batches: "groupage-batches".to_owned(),
        routes: "groupage-routes".to_owned(),
    };
    let shapes = [
        Shape { name: &tables.tasks, key: "Id", waiting: true, expires: true },
        Shape { name: &tables.locks, key: "Target", waiting: false, expires: true },
        Shape { name: &tables.batches, key: "BatchId", waiting: false, expires: true },
        Shape { name: &tables.routes, key: "Name", waiting: false, expires: false },
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
        .attribute_definitions(attribute(shape.key)?)
        .key_schema(key(shape.key, KeyType::Hash)?);
    if shape.waiting {
        request = request
            .attribute_definitions(attribute("Target")?)
            .attribute_definitions(attribute("Status")?)
            .global_secondary_indexes(waiting_index()?);
    }
    match request.send().await {
        Ok(_) => {}
        Err(error) if exists(&error) => {}
        Err(error) => return Err(error.into()),
    }
    if shape.expires { expire(client, shape.name).await } else { Ok(()) }
}

fn exists(error: &SdkError<CreateTableError>) -> bool {
    error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception)
}

/// Turns the time to live on. Asking twice is an error to DynamoDB, so it reads first: a crash between this and the
/// table's creation is healed by the next start.
async fn expire(client: &Client, table: &str) -> Result<(), BoxError> {
    let found = client.describe_time_to_live().table_name(table).send().await?;
    let status = found.time_to_live_description().and_then(|description| description.time_to_live_status());
    if status == Some(&TimeToLiveStatus::Enabled) {
        return Ok(());
    }
    let wanted = TimeToLiveSpecification::builder().attribute_name(TTL_ATTRIBUTE).enabled(true).build()?;
    client.update_time_to_live().table_name(table).time_to_live_specification(wanted).send().await?;
    Ok(())
}

fn waiting_index() -> Result<GlobalSecondaryIndex, BoxError> {
    let projection = Projection::builder()
        .projection_type(ProjectionType::Include)
        .non_key_attributes("Round")
        .non_key_attributes("Bytes")
        .build();
    let index = GlobalSecondaryIndex::builder()
        .index_name(Tables::WAITING_INDEX)
        .key_schema(key("Target", KeyType::Hash)?)
        .key_schema(key("Status", KeyType::Range)?)
        .projection(projection)
        .build()?;
    Ok(index)
}

fn attribute(name: &str) -> Result<AttributeDefinition, BoxError> {
    Ok(AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build()?)
}

fn key(name: &str, kind: KeyType) -> Result<KeySchemaElement, BoxError> {
    Ok(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?)
}
