//! Stored items of each release: today's readers read them, and that release reads today's.
//!
//! The folder of a release has one file for each table, with items as that release wrote them, and `reads`: which of
//! the samples they are.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_types::{Blob, base64};
use groupage_aws::RouteTable;
use groupage_aws::config::Tables;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{folder, has_all_of, samples};
use crate::ports::fixture::{Fixture, OnDynamo};

type Item = HashMap<String, AttributeValue>;

/// Each table: its file, the attributes of its key, and its name.
fn tables(of: &Tables) -> [(&'static str, &'static [&'static str], &str); 9] {
    [
        ("tasks", &["Id"], &of.tasks),
        ("locks", &["Target"], &of.locks),
        ("batches", &["BatchId"], &of.batches),
        ("sessions", &["Pool", "SessionId"], &of.sessions),
        ("trackers", &["TrackerId", "Node"], &of.trackers),
        ("lists", &["ListId", "Slot"], &of.lists),
        ("lanes", &["LaneId", "Turn"], &of.lanes),
        ("streams", &["StreamId", "Node"], &of.streams),
        ("routes", &["Name"], &of.routes),
    ]
}

/// Tables on the embedded stack.
struct Desk {
    store: OnDynamo,
    routes: RouteTable,
    client: Client,
}

impl Desk {
    async fn open() -> Self {
        let store = OnDynamo::start().await;
        let stack = store.stack();
        let routes = RouteTable::new(stack.sdk_config(), stack.tables(), Arc::clone(store.meter()));
        let client = Client::new(stack.sdk_config());
        Self { store, routes, client }
    }

    /// With the samples as today's adapters write them.
    async fn of_today() -> Self {
        let desk = Self::open().await;
        samples::write(&desk.store, &desk.routes).await;
        desk
    }

    /// With the items of a release.
    async fn of(release: &Release, change: impl Fn(&mut Item)) -> Self {
        let desk = Self::open().await;
        for (file, _, name) in tables(desk.store.stack().tables()) {
            for stored in release.items.get(file).into_iter().flatten() {
                let mut item = item_of(stored);
                change(&mut item);
                desk.client.put_item().table_name(name).set_item(Some(item)).send().await.unwrap();
            }
        }
        desk
    }

    async fn reads(&self) -> samples::Reads {
        samples::read(&self.store, &self.routes).await
    }

    /// All items by their files, in the order of their keys.
    async fn items(&self) -> HashMap<String, Vec<Value>> {
        let mut all = HashMap::new();
        for (file, key, name) in tables(self.store.stack().tables()) {
            let scanned = self.client.scan().table_name(name).send().await.unwrap();
            assert!(scanned.last_evaluated_key.is_none(), "one page");
            let mut items: Vec<Value> = scanned.items().iter().map(json_of).collect();
            items.sort_by_key(|item| key_of(item, key));
            all.insert(file.to_owned(), items);
        }
        all
    }
}

/// What a release has left.
struct Release {
    version: String,
    items: HashMap<String, Vec<Value>>,
    /// The samples that the items are.
    reads: Vec<String>,
}

impl Release {
    fn load(folder: &Path) -> Self {
        let version = folder.file_name().unwrap().to_string_lossy().into_owned();
        let lines =
            |file: &Path| -> Vec<String> { fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect() };
        let files = fs::read_dir(folder.join("items")).unwrap().map(|entry| entry.unwrap().path());
        let mut items = HashMap::new();
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")) {
            let table = file.file_stem().unwrap().to_string_lossy().into_owned();
            items.insert(table, lines(&file).iter().map(|line| serde_json::from_str(line).unwrap()).collect());
        }
        Self { version, items, reads: lines(&folder.join("items/reads")) }
    }
}

/// Each release; the present version's files are written anew first if that is asked for.
async fn releases() -> Vec<Release> {
    // Once for all tests: one would read what another writes.
    static IS_WRITTEN: OnceCell<()> = OnceCell::const_new();
    if std::env::var_os("GROUPAGE_REWRITE").is_some() {
        IS_WRITTEN.get_or_init(write_own).await;
    }
    let folders = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|folder| Release::load(&folder)).collect()
}

/// The files of the present version.
async fn write_own() {
    let desk = Desk::of_today().await;
    let own = folder().join(env!("CARGO_PKG_VERSION")).join("items");
    fs::create_dir_all(&own).unwrap();
    for (file, items) in desk.items().await {
        let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
        fs::write(own.join(file).with_extension("jsonl"), lines).unwrap();
    }
    let reads: String = desk.reads().await.keys().map(|name| format!("{name}\n")).collect();
    fs::write(own.join("reads"), reads).unwrap();
}

/// An item as DynamoDB's API writes it.
fn json_of(item: &Item) -> Value {
    item.iter().map(|(name, value)| (name.clone(), json_of_value(value))).collect()
}

fn json_of_value(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::B(bytes) => json!({ "B": base64::encode(bytes) }),
        AttributeValue::Bool(is) => json!({ "BOOL": is }),
        AttributeValue::Null(is) => json!({ "NULL": is }),
        AttributeValue::L(values) => json!({ "L": values.iter().map(json_of_value).collect::<Vec<_>>() }),
        AttributeValue::M(map) => json!({ "M": json_of(map) }),
        other => panic!("no table has such a value: {other:?}"),
    }
}

fn item_of(stored: &Value) -> Item {
    let fields = stored.as_object().expect("an item");
    fields.iter().map(|(name, value)| (name.clone(), value_of(value))).collect()
}

fn value_of(stored: &Value) -> AttributeValue {
    let (kind, value) = stored.as_object().and_then(|fields| fields.iter().next()).expect("a value with its type");
    let text = || value.as_str().expect("a text").to_owned();
    match kind.as_str() {
        "S" => AttributeValue::S(text()),
        "N" => AttributeValue::N(text()),
        "B" => AttributeValue::B(Blob::new(base64::decode(text()).expect("base64"))),
        "BOOL" => AttributeValue::Bool(value.as_bool().expect("a boolean")),
        "NULL" => AttributeValue::Null(true),
        "L" => AttributeValue::L(value.as_array().expect("a list").iter().map(value_of).collect()),
        "M" => AttributeValue::M(item_of(value)),
        other => panic!("no table has a value of type {other}"),
    }
}

fn key_of(item: &Value, key: &[&str]) -> String {
    key.iter().map(|name| item[name].to_string()).collect()
}

#[tokio::test]
async fn every_releases_items_are_read_with_and_without_an_attribute_of_the_next() {
    let (releases, written) = (releases().await, Desk::of_today().await.reads().await);
    assert!(written.values().all(Option::is_some), "a sample is not found: {written:#?}");
    for release in releases {
        let version = &release.version;
        let reads = Desk::of(&release, |_| ()).await.reads().await;
        for name in &release.reads {
            assert!(reads[name].is_some(), "today's code does not find `{name}` in the items of {version}");
        }
        if version == env!("CARGO_PKG_VERSION") {
            assert_eq!(reads, written, "the files of {version} are stale: write them anew with GROUPAGE_REWRITE=1");
        }
        let more = AttributeValue::M(HashMap::from([("Any".to_owned(), AttributeValue::S("thing".to_owned()))]));
        let add = |item: &mut Item| drop(item.insert("OfNextVersion".to_owned(), more.clone()));
        assert_eq!(Desk::of(&release, add).await.reads().await, reads, "an attribute more makes a difference");
    }
}

#[tokio::test]
async fn todays_items_have_what_the_readers_of_every_release_require() {
    let (releases, desk) = (releases().await, Desk::of_today().await);
    let todays = desk.items().await;
    for release in releases {
        for (file, key, _) in tables(desk.store.stack().tables()) {
            for former in release.items.get(file).into_iter().flatten() {
                let of_key = key_of(former, key);
                let new = todays[file].iter().find(|item| key_of(item, key) == of_key);
                let new = new.unwrap_or_else(|| panic!("{file}: today's samples lack {of_key}"));
                let version = &release.version;
                assert!(has_all_of(new, former), "{version} does not read this of {file}: {new}; it has {former}");
            }
        }
    }
}

#[tokio::test]
async fn two_runs_write_the_same_items() {
    assert_eq!(Desk::of_today().await.items().await, Desk::of_today().await.items().await);
}
