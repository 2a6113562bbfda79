//! What the caller's credentials may change, asked without changing anything.
//!
//! AWS looks at what IAM allows before it looks at anything else. So each right is asked for by a request that can do
//! nothing: a write under a condition that contradicts itself, or the deletion of a message by a receipt that is none.
//! The answer is either a refusal by IAM, or one of the table or queue. Such a write costs one write unit. Whatever
//! else goes wrong counts as allowed: the act itself will say so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::FutureExt;
use futures::future::join_all;

use crate::Connection;
use crate::config::{Queues, Tables};

/// For so long an answer holds.
const HOLDS: Duration = Duration::from_secs(300);
/// A key that nothing has.
const NOBODY: &str = "#rights";
/// A condition that no item meets.
const NEVER: &str = "attribute_exists(#key) AND attribute_not_exists(#key)";

/// What somebody may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Tasks: to retry, drop or cancel them.
    Tasks,
    /// Gates: to hold calls back, and let them go on.
    Gates,
    /// Lists: to release tasks.
    Lists,
    /// Lanes: to let an order key go on.
    Lanes,
    /// Streams: to commit what is settled.
    Streams,
    /// Messages that ended: to send them again.
    Ended,
}

impl Right {
    const ALL: [Self; 6] = [Self::Tasks, Self::Gates, Self::Lists, Self::Lanes, Self::Streams, Self::Ended];
}

/// What AWS refuses, and its words.
pub type Denied = BTreeMap<Right, String>;

/// Asks what the caller's credentials may change.
#[derive(Debug)]
pub struct Rights {
    dynamo: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    tables: Tables,
    queues: Queues,
    known: Mutex<Option<(Instant, Arc<Denied>)>>,
}

impl Rights {
    /// To this stack.
    #[must_use]
    pub fn of(connection: &Connection) -> Self {
        let Connection { config, tables, queues } = connection;
        Self {
            dynamo: aws_sdk_dynamodb::Client::new(config),
            sqs: aws_sdk_sqs::Client::new(config),
            tables: tables.clone(),
            queues: queues.clone(),
            known: Mutex::default(),
        }
    }

    /// What is refused. It is asked once in five minutes.
    pub async fn denied(&self) -> Arc<Denied> {
        if let Some(known) = self.known() {
            return known;
        }
        let asked = join_all(Right::ALL.map(|right| async move { Some((right, self.refusal(right).await?)) })).await;
        let denied: Arc<Denied> = Arc::new(asked.into_iter().flatten().collect());
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), Arc::clone(&denied)));
        denied
    }

    fn known(&self) -> Option<Arc<Denied>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(at, _)| at.elapsed() < HOLDS).map(|(_, denied)| Arc::clone(denied))
    }

    /// AWS's words, if it refuses.
    async fn refusal(&self, right: Right) -> Option<String> {
        match right {
            Right::Tasks => self.update(&self.tables.tasks, &["Id"]).await,
            Right::Gates => self.put(&self.tables.locks, &["Target"]).await,
            Right::Lists => self.update(&self.tables.lists, &["ListId", "Slot"]).await,
            Right::Lanes => self.put(&self.tables.lanes, &["LaneId", "Turn"]).await,
            Right::Streams => self.update(&self.tables.streams, &["StreamId", "Node"]).await,
            Right::Ended => {
                let request = self.sqs.delete_message().queue_url(&self.queues.rejected).receipt_handle(NOBODY);
                request.send().boxed().await.err().as_ref().and_then(words)
            }
        }
    }

    async fn update(&self, table: &str, key: &'static [&'static str]) -> Option<String> {
        let request = self.dynamo.update_item().table_name(table).set_key(Some(nobody(key).collect()));
        let request = request.condition_expression(NEVER).expression_attribute_names("#key", key[0]);
        request.send().boxed().await.err().as_ref().and_then(words)
    }

    async fn put(&self, table: &str, key: &'static [&'static str]) -> Option<String> {
        let request = self.dynamo.put_item().table_name(table).set_item(Some(nobody(key).collect()));
        let request = request.condition_expression(NEVER).expression_attribute_names("#key", key[0]);
        request.send().boxed().await.err().as_ref().and_then(words)
    }
}

/// The item that nobody has.
fn nobody(key: &'static [&'static str]) -> impl Iterator<Item = (String, AttributeValue)> {
    key.iter().map(|name| ((*name).to_owned(), AttributeValue::S(NOBODY.to_owned())))
}

/// What IAM says, if it is IAM that refused.
fn words(error: &impl ProvideErrorMetadata) -> Option<String> {
    // Some codes come with their service before them.
    let code = error.code()?.rsplit(['.', '#']).next()?;
    let is_iam = matches!(code, "AccessDenied" | "AccessDeniedException");
    is_iam.then(|| error.message().unwrap_or("access denied").to_owned())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;

    use super::*;

    #[test]
    fn only_iam_denies() {
        let said = |code: &str| words(&ErrorMetadata::builder().code(code).message("not authorized").build());
        for code in ["AccessDeniedException", "AccessDenied", "AWS.SimpleQueueService.AccessDenied"] {
            assert_eq!(said(code).as_deref(), Some("not authorized"), "{code}");
        }
        for code in ["ConditionalCheckFailedException", "ReceiptHandleIsInvalid", "ThrottlingException"] {
            assert_eq!(said(code), None, "{code}");
        }
        assert_eq!(words(&ErrorMetadata::builder().build()), None, "no answer is no refusal");
    }
}
