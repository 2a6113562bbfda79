use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate, ReturnValuesOnConditionCheckFailure,
};
use embedded::{Durability, Error, Ports, Stack, Storage};
use groupage_aws::config::Tables;

async fn in_memory() -> Stack {
    Stack::start(Storage::Memory, Ports::default()).await.unwrap()
}

async fn put(stack: &Stack, id: &str) -> Result<(), Box<PutItemError>> {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = Client::new(stack.sdk_config())
        .put_item()
        .table_name(&stack.tables().tasks)
        .item("Id", text(id))
        .item("Target", text("truck-7"))
        .item("Status", text("created"))
        .item("Round", AttributeValue::N("0".to_owned()))
        .item("Bytes", AttributeValue::N("11".to_owned()))
        .item("Payload", text("not projected"))
        .condition_expression("attribute_not_exists(Id)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    put.send().await.map(|_| ()).map_err(|error| Box::new(error.into_service_error()))
}

async fn waiting(stack: &Stack) -> Vec<HashMap<String, AttributeValue>> {
    let query = Client::new(stack.sdk_config())
        .query()
        .table_name(&stack.tables().tasks)
        .index_name(Tables::WAITING_INDEX)
        .key_condition_expression("Target = :t")
        .expression_attribute_values(":t", AttributeValue::S("truck-7".to_owned()));
    query.send().await.unwrap().items.unwrap_or_default()
}

#[tokio::test]
async fn a_refused_write_brings_back_what_was_there() {
    let stack = in_memory().await;
    put(&stack, "p1").await.unwrap();
    match *put(&stack, "p1").await.unwrap_err() {
        PutItemError::ConditionalCheckFailedException(refused) => {
            assert_eq!(refused.item.unwrap()["Id"], AttributeValue::S("p1".to_owned()));
        }
        other => panic!("{other:?}"),
    }
    stack.shutdown().await;
}

#[tokio::test]
async fn the_index_holds_what_carries_a_target_and_no_payload() {
    let stack = in_memory().await;
    put(&stack, "p1").await.unwrap();
    put(&stack, "p2").await.unwrap();
    let remove = Client::new(stack.sdk_config())
        .update_item()
        .table_name(&stack.tables().tasks)
        .key("Id", AttributeValue::S("p1".to_owned()))
        .update_expression("REMOVE Target");
    remove.send().await.unwrap();

    let found = waiting(&stack).await;
    assert_eq!(found.len(), 1);
    let mut names: Vec<&str> = found[0].keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["Bytes", "Id", "Round", "Status", "Target"]);
    stack.shutdown().await;
}

#[tokio::test]
async fn a_folder_keeps_its_tables_and_the_same_ports_can_be_had_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Folder(folder.path().join("data"), Durability::Process);
    let stack = Stack::start(storage.clone(), Ports::default()).await.unwrap();
    put(&stack, "p1").await.unwrap();
    let environment = stack.environment();
    let port = |name| {
        let (_, url) = environment.iter().find(|(found, _)| *found == name).unwrap();
        url.rsplit(':').next().unwrap().parse().unwrap()
    };
    let ports = Ports { dynamo: port("AWS_ENDPOINT_URL_DYNAMODB"), sqs: port("AWS_ENDPOINT_URL_SQS") };
    stack.shutdown().await;

    let stack = Stack::start(storage, ports).await.unwrap();
    assert_eq!(stack.environment(), environment);
    assert_eq!(waiting(&stack).await.len(), 1);
    assert!(put(&stack, "p1").await.is_err());
    stack.shutdown().await;
}

#[tokio::test]
async fn a_deleted_payload_is_in_no_file_of_a_stopped_stack() {
    let folder = tempfile::tempdir().unwrap();
    let stack = Stack::start(Storage::Folder(folder.path().to_owned(), Durability::Process), Ports::default());
    let stack = stack.await.unwrap();
    put(&stack, "p1").await.unwrap();
    let id = AttributeValue::S("p1".to_owned());
    let client = Client::new(stack.sdk_config());
    client.delete_item().table_name(&stack.tables().tasks).key("Id", id).send().await.unwrap();
    stack.shutdown().await;

    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let files: Vec<_> = files.collect();
    assert!(files.iter().any(|file| file.starts_with(b"SQLite format 3")));
    let payload = b"not projected";
    assert!(files.iter().all(|file| file.windows(payload.len()).all(|bytes| bytes != payload)));
}

#[tokio::test]
async fn a_folder_and_a_port_belong_to_one_stack_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Folder(folder.path().to_owned(), Durability::Process);
    let stack = Stack::start(storage.clone(), Ports::default()).await.unwrap();
    let error = Stack::start(storage, Ports::default()).await.unwrap_err();
    assert!(matches!(error, Error::FolderInUse { .. }), "{error}");

    let url = stack.environment()[0].1.clone();
    let taken = url.rsplit(':').next().unwrap().parse().unwrap();
    let error = Stack::start(Storage::Memory, Ports { dynamo: taken, sqs: 0 }).await.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }), "{error}");
    stack.shutdown().await;
}

#[tokio::test]
async fn a_folder_that_is_a_file_is_an_error_that_names_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error =
        Stack::start(Storage::Folder(file.path().to_owned(), Durability::Process), Ports::default()).await.unwrap_err();
    assert!(error.to_string().contains(file.path().to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_folder_of_an_earlier_version_gains_the_index_that_it_lacks_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Stack::start(Storage::Folder(folder.path().to_owned(), Durability::Process), Ports::default());
    let text = |value: &str| AttributeValue::S(value.to_owned());

    let stack = start().await.unwrap();
    let (client, table) = (Client::new(stack.sdk_config()), stack.tables().tasks.clone());
    let delete = DeleteGlobalSecondaryIndexAction::builder().index_name(Tables::FILED_INDEX).build().unwrap();
    let lacking = GlobalSecondaryIndexUpdate::builder().delete(delete).build();
    client.update_table().table_name(&table).global_secondary_index_updates(lacking).send().await.unwrap();
    let query = |client: &Client| {
        let query = client.query().table_name(&table).index_name(Tables::FILED_INDEX);
        query.key_condition_expression("Filed = :f").expression_attribute_values(":f", text("labels#1"))
    };
    let failed = client.put_item().table_name(&table).item("Id", text("p1"));
    failed.item("Filed", text("labels#1")).item("FiledAt", text("000000000000001#p1")).send().await.unwrap();
    query(&client).send().await.expect_err("the index is gone");
    stack.shutdown().await;

    let stack = start().await.unwrap();
    let found = query(&Client::new(stack.sdk_config())).send().await.unwrap();
    assert_eq!(found.count, 1);
    stack.shutdown().await;
}
