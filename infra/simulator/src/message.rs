//! A message in a queue, which step it is for, and the chain that it belongs to.

use groupage_aws::entry::mapping::{self, Settings};
use groupage_core::ports::Destination;
use tokio::time::Instant;

/// The queues between senders and steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The task queue.
    RegisterTask,
    /// The FIFO task queue.
    RegisterInOrder,
    /// The elect queue.
    ElectLeader,
    /// The group queue.
    GroupBatch,
    /// The handle queue.
    BatchHandler,
}

impl Step {
    /// All of them, in a task's order.
    pub const ALL: [Self; 5] =
        [Self::RegisterTask, Self::RegisterInOrder, Self::ElectLeader, Self::GroupBatch, Self::BatchHandler];

    /// The function's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RegisterTask => "register-task",
            Self::RegisterInOrder => "register-task, FIFO",
            Self::ElectLeader => "elect-leader",
            Self::GroupBatch => "group-batch",
            Self::BatchHandler => "batch-handler",
        }
    }

    /// How it is read.
    pub(crate) const fn settings(self) -> Settings {
        match self {
            Self::RegisterTask => mapping::TASKS,
            Self::RegisterInOrder => mapping::IN_ORDER,
            Self::ElectLeader => mapping::ELECT,
            Self::GroupBatch => mapping::GROUP,
            Self::BatchHandler => mapping::HANDLE,
        }
    }

    pub(crate) const fn of(to: &Destination) -> Option<Self> {
        match to {
            Destination::Tasks => Some(Self::RegisterTask),
            Destination::InOrder(_) | Destination::Gather(_) => Some(Self::RegisterInOrder),
            Destination::Elect => Some(Self::ElectLeader),
            Destination::Group => Some(Self::GroupBatch),
            Destination::Handle => Some(Self::BatchHandler),
            // No long calls are simulated.
            Destination::LongHandle | Destination::Rejected | Destination::Notification(_) => None,
        }
    }
}

/// A message as a poller has it.
#[derive(Clone, Debug)]
pub struct Message {
    /// For deleting or postponing it.
    pub receipt: u64,
    /// The body.
    pub body: String,
    /// How often it was received, this time included.
    pub received: u32,
    /// When it could first be received.
    pub visible_at: Instant,
    /// Its message group. On the FIFO queue the others of a group wait as long as one is in somebody's hands; on the
    /// other queues it is the tenant.
    pub(crate) group: Option<String>,
    /// Whether it came by the FIFO queue.
    pub(crate) keeps_order: bool,
    /// How often which function was invoked on the way to it.
    pub(crate) chain: Chain,
}

/// How often each function was invoked in a chain of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain([u32; 4]);

impl Chain {
    /// The longest of these messages' chains, and this invocation.
    pub(crate) fn of_event(step: Step, messages: &[Message]) -> Self {
        let mut chain = Self::default();
        for message in messages {
            for (most, count) in chain.0.iter_mut().zip(message.chain.0) {
                *most = count.max(*most);
            }
        }
        *chain.count(step) += 1;
        chain
    }

    pub(crate) const fn count(&mut self, step: Step) -> &mut u32 {
        let [register, elect, group, handle] = &mut self.0;
        match step {
            // One function reads both.
            Step::RegisterTask | Step::RegisterInOrder => register,
            Step::ElectLeader => elect,
            Step::GroupBatch => group,
            Step::BatchHandler => handle,
        }
    }
}
