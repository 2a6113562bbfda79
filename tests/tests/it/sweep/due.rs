//! Tasks that fall due at one moment, as those of a window do.

use groupage_core::domain::message::{Elect, Election};
use groupage_core::domain::task::Status;
use groupage_core::steps::sweep::Budget;
use groupage_lab::prelude::*;

use super::Stand;

/// Lets this many tasks wait until a minute from now, dealt out among these Targets.
async fn wait_until_then(stand: &Stand, store: &MemoryStore, tasks: usize, targets: usize) {
    let due = stand.env.now().plus_ms(super::EVERY_MS - 1);
    for n in 0..tasks {
        let target = Target::of(&RouteName::new("parcels"), &format!("t{}", n % targets));
        let id = TaskId::new(format!("p{n}"));
        let task = Task::new(id, target.clone(), "{}".to_owned(), format!("p{n}"), stand.env.now());
        store.register(&Task { status: Status::Scheduled { target, due }, ..task }).await.unwrap();
    }
}

fn elections(stand: &Stand) -> Vec<Election> {
    let sent = stand.queues.lose_everything().into_iter().filter(|message| message.to == Destination::Elect);
    let elections = sent.flat_map(|message| match serde_json::from_str(&message.body).unwrap() {
        Elect::Waiting(election) => vec![election],
        Elect::Several(elections) => elections,
        other @ (Elect::Returning(_) | Elect::Due(_)) => panic!("sweep lets them wait itself: {other:?}"),
    });
    elections.collect()
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_asked_for_once_for_all_tasks_of_a_target_that_fall_due_together() {
    for (tasks, targets, asked) in [(6_000, 20, 20), (1_200, 1, 3), (30, 30, 30)] {
        let (stand, store) = (Stand::new(Budget::default()), MemoryStore::new());
        wait_until_then(&stand, &store, tasks, targets).await;
        stand.wait().await;
        let (report, done) = stand.sweep(&store).await;
        done.unwrap();
        assert_eq!(report.due, tasks);
        let elections = elections(&stand);
        assert_eq!(elections.len(), asked, "{tasks} tasks of {targets} Targets");
        let named: usize = elections.iter().map(|election| election.tasks.len()).sum();
        assert_eq!(named, tasks);
        assert!(elections.iter().all(|election| election.tasks.len() <= 500));
    }
}
