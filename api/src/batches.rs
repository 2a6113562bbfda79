//! Batches, looked up.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use groupage_core::domain::batch::{Batch as Stored, FollowUp as StoredFollowUp, Status};
use groupage_core::domain::{BatchId, Exception, SessionId, Target, TaskId, Timestamp};
use groupage_core::ports::Batches as _;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backend::Backend;
use crate::parameters::Id;
use crate::problem::Problem;
use crate::responses::{AnyPort, ById};

/// Where a batch stands.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchState {
    /// Its leader adds candidates.
    Open,
    /// Takes no more candidates; its members are not final yet.
    Closing,
    /// Its members are final.
    Frozen,
    /// A worker has claimed it and makes the call.
    InProgress,
    /// Its call failed for now, and is made again later.
    Paused,
    /// The outcome is recorded.
    Settled,
    /// Closed without a member; never called.
    Empty,
    /// Named, but never written.
    Void,
}

/// What is left to do for a settled batch.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FollowUp {
    /// Members' statuses and notifications are being written and sent.
    Pending,
    /// Members that failed alone are on their way back to waiting.
    Returning,
    /// Nothing.
    Done,
}

/// A batch.
#[serde_with::skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct Batch {
    /// Its id, and the `Idempotency-Key` of its call.
    #[schema(value_type = String)]
    id: BatchId,
    /// What its members have in common, as `route:value`.
    #[schema(value_type = String)]
    target: Target,
    /// Where it stands.
    status: BatchState,
    /// The session that has claimed it.
    #[schema(value_type = String, required = false)]
    session: Option<SessionId>,
    /// Before when nobody calls.
    #[schema(value_type = String, format = DateTime, required = false)]
    paused_until: Option<String>,
    /// What is left to do, once it is settled.
    #[schema(value_type = FollowUp, required = false)]
    follow_up: Option<FollowUp>,
    /// Calls made for it.
    calls: u32,
    /// The ids of its members; of an open batch, its candidates.
    #[schema(value_type = Vec<String>)]
    members: Vec<TaskId>,
    /// Members that failed for good.
    failed: usize,
    /// Members in whose place a newer task was called.
    superseded: usize,
    /// Members that wait again.
    returned: usize,
    /// When it was first written.
    #[schema(format = DateTime)]
    created_at: String,
    /// From when on sweep, or a worker that pulls, looks at it; nobody does once nothing is left to do.
    #[schema(value_type = String, format = DateTime, required = false)]
    due_at: Option<String>,
    /// How often sweep sent its message again.
    nudges: u32,
}

/// Show a batch
///
/// With all its members.
#[utoipa::path(
    get, path = "/batches/{id}", tag = "tasks", operation_id = "show_batch",
    params((
        "id" = String, Path, description = "The batch's id.", pattern = "^[0-9a-f]{32}$",
        example = "0123456789abcdef0123456789abcdef"
    )),
    responses((status = 200, description = "The batch.", body = Batch), ById, AnyPort),
)]
pub async fn show<B: Backend>(State(backend): State<Arc<B>>, Id(id): Id<BatchId>) -> Result<Json<Batch>, Problem> {
    let batch = backend.stack().store.batch(&id).await?.ok_or_else(|| Problem::not_found("batch"))?;
    Ok(Json(shown(batch)))
}

fn shown(batch: Stored) -> Batch {
    let (mut paused_until, mut follow_up, mut failed, mut superseded, mut returned) = (None, None, 0, 0, 0);
    let status = match &batch.status {
        Status::Open { .. } => BatchState::Open,
        Status::Closing => BatchState::Closing,
        Status::Frozen => BatchState::Frozen,
        Status::InProgress { .. } => BatchState::InProgress,
        Status::Paused { until } => {
            paused_until = Some(until.shown());
            BatchState::Paused
        }
        Status::Settled { results, follow_up: state, .. } => {
            follow_up = Some(match state {
                StoredFollowUp::Pending => FollowUp::Pending,
                StoredFollowUp::Returning => FollowUp::Returning,
                StoredFollowUp::Done => FollowUp::Done,
            });
            let replaced = batch.superseded_ids();
            for (id, exception) in results {
                match exception {
                    Exception::Returned { .. } => returned += 1,
                    Exception::Failed { .. } if replaced.contains(id) => superseded += 1,
                    Exception::Failed { .. } => failed += 1,
                }
            }
            BatchState::Settled
        }
        Status::Empty => BatchState::Empty,
        Status::Void => BatchState::Void,
    };
    Batch {
        status,
        session: batch.claimed_by().cloned(),
        paused_until,
        follow_up,
        failed,
        superseded,
        returned,
        due_at: batch.unfinished().map(Timestamp::shown),
        id: batch.id,
        target: batch.target.whole(),
        calls: batch.attempts,
        members: batch.members.into_iter().map(|member| member.id).collect(),
        created_at: batch.created_at.shown(),
        nudges: batch.nudges,
    }
}
