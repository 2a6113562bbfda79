//! The example of a worker with a transaction of its own, as it is shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use groupage_aws::entry::{AwsStack, RouteSource};
use groupage_aws::{Downstreams, Sqs, System};
use groupage_core::domain::batch::{Assumes, FollowUp, Status};
use groupage_core::domain::id::digest;
use groupage_core::routes::Allowed;
use groupage_core::steps::heartbeat::Heartbeat;
use groupage_core::steps::process::Processor;
use groupage_core::steps::process::notify::Announced;
use groupage_core::steps::work::Worker;
use groupage_lab::prelude::*;

use super::fixture::{Fixture, OnDynamo};
use super::samples::now;
use example::{Printer, drain};

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../../../shared/aws/examples/own_transaction.rs"]
mod example;

const ROUTES: &str = "version: 1
routes:
  - { name: labels, target: city, batch: { max_items: 99 }, downstream: pull }
";

fn route() -> RouteName {
    RouteName::new("labels")
}

/// The embedded stack with the example's route, and its table.
struct Office {
    fixture: OnDynamo,
    stack: AwsStack,
    printer: Printer,
}

impl Office {
    async fn open() -> Self {
        let fixture = OnDynamo::start().await;
        let embedded = fixture.stack();
        let queues = Sqs::new(embedded.sdk_config(), embedded.queues().clone(), Arc::clone(fixture.meter()));
        let routes = RouteSource::Fixed(Arc::new(Routes::parse(ROUTES).unwrap()));
        let stack = AwsStack::new((*fixture).clone(), queues, System, routes);
        let printer = Printer { client: fixture.client(), table: "labels".to_owned() };
        create_table(&printer).await;
        Self { fixture, stack, printer }
    }

    /// Writes a batch of parcels that waits to be claimed.
    async fn batch(&self, id: &str, payloads: &[(&str, &str)]) -> Batch {
        let (store, target) = (&self.stack.store, Target::of(&route(), "Berlin"));
        let mut candidates = Vec::new();
        for (id, payload) in payloads {
            let payload = (*payload).to_owned();
            let task = Task::new(TaskId::new(*id), target.clone(), payload.clone(), digest(&[&payload]), Timestamp(1));
            assert_eq!(store.register(&task).await.unwrap(), Registered::New);
            candidates.push(task.candidate());
        }
        let open = Batch::open(BatchId::new(id), target, Fence(1), &candidates, Timestamp(1), 1);
        store.store(&open, Assumes::Absent).await.unwrap();
        for member in &open.members {
            store.join(&member.id, member.round, &open.id).await.unwrap();
        }
        let frozen = open.frozen(open.members.clone()).pulled_from(Timestamp(1));
        assert_eq!(store.store(&frozen, Assumes::At(open.revision)).await.unwrap(), Stored::Yes);
        frozen
    }

    /// The labels that were printed, by parcel.
    async fn labels(&self) -> BTreeMap<String, String> {
        let items = self.printer.client.scan().table_name(&self.printer.table).send().await.unwrap();
        let text = |value: &AttributeValue| value.as_s().unwrap().clone();
        items.items().iter().map(|item| (text(&item["Parcel"]), text(&item["Label"]))).collect()
    }

    async fn status(&self, task: &str) -> task::Status {
        now(&self.stack.store, &TaskId::new(task)).await.status
    }

    async fn current(&self, batch: &Batch) -> Batch {
        self.stack.store.batch(&batch.id).await.unwrap().expect("it is there")
    }
}

async fn create_table(Printer { client, table }: &Printer) {
    let key = KeySchemaElement::builder().attribute_name("Parcel").key_type(KeyType::Hash).build().unwrap();
    let parcel = AttributeDefinition::builder().attribute_name("Parcel").attribute_type(ScalarAttributeType::S);
    let request = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    request.key_schema(key).attribute_definitions(parcel.build().unwrap()).send().await.unwrap();
}

#[tokio::test]
async fn every_batch_is_settled_with_its_results_and_followed_up() {
    let office = Office::open().await;
    let first = office.batch("0a", &[("p1", r#"{"city":"Berlin"}"#), ("p2", r#"{"town":"Bonn"}"#)]).await;
    let second = office.batch("fa", &[("p3", r#"{"city":"Berlin"}"#)]).await;
    let settled = drain(&office.stack, office.fixture.stack().sdk_config(), &route(), &office.printer).await.unwrap();
    assert_eq!(settled, 2);
    let label = "To Berlin".to_owned();
    assert_eq!(office.labels().await, BTreeMap::from([("p1".to_owned(), label.clone()), ("p3".to_owned(), label)]));
    assert_eq!(office.status("p1").await, task::Status::Succeeded { batch: first.id.clone() });
    let reason = Reason::new("no_city");
    assert_eq!(office.status("p2").await, task::Status::Failed { batch: Some(first.id.clone()), reason });
    assert_eq!(office.status("p3").await, task::Status::Succeeded { batch: second.id.clone() });
    for batch in [&first, &second] {
        let status = office.current(batch).await.status;
        assert!(matches!(status, Status::Settled { follow_up: FollowUp::Done, .. }), "{status:?}");
    }
    assert!(
        office.stack.store.sessions(&Pool::of_route(&route()), None, 9).await.unwrap().found.is_empty(),
        "a clean end"
    );
}

#[tokio::test]
async fn a_worker_that_lost_its_claim_prints_nothing_and_the_next_one_all() {
    let office = Office::open().await;
    let batch = office.batch("0a", &[("p1", r#"{"city":"Berlin"}"#)]).await;
    let AwsStack { store, queues: outbox, env, timing, .. } = &office.stack;
    let routes = office.stack.routes.current().await.unwrap();
    let config = office.fixture.stack().sdk_config();
    let downstream = Downstreams::new(config, Allowed::on_own_machine());
    let session = SessionId::within(&Pool::of_route(&route()), "slow");
    let heartbeat = &Heartbeat::new(store, env, *timing, session.clone(), "slow");
    let processor = Processor {
        store,
        outbox,
        downstream: &downstream,
        env,
        routes: &routes,
        patience_ms: 60_000,
        announced: &Announced::default(),
        heartbeat,
    };
    heartbeat.open().await.unwrap().unwrap();
    let mut worker = Worker::new(processor, route());
    let claimed = worker.claim_next().await.unwrap().expect("a batch waits");
    // It sleeps past its expiry: its session is ended by the process that finds it, and its batch is taken over.
    let found = store.session(&session).await.unwrap().expect("it is open");
    store.end_session(&session, found.beat).await.unwrap();
    assert_eq!(drain(&office.stack, config, &route(), &office.printer).await.unwrap(), 1);
    let printed = office.labels().await;
    let settled = office.current(&batch).await;
    // Nothing is left of the first labels: whatever is there now would be the late worker's.
    let parcel = AttributeValue::S("p1".to_owned());
    let Printer { client, table } = &office.printer;
    client.delete_item().table_name(table).key("Parcel", parcel).send().await.unwrap();
    assert!(office.printer.settle(&worker, &office.stack, claimed).await.unwrap().is_none(), "its claim is lost");
    assert!(office.labels().await.is_empty());
    assert_eq!(printed.len(), 1);
    assert_eq!(office.current(&batch).await, settled);
}
