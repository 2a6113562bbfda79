//! The routes file in its table: versions, and what is in force when the newest cannot be used.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use groupage_aws::entry::{NoRoutes, RouteSource};
use groupage_aws::{Publication, RouteTable, StoredRoutes};

use super::fixture::{Fixture, OnDynamo};
use groupage_lab::prelude::*;

/// A routes table on the embedded stack, and the way to write it by other means.
struct Desk {
    store: OnDynamo,
    table: RouteTable,
}

impl Desk {
    async fn open() -> Self {
        let store = OnDynamo::start().await;
        let stack = store.stack();
        let table = RouteTable::new(stack.sdk_config(), stack.tables(), Arc::clone(store.meter()));
        Self { store, table }
    }

    async fn push(&self, yaml: &str, at: u64) -> StoredRoutes {
        self.table.push(yaml, "somebody", Timestamp(at)).await.unwrap()
    }

    async fn publish(&self, former: Option<&StoredRoutes>, yaml: &str) -> Option<StoredRoutes> {
        let publication = Publication { yaml, by: "somebody", restores: None, gone: &[] };
        self.table.publish(former, publication, Timestamp(9)).await.unwrap()
    }

    /// What an earlier version of the command writes, or a person by hand.
    async fn write(&self, yaml: &str, at: u64) {
        let stack = self.store.stack();
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let put = Client::new(stack.sdk_config()).put_item().table_name(&stack.tables().routes);
        let put = put.item("Name", text("routes")).item("Yaml", text(yaml)).item("Digest", text(yaml));
        put.item("PushedAt", AttributeValue::N(at.to_string())).send().await.unwrap();
    }

    /// The only route of a function that starts now, and whether it knows that there are others.
    async fn in_force(&self) -> Result<(String, bool), NoRoutes> {
        let source = RouteSource::table(self.table.clone());
        let routes = source.current().await?;
        let name = routes.iter().next().expect("a route").name.to_string();
        Ok((name, source.is_behind().await))
    }
}

fn routes(name: &str) -> String {
    format!("version: 1\nroutes:\n  - {{ name: {name}, target: t, downstream: pull }}\n")
}

#[tokio::test]
async fn the_history_is_of_the_latest_versions_and_the_newest_is_in_force() {
    let desk = Desk::open().await;
    let versions = async |most| desk.table.history(most).await.unwrap().iter().map(|of| of.version).collect::<Vec<_>>();
    assert_eq!(versions(3).await, Vec::<u64>::new());
    for n in 1..=5 {
        desk.push(&routes(&format!("r{n}")), n).await;
    }
    assert_eq!(versions(3).await, [5, 4, 3]);
    assert_eq!(versions(99).await, [5, 4, 3, 2, 1]);
    assert_eq!(RouteSource::table(desk.table.clone()).history(1).await.unwrap()[0].version, 5);
}

#[tokio::test]
async fn each_push_is_a_version_that_stays_and_says_who_and_when() {
    let desk = Desk::open().await;
    assert_eq!(desk.table.load().await.unwrap(), None);
    let first = desk.push(&routes("a"), 5).await;
    assert_eq!((first.version, first.pushed_at, first.pushed_by.as_deref()), (1, Timestamp(5), Some("somebody")));
    let second = desk.push(&routes("b"), 6).await;
    assert_eq!(second.version, 2);
    assert_ne!(first.digest, second.digest);
    assert_eq!(desk.table.load().await.unwrap(), Some(second.clone()));
    for (version, kept) in [(0, None), (1, Some(&first)), (2, Some(&second)), (3, None)] {
        assert_eq!(desk.table.load_version(version).await.unwrap().as_ref(), kept, "{version}");
    }
    assert_eq!(desk.push(&routes("b"), 7).await, second, "the same file once more is no version");
}

#[tokio::test]
async fn of_two_that_publish_after_the_same_version_one_is_told_that_it_came_late() {
    let desk = Desk::open().await;
    let first = desk.push(&routes("a"), 5).await;
    let second = desk.publish(Some(&first), &routes("b")).await.unwrap();
    assert_eq!(desk.publish(Some(&first), &routes("c")).await, None);
    assert_eq!(desk.publish(None, &routes("c")).await, None, "nor does it begin anew");
    assert_eq!(desk.table.load().await.unwrap(), Some(second.clone()));
    assert_eq!(desk.publish(Some(&first), &routes("b")).await, Some(second), "a repeat knows its own success");
}

#[tokio::test]
async fn what_an_earlier_version_pushed_is_read_and_kept() {
    let desk = Desk::open().await;
    desk.write(&routes("old"), 3).await;
    assert_eq!(desk.in_force().await.unwrap(), ("old".to_owned(), false));
    assert_eq!(desk.push(&routes("new"), 5).await.version, 1);
    assert_eq!(desk.table.load_version(0).await.unwrap().unwrap().yaml, routes("old"));
    // Somebody still has the earlier version of the command.
    desk.write(&routes("old-again"), 6).await;
    assert_eq!(desk.push(&routes("newer"), 7).await.version, 3);
    assert_eq!(desk.table.load_version(2).await.unwrap().unwrap().yaml, routes("old-again"));
}

#[tokio::test]
async fn routes_that_cannot_be_used_leave_the_last_good_version_in_force_and_are_told_of() {
    let desk = Desk::open().await;
    assert!(matches!(desk.in_force().await, Err(NoRoutes::NotPushed)));
    desk.push(&routes("a"), 5).await;
    desk.push(&routes("b"), 6).await;
    assert_eq!(desk.in_force().await.unwrap(), ("b".to_owned(), false));
    // A field of a newer version's, say, which this one refuses.
    desk.push("version: 1\nroutes: [{ colour: red }]\n", 7).await;
    assert_eq!(desk.in_force().await.unwrap(), ("b".to_owned(), true), "a start finds it, too");
    desk.push(&routes("c"), 8).await;
    assert_eq!(desk.in_force().await.unwrap(), ("c".to_owned(), false));
}

#[tokio::test]
async fn routes_written_by_hand_that_cannot_be_used_leave_the_version_before_in_force() {
    let desk = Desk::open().await;
    desk.write("nonsense", 3).await;
    assert!(matches!(desk.in_force().await, Err(NoRoutes::Invalid(_))));
    desk.write(&routes("old"), 4).await;
    desk.push(&routes("a"), 5).await;
    desk.write("nonsense", 6).await;
    assert_eq!(desk.in_force().await.unwrap(), ("a".to_owned(), true));
}
