//! The embedded stack: DynamoDB and SQS with the tables and queues of `template.yaml`.
//!
//! Starting it on a folder that already has tables and queues leaves them as they are.

use std::{path::PathBuf, sync::Arc};

use aws_config::{BehaviorVersion, Region, SdkConfig, stalled_stream_protection::StalledStreamProtectionConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use groupage_aws::config::{Queues, Tables};
use groupage_aws::{Connection, Requests};

use crate::Error;
use crate::dynamo::Dynamo;
use crate::folder::{Durability, Folder};
use crate::guard::{Door, Guard, Key};
use crate::place::REGION;
use crate::sqs::Sqs;

pub mod queues;
pub mod tables;

/// What the names of its tables and queues begin with.
const NAME: &str = "groupage";

/// Where tables and queues live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Gone with the process.
    Memory,
    /// In this folder, made if it is not there. What is acknowledged outlives the process, at the least.
    Folder(PathBuf, Durability),
}

/// The loopback ports to listen on; 0, the default, takes any free one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// DynamoDB's.
    pub dynamo: u16,
    /// SQS's.
    pub sqs: u16,
}

/// A running stack. Dropping it stops both servers without waiting; [`Stack::shutdown`] waits.
#[derive(Debug)]
pub struct Stack {
    dynamo: Dynamo,
    sqs: Sqs,
    connection: Connection,
    key: Key,
}

impl Stack {
    /// Starts both servers and creates the tables and queues that are not there.
    ///
    /// # Errors
    /// A port that is taken, a folder that cannot be used, a damaged database or journal: see [`Error`].
    pub async fn start(storage: Storage, ports: Ports) -> Result<Self, Error> {
        let (dynamo, sqs, key) = match storage {
            Storage::Memory => {
                let key = Key::random();
                let guard = || Guard::new(Door::Aws, key.clone());
                (Dynamo::in_memory(ports.dynamo, guard())?, Sqs::in_memory(ports.sqs, guard(), REGION)?, key)
            }
            Storage::Folder(path, durability) => {
                let folder = Arc::new(Folder::take(&path, durability)?);
                let key = folder.key()?;
                let guard = || Guard::new(Door::Aws, key.clone());
                let dynamo = Dynamo::in_folder(ports.dynamo, guard(), &folder)?;
                (dynamo, Sqs::in_folder(ports.sqs, guard(), REGION, &folder).await?, key)
            }
        };
        let config = sdk_config(&key, Endpoints { dynamo: dynamo.url(), sqs: sqs.url() });
        let tables = tables::create(&aws_sdk_dynamodb::Client::new(&config), NAME, true).await?;
        let queues = queues::create(&aws_sdk_sqs::Client::new(&config), NAME).await?;
        Ok(Self { dynamo, sqs, connection: Connection { config, tables, queues }, key })
    }

    /// The way to its tables and queues.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What a program must know to use the stack. It is the same as long as the folder is there.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Configures any SDK client of DynamoDB or SQS for this stack, each with its own endpoint. It reads nothing from
    /// the environment, so that it cannot reach real AWS.
    pub fn sdk_config(&self) -> &SdkConfig {
        &self.connection.config
    }

    /// The tables' names.
    pub fn tables(&self) -> &Tables {
        &self.connection.tables
    }

    /// The queues' URLs.
    pub fn queues(&self) -> &Queues {
        &self.connection.queues
    }

    /// The SQS requests answered so far, of all clients, as AWS bills them.
    pub fn sqs_requests(&self) -> Requests {
        self.sqs.requests()
    }

    /// Its queues are new: if its tables are not, the messages that drove their tasks on are lost.
    pub fn has_new_queues(&self) -> bool {
        self.sqs.is_new()
    }

    /// The environment variables with which any AWS SDK or CLI, and every Groupage function, uses this stack.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let Connection { tables, queues, .. } = &self.connection;
        vec![
            ("AWS_ENDPOINT_URL_DYNAMODB", self.dynamo.url()),
            ("AWS_ENDPOINT_URL_SQS", self.sqs.url()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", self.key.reveal().to_owned()),
            // Nobody looks at the signature that is made with it.
            ("AWS_SECRET_ACCESS_KEY", self.key.reveal().to_owned()),
            ("GROUPAGE_TASK_TABLE", tables.tasks.clone()),
            ("GROUPAGE_LOCK_TABLE", tables.locks.clone()),
            ("GROUPAGE_BATCH_TABLE", tables.batches.clone()),
            ("GROUPAGE_SESSION_TABLE", tables.sessions.clone()),
            ("GROUPAGE_TRACKER_TABLE", tables.trackers.clone()),
            ("GROUPAGE_LIST_TABLE", tables.lists.clone()),
            ("GROUPAGE_LANE_TABLE", tables.lanes.clone()),
            ("GROUPAGE_STREAM_TABLE", tables.streams.clone()),
            ("GROUPAGE_ROUTE_TABLE", tables.routes.clone()),
            ("GROUPAGE_TASK_QUEUE", queues.tasks.clone()),
            ("GROUPAGE_IN_ORDER_QUEUE", queues.in_order.clone()),
            ("GROUPAGE_ELECT_QUEUE", queues.elect.clone()),
            ("GROUPAGE_GROUP_QUEUE", queues.group.clone()),
            ("GROUPAGE_HANDLE_QUEUE", queues.handle.clone()),
            ("GROUPAGE_LONG_HANDLE_QUEUE", queues.long_handle.clone()),
            ("GROUPAGE_REJECTED_QUEUE", queues.rejected.clone()),
            ("GROUPAGE_NOTIFICATION_QUEUE", queues.notifications.clone()),
        ]
    }

    /// Stops both servers and waits until their ports and the folder are free. Stop the mappings first: their
    /// handlers still need the stack.
    pub async fn shutdown(self) {
        self.sqs.shutdown().await;
        self.dynamo.shutdown().await;
    }
}

fn sdk_config(key: &Key, endpoints: Endpoints) -> SdkConfig {
    let credentials = Credentials::new(key.reveal(), key.reveal(), None, None, "embedded");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        // A server in the same process stalls only when the machine is busy, and then a retry makes it busier.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .service_config(endpoints)
        .build()
}

/// What `AWS_ENDPOINT_URL_<SERVICE>` is for other processes, for the clients of this one.
#[derive(Debug)]
struct Endpoints {
    dynamo: String,
    sqs: String,
}

impl LoadServiceConfig for Endpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        match (key.env(), key.service_id()) {
            ("AWS_ENDPOINT_URL", "DynamoDB") => Some(self.dynamo.clone()),
            ("AWS_ENDPOINT_URL", "SQS") => Some(self.sqs.clone()),
            _ => None,
        }
    }
}
