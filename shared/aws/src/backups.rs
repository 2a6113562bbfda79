//! Restoring tables to an earlier moment: all to the same one, each into a new table beside it.
//!
//! The tables in use are read and never changed, so a restore may be begun, repeated and given up at any time. A repeat
//! finds the tables that an earlier call has begun, and goes on.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::primitives::DateTime;
use aws_sdk_dynamodb::types::{
    PointInTimeRecoverySpecification, TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use futures::FutureExt;
use groupage_core::domain::Timestamp;
use groupage_core::ports::{Error, Result};

use crate::config::Tables;
use crate::fault::failed;

/// The tables' backups.
#[derive(Clone, Debug)]
pub struct Backups {
    client: Client,
}

/// A table, and from when until when its backup reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub table: String,
    /// Items, as DynamoDB counts them every six hours.
    pub items: u64,
    /// Bytes, likewise.
    pub bytes: u64,
    /// The moments between which it can be restored; `None` if it has no backup.
    pub window: Option<(Timestamp, Timestamp)>,
}

/// How far the restore of one table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing has this name.
    Absent,
    /// DynamoDB is at work on it.
    UnderWay,
    /// It is there, restored to this moment, if DynamoDB says to which.
    Restored(Option<Timestamp>),
    /// A table of this name is there that was not restored from its source.
    Foreign,
}

/// The moments to which all tables can be restored.
///
/// # Errors
/// The name of a table that has no backup.
pub fn common_window(sources: &[Source]) -> std::result::Result<(Timestamp, Timestamp), String> {
    let mut common = (Timestamp(0), Timestamp(u64::MAX));
    for source in sources {
        let (from, until) = source.window.ok_or_else(|| source.table.clone())?;
        common = (common.0.max(from), common.1.min(until));
    }
    Ok(common)
}

impl Tables {
    /// Every table's name, in a fixed order.
    pub fn names(&self) -> [&str; 9] {
        let Self { tasks, locks, batches, sessions, trackers, lists, lanes, streams, routes } = self;
        [tasks, locks, batches, sessions, trackers, lists, lanes, streams, routes].map(String::as_str)
    }
}

impl Backups {
    /// Of the tables that this configuration reaches.
    pub fn new(config: &SdkConfig) -> Self {
        Self { client: Client::new(config) }
    }

    /// What a table's backup reaches.
    ///
    /// # Errors
    /// There is no such table, or DynamoDB did not answer.
    pub async fn source(&self, table: &str) -> Result<Source> {
        const WHAT: &str = "ask for a table's backup";
        let described = self.describe(table).await?.ok_or_else(|| no_table(WHAT, table))?;
        let answer = self.client.describe_continuous_backups().table_name(table).send().boxed().await;
        let backups = answer.map_err(|error| failed(WHAT, error))?.continuous_backups_description;
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
        let window = recovery.and_then(|recovery| {
            let from = recovery.earliest_restorable_date_time.as_ref().and_then(moment);
            from.zip(recovery.latest_restorable_date_time.as_ref().and_then(moment))
        });
        let count = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
        let (items, bytes) = (count(described.item_count), count(described.table_size_bytes));
        Ok(Source { table: table.to_owned(), items, bytes, window })
    }

    /// How far the restore of `from` into `to` is.
    pub async fn progress(&self, from: &str, to: &str) -> Result<Progress> {
        let Some(described) = self.describe(to).await? else { return Ok(Progress::Absent) };
        if described.table_status != Some(TableStatus::Active) {
            return Ok(Progress::UnderWay);
        }
        let summary = described.restore_summary();
        if summary.is_some_and(|summary| summary.restore_in_progress) {
            return Ok(Progress::UnderWay);
        }
        let source = summary.and_then(|summary| summary.source_table_arn());
        // An emulator may not say where a table came from; DynamoDB always does.
        let is_ours = source.is_none_or(|arn| arn.rsplit('/').next() == Some(from));
        let at = summary.and_then(|summary| moment(&summary.restore_date_time));
        Ok(if is_ours { Progress::Restored(at) } else { Progress::Foreign })
    }

    /// Begins the restore of a table into a new one, as it was at a moment. One that is begun already goes on.
    ///
    /// # Errors
    /// The moment is outside of the table's backup, or DynamoDB did not answer.
    pub async fn restore(&self, from: &str, to: &str, at: Timestamp) -> Result<()> {
        let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
        let request = self.client.restore_table_to_point_in_time().source_table_name(from).target_table_name(to);
        match request.restore_date_time(DateTime::from_secs(seconds)).send().boxed().await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, &["TableAlreadyExistsException", "TableInUseException"]) => Ok(()),
            Err(error) => Err(failed("restore a table", error)),
        }
    }

    /// Gives a restored table what a restore leaves out: its time to live, a backup of its own, its protection. May be
    /// repeated.
    pub async fn equip(&self, from: &str, to: &str) -> Result<()> {
        const WHAT: &str = "give a restored table its settings";
        if let Some(attribute) = self.expires_by(from).await?
            && self.expires_by(to).await?.is_none()
        {
            let wanted = TimeToLiveSpecification::builder().attribute_name(attribute).enabled(true).build();
            let wanted = wanted.map_err(|error| broken(WHAT, error))?;
            let request = self.client.update_time_to_live().table_name(to).time_to_live_specification(wanted);
            request.send().boxed().await.map_err(|error| failed(WHAT, error))?;
        }
        let wanted = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true).build();
        let wanted = wanted.map_err(|error| broken(WHAT, error))?;
        let request = self.client.update_continuous_backups().table_name(to);
        let request = request.point_in_time_recovery_specification(wanted);
        request.send().boxed().await.map_err(|error| failed(WHAT, error))?;
        let protected = |described: Option<TableDescription>| {
            described.and_then(|described| described.deletion_protection_enabled).unwrap_or_default()
        };
        if protected(self.describe(from).await?) && !protected(self.describe(to).await?) {
            let request = self.client.update_table().table_name(to).deletion_protection_enabled(true);
            request.send().boxed().await.map_err(|error| failed(WHAT, error))?;
        }
        Ok(())
    }

    /// The attribute by which a table's items expire.
    async fn expires_by(&self, table: &str) -> Result<Option<String>> {
        let answer = self.client.describe_time_to_live().table_name(table).send().boxed().await;
        let answer = answer.map_err(|error| failed("ask for a table's time to live", error))?;
        let description = answer.time_to_live_description.filter(|description| {
            let on = [TimeToLiveStatus::Enabled, TimeToLiveStatus::Enabling];
            description.time_to_live_status().is_some_and(|status| on.contains(status))
        });
        Ok(description.and_then(|description| description.attribute_name))
    }

    async fn describe(&self, table: &str) -> Result<Option<TableDescription>> {
        match self.client.describe_table().table_name(table).send().boxed().await {
            Ok(answer) => Ok(answer.table),
            Err(error) if has_code(&error, &["ResourceNotFoundException"]) => Ok(None),
            Err(error) => Err(failed("look at a table", error)),
        }
    }
}

fn moment(time: &DateTime) -> Option<Timestamp> {
    u64::try_from(time.to_millis().ok()?).ok().map(Timestamp)
}

fn has_code<E: ProvideErrorMetadata>(error: &SdkError<E>, codes: &[&str]) -> bool {
    error.as_service_error().and_then(ProvideErrorMetadata::code).is_some_and(|code| codes.contains(&code))
}

fn no_table(what: &'static str, table: &str) -> Error {
    Error::Broken { what, why: format!("there is no table {table}") }
}

fn broken(what: &'static str, why: impl ToString) -> Error {
    Error::Broken { what, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(table: &str, window: Option<(u64, u64)>) -> Source {
        let window = window.map(|(from, until)| (Timestamp(from), Timestamp(until)));
        Source { table: table.to_owned(), items: 0, bytes: 0, window }
    }

    #[test]
    fn all_tables_can_be_restored_to_what_every_backup_reaches() {
        let sources = [source("a", Some((10, 90))), source("b", Some((20, 95))), source("c", Some((5, 80)))];
        assert_eq!(common_window(&sources), Ok((Timestamp(20), Timestamp(80))));
        let without = [source("a", Some((10, 90))), source("b", None)];
        assert_eq!(common_window(&without), Err("b".to_owned()));
    }
}
