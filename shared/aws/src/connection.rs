//! The way to a stack: its tables and queues, and a configuration that reaches them.

use std::sync::Arc;

use aws_config::SdkConfig;

use crate::backups::Backups;
use crate::config::{Error, Queues, Tables};
use crate::desk::Desk;
use crate::{Dynamo, Meter, RouteTable, Sqs};

/// A stack's tables and queues, and how to reach them.
#[derive(Clone, Debug)]
pub struct Connection {
    /// For every client.
    pub config: SdkConfig,
    /// The tables.
    pub tables: Tables,
    /// The queues.
    pub queues: Queues,
}

impl Connection {
    /// To the stack that the environment describes. Sends no request to it yet.
    ///
    /// # Errors
    /// [`Error`] names the variable that is missing, before the configuration is loaded: that may ask the network for
    /// credentials.
    pub async fn from_env() -> Result<Self, Error> {
        let (tables, queues) = (Tables::from_env()?, Queues::from_env()?);
        Ok(Self { config: crate::load_config().await, tables, queues })
    }

    /// The tables, on which a settled task stays readable for `retention_ms`; what they consume goes to `meter`.
    pub fn store(&self, retention_ms: u64, meter: &Arc<Meter>) -> Dynamo {
        Dynamo::new(&self.config, self.tables.clone(), retention_ms, Arc::clone(meter))
    }

    /// The queues; their requests go to `meter`.
    pub fn sqs(&self, meter: &Arc<Meter>) -> Sqs {
        Sqs::new(&self.config, self.queues.clone(), Arc::clone(meter))
    }

    /// The queues as operators see them.
    pub fn desk(&self) -> Desk {
        Desk::new(&self.config, self.queues.clone())
    }

    /// The tables' backups.
    pub fn backups(&self) -> Backups {
        Backups::new(&self.config)
    }

    /// The table of the routes file; what it consumes goes to `meter`.
    pub fn routes(&self, meter: &Arc<Meter>) -> RouteTable {
        RouteTable::new(&self.config, &self.tables, Arc::clone(meter))
    }
}
