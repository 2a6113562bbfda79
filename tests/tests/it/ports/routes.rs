//! The routes file in its table.

use std::sync::Arc;

use groupage_aws::RouteTable;

use super::fixture::{Fixture, OnDynamo};
use groupage_tests::prelude::*;

#[tokio::test]
async fn a_pushed_routes_file_replaces_the_one_before() {
    let store = OnDynamo::start().await;
    let stack = store.stack();
    let table = RouteTable::new(stack.sdk_config(), stack.tables(), Arc::clone(store.meter()));
    assert_eq!(table.load().await.unwrap(), None);
    let first = table.push("version: 1\n", Timestamp(5)).await.unwrap();
    assert_eq!((first.yaml.as_str(), first.pushed_at), ("version: 1\n", Timestamp(5)));
    assert_eq!(table.load().await.unwrap(), Some(first.clone()));
    let second = table.push("version: 1\nroutes: []\n", Timestamp(6)).await.unwrap();
    assert_ne!(first.digest, second.digest);
    assert_eq!(table.load().await.unwrap(), Some(second));
}
