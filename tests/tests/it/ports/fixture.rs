//! The stores that the suite runs on.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use derive_more::{Deref, From};
use embedded::{Ports, Stack, Storage};
use groupage_aws::config::Tables;
use groupage_aws::{Dynamo, Meter};
use groupage_core::domain::time::{DAY_MS, IDLE_MS};
use groupage_core::memory::Keeps;
use groupage_lab::engine;
use groupage_lab::prelude::*;
use serde_json::{Value, json};

/// A store to run a claim on, with all that it needs.
pub trait Fixture: std::ops::Deref<Target: Store + Send + Sized + 'static> {
    async fn start() -> Self;

    /// The store alone, for many tasks at once.
    fn shared(&self) -> Arc<Self::Target>;

    /// Waits until the index of waiting tasks shows every write so far.
    async fn index_settles(&self) {}

    /// Deletes what is due by `now`, as DynamoDB does some time.
    async fn expire(&self, now: Timestamp);
}

#[derive(Deref)]
#[deref(forward)]
pub struct InMemory(Arc<MemoryStore>);

impl Fixture for InMemory {
    async fn start() -> Self {
        Self(Arc::new(MemoryStore::keeping(KEEPS)))
    }

    fn shared(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.0)
    }

    async fn expire(&self, now: Timestamp) {
        self.0.expire(now, || false);
    }
}

#[derive(Deref)]
pub struct WithLag {
    clock: Turned,
    #[deref(forward)]
    store: Arc<Lagging<MemoryStore, Turned>>,
}

const MAX_LAG_MS: u64 = 2_000;

/// A clock that stands until it is turned.
#[derive(Clone, Debug, Default)]
pub struct Turned(Arc<AtomicU64>);

impl Env for Turned {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn fresh_id(&self) -> String {
        format!("fresh-{}", self.now().0)
    }

    async fn sleep(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Fixture for WithLag {
    async fn start() -> Self {
        let (clock, lag) = (Turned::default(), Lag { index_ms: MAX_LAG_MS, ..Lag::default() });
        let store = Arc::new(Lagging::new(MemoryStore::keeping(KEEPS), clock.clone(), lag, 7));
        Self { clock, store }
    }

    fn shared(&self) -> Arc<Self::Target> {
        Arc::clone(&self.store)
    }

    async fn index_settles(&self) {
        self.clock.sleep(MAX_LAG_MS + 1).await;
    }

    async fn expire(&self, now: Timestamp) {
        self.store.inner().expire(now, || false);
    }
}

/// DynamoDB's protocol: in this process, or wherever the command `conformance` says.
#[derive(Deref)]
pub struct OnDynamo {
    stack: Option<Stack>,
    /// How far indexes are behind.
    lag: Duration,
    config: SdkConfig,
    tables: Tables,
    meter: Arc<Meter>,
    #[deref(forward)]
    store: Arc<Dynamo>,
}

pub const RETENTION_MS: u64 = 86_400_000;

/// For how long every store keeps its records.
pub const KEEPS: Keeps = Keeps { retention_ms: RETENTION_MS, idle_ms: IDLE_MS, session_ms: DAY_MS };

impl OnDynamo {
    /// Connections are what `wrap` makes of them.
    pub async fn through<C: HttpConnector + 'static>(
        wrap: impl Fn(SharedHttpConnector) -> C + Send + Sync + 'static,
    ) -> Self {
        let (stack, lag, config, tables) = match engine::at_hand().await {
            Some(engine) => (None, engine.lag, engine.config.clone(), engine.cleared_tables().await.unwrap()),
            None => {
                let stack = Stack::start(Storage::Memory, Ports::default()).await.unwrap();
                let (config, tables) = (stack.sdk_config().clone(), stack.tables().clone());
                (Some(stack), Duration::ZERO, config, tables)
            }
        };
        let inner = config.http_client().expect("the stack has an HTTP client");
        let client = http_client_fn(move |settings, components| {
            SharedHttpConnector::new(wrap(inner.http_connector(settings, components)))
        });
        let (meter, config) = (Arc::new(Meter::new()), config.to_builder().http_client(client).build());
        let store = Dynamo::new(&config, tables.clone(), RETENTION_MS, Arc::clone(&meter));
        Self { stack, lag, config, tables, meter, store: Arc::new(store) }
    }

    /// The embedded stack; what asks for it is no claim about others.
    pub fn stack(&self) -> &Stack {
        self.stack.as_ref().expect("the embedded stack")
    }

    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// A DynamoDB client of the test's own, which loses as many answers as the store's.
    pub fn client(&self) -> Client {
        Client::new(&self.config)
    }
}

impl Fixture for OnDynamo {
    async fn start() -> Self {
        Self::through(|inner| inner).await
    }

    async fn index_settles(&self) {
        tokio::time::sleep(self.lag).await;
    }

    async fn expire(&self, now: Timestamp) {
        let (Tables { tasks, locks, batches, sessions, lists, lanes, .. }, client) = (&self.tables, self.client());
        let is_due = |item: &HashMap<String, AttributeValue>| {
            let until = item.get("Ttl").and_then(|until| until.as_n().ok()?.parse::<u64>().ok());
            until.is_some_and(|until| until < now.as_secs())
        };
        for table in [tasks, locks, batches, sessions, lists, lanes] {
            let described = client.describe_table().table_name(table).send().await.unwrap();
            let keys = described.table.and_then(|table| table.key_schema).unwrap();
            let found = client.scan().table_name(table).send().await.unwrap().items.unwrap_or_default();
            for mut item in found.into_iter().filter(is_due) {
                item.retain(|name, _| keys.iter().any(|key| key.attribute_name == *name));
                client.delete_item().table_name(table).set_key(Some(item)).send().await.unwrap();
            }
        }
    }

    fn shared(&self) -> Arc<Dynamo> {
        Arc::clone(&self.store)
    }
}

/// The same through connectors of this kind.
#[derive(Deref)]
pub struct Through<C>(#[deref(forward)] pub OnDynamo, PhantomData<C>);

impl<C: HttpConnector + From<SharedHttpConnector> + 'static> Fixture for Through<C> {
    async fn start() -> Self {
        Self(OnDynamo::through(C::from).await, PhantomData)
    }

    async fn index_settles(&self) {
        self.0.index_settles().await;
    }

    async fn expire(&self, now: Timestamp) {
        self.0.expire(now).await;
    }

    fn shared(&self) -> Arc<Dynamo> {
        self.0.shared()
    }
}

/// Every write reaches the table twice and only the second answer comes back: what a table sees when the SDK repeats a
/// write whose answer was lost. (The SDK itself soon runs out of its retry quota when that happens always.)
pub type LosingAnswers = Through<Losing>;

/// Every item that is put has an attribute of the next version.
pub type OfNextVersion = Through<Adding>;

#[derive(Debug, From)]
pub struct Adding(SharedHttpConnector);

impl HttpConnector for Adding {
    fn call(&self, mut request: HttpRequest) -> HttpConnectorFuture {
        let bytes = request.body().bytes().expect("a body in memory");
        let mut body: Value = serde_json::from_slice(bytes).expect("a body of JSON");
        add_attribute(&mut body);
        let body = body.to_string();
        request.headers_mut().insert("content-length", body.len().to_string());
        *request.body_mut() = body.into();
        self.0.call(request)
    }
}

/// To the item of each put, wherever in the request that is.
fn add_attribute(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::Object(item)) = fields.get_mut("Item") {
                item.insert("OfNextVersion".to_owned(), json!({ "M": { "Any": { "S": "thing" } } }));
            } else {
                fields.values_mut().for_each(add_attribute);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(add_attribute),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[derive(Debug, From)]
pub struct Losing(SharedHttpConnector);

impl HttpConnector for Losing {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if ![".PutItem", ".UpdateItem", ".DeleteItem", ".TransactWriteItems"]
            .iter()
            .any(|write| target.ends_with(write))
        {
            return self.0.call(request);
        }
        let first = self.0.call(request.try_clone().expect("a write's body is in memory"));
        let connector = self.0.clone();
        HttpConnectorFuture::new(async move {
            drop(first.await?);
            connector.call(request).await
        })
    }
}

/// Runs each claim, a function over any fixture, on every store.
macro_rules! conformance {
    // Claims about what the lagging store hands through to the one inside.
    (without_lag: $($claim:ident),+ $(,)?) => {
        conformance!(@on in_memory, crate::ports::fixture::InMemory, $($claim),+);
        conformance!(@on on_dynamodb, crate::ports::fixture::OnDynamo, $($claim),+);
        conformance!(@on on_dynamodb_losing_answers, crate::ports::fixture::LosingAnswers, $($claim),+);
        conformance!(@on on_dynamodb_with_items_of_the_next_version, crate::ports::fixture::OfNextVersion, $($claim),+);
    };
    // Those of SQS ask for more than the port.
    (of_queues: $($claim:ident),+; of_sqs: $($of_sqs:ident),+ $(,)?) => {
        conformance!(@on in_memory, crate::ports::queues::InMemory, $($claim),+);
        conformance!(@on on_sqs, crate::ports::queues::OnSqs, $($claim),+, $($of_sqs),+);
    };
    ($($claim:ident),+ $(,)?) => {
        conformance!(without_lag: $($claim),+);
        conformance!(@on in_memory_with_a_lagging_index, crate::ports::fixture::WithLag, $($claim),+);
    };
    (@on $module:ident, $fixture:ty, $($claim:ident),+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $claim() {
                    super::$claim(<$fixture as super::Fixture>::start().await).await;
                }
            )+
        }
    };
}
pub(crate) use conformance;
