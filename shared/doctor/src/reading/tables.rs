//! What expires in the tables, and whether they can be restored.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{PointInTimeRecoveryStatus, TimeToLiveStatus};
use futures::FutureExt;
use futures::future::join_all;
use futures::join;
use groupage_aws::Connection;

use super::answers::unread;
use crate::seen::{Read, Table};

pub(super) async fn read(connection: &Connection, is_deployed: bool) -> Vec<Table> {
    let client = &Client::new(&connection.config);
    let of = &connection.tables;
    let tables = [
        ("tasks", &of.tasks, true),
        ("locks", &of.locks, true),
        ("batches", &of.batches, true),
        ("sessions", &of.sessions, true),
        ("trackers", &of.trackers, false),
        ("lists", &of.lists, true),
        ("lanes", &of.lanes, true),
        ("streams", &of.streams, false),
        ("routes", &of.routes, false),
    ];
    join_all(tables.map(|(name, table, expires)| async move {
        let recovery = async { if is_deployed { Some(is_recoverable(client, table).await) } else { None } };
        let (expires_by, is_recoverable) = join!(expires_by(client, table), recovery);
        Table { name, expires, expires_by, is_recoverable }
    }))
    .await
}

async fn expires_by(client: &Client, table: &str) -> Read<Option<String>> {
    let answer = client.describe_time_to_live().table_name(table).send().boxed().await.map_err(unread)?;
    let said = answer.time_to_live_description;
    let is_on = |status: &TimeToLiveStatus| matches!(status, TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling);
    let said = said.filter(|said| said.time_to_live_status().is_some_and(is_on));
    Ok(said.and_then(|said| said.attribute_name))
}

async fn is_recoverable(client: &Client, table: &str) -> Read<bool> {
    let answer = client.describe_continuous_backups().table_name(table).send().boxed().await.map_err(unread)?;
    let backups = answer.continuous_backups_description();
    let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description());
    let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status());
    Ok(status == Some(&PointInTimeRecoveryStatus::Enabled))
}
