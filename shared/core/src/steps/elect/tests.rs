//! Members that come back from a batch, and tables that were restored since their message was sent.

use super::*;
use crate::domain::batch::{Assumes, Batch, Claim};
use crate::domain::message::{Return, Returning};
use crate::domain::outcome::{Exception, Results};
use crate::domain::task::{Status, Task};
use crate::domain::{BatchId, RouteName, SessionId, TaskId, Traits};
use crate::memory::MemoryStore;
use crate::steps::still::Still;

#[tokio::test]
async fn a_message_of_a_later_moment_moves_no_member_out_of_its_batch() {
    let target = Target::of(&RouteName::new("r"), "t");
    let routes = Routes::parse("version: 1\nroutes: [{ name: r, target: t, downstream: pull }]").unwrap();
    let task = Task::new(TaskId::new("t"), target.clone(), "{}".to_owned(), String::new(), Timestamp(0));
    let (candidate, batch) = (task.candidate(), BatchId::new("b"));
    let open = Batch::open(batch.clone(), target.clone(), Fence(1), std::slice::from_ref(&candidate), Timestamp(0), 0);
    let frozen = open.frozen(open.members.clone());
    let claimed = frozen.claimed(Claim { session: SessionId::new("s") });
    let returned = Exception::Returned {
        attempts: 1,
        is_unsure: false,
        delay_ms: 0,
        bytes: candidate.bytes,
        traits: Traits::default(),
    };
    let settled = |results: Results| claimed.settled(results, Timestamp(9));
    let returning = Return {
        batch: batch.clone(),
        target,
        tasks: vec![Returning { task: candidate, attempts: 1, is_unsure: false }],
    };
    for (of, comes_back) in [
        (Some(&frozen), false),
        (Some(&claimed), false),
        (Some(&settled(Results::new())), false),
        (Some(&settled(Results::from([(task.id.clone(), returned)]))), true),
        // The copy of the batches is of an earlier moment than that of the tasks.
        (None, true),
    ] {
        let store = MemoryStore::new();
        store.register(&task).await.unwrap();
        store.join(&task.id, task.round, &batch).await.unwrap();
        if let Some(of) = of {
            store.store(of, Assumes::Absent).await.unwrap();
        }
        let step = ElectLeader { store: &store, env: &Still(1_000), routes: &routes, draw: 0.5 };
        step.run(Elect::Returning(returning.clone()), false).await.unwrap();
        let waits = matches!(store.tasks()[0].status, Status::Created { .. });
        assert_eq!(waits, comes_back, "{of:?}");
    }
}
