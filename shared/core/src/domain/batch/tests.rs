//! What a batch comes to, step by step.

use super::*;
use crate::domain::id::RouteName;

fn candidate(n: u32, bytes: u32) -> Candidate {
    Candidate { id: TaskId::new(format!("t{n}")), round: Round(0), bytes, traits: Traits::default() }
}

fn batch() -> Batch {
    let target = Target::of(&RouteName::new("r"), "t");
    Batch::open(BatchId::new("b"), target, Fence(1), &[candidate(1, 10)], Timestamp(0), 100)
}

#[test]
fn a_batch_without_members_is_never_called() {
    let empty = batch().frozen(Vec::new());
    assert_eq!(empty.duty(Timestamp(0)), Duty::Nothing);
}

#[test]
fn a_batch_is_called_from_its_freezing_to_its_outcome_and_listed_until_nothing_is_left_to_do() {
    let frozen = batch().frozen(batch().members);
    let settled = frozen.settled(Results::new(), Timestamp(1));
    let claim = Claim { session: SessionId::new("r/s") };
    for (batch, callable, unfinished) in [
        (batch(), false, true),
        (batch().closing(), false, true),
        (frozen.clone(), true, true),
        (frozen.claimed(claim.clone()), true, true),
        (frozen.paused(Timestamp(9)), true, true),
        (settled.clone(), false, true),
        (settled.returning(Timestamp(9)), false, true),
        (settled.followed_up(), false, false),
        (batch().frozen(Vec::new()), false, false),
        (Batch::void(batch().id, batch().target, Timestamp(0)), false, false),
    ] {
        assert_eq!((batch.is_callable(), batch.unfinished().is_some()), (callable, unfinished), "{batch:?}");
        let claimed_by = matches!(batch.status, Status::InProgress { .. }).then_some(&claim.session);
        assert_eq!(batch.claimed_by(), claimed_by);
        let (own, pulled) = (batch.part(), batch.clone().pulled_from(Timestamp(7)));
        assert_eq!((pulled.part(), pulled.due), (if callable { own.pulled() } else { own }, Timestamp(7)));
    }
}

#[test]
fn nobody_looks_at_a_batch_before_whoever_is_at_work_on_it_had_its_time() {
    assert_eq!(batch().status, Status::Open { until: Timestamp(100) });
    assert_eq!(batch().unfinished(), Some(Timestamp(100 + GRACE_MS)));
    let frozen = batch().frozen(batch().members);
    assert_eq!(frozen.paused(Timestamp(50)).unfinished(), Some(Timestamp(50 + GRACE_MS)));
    let settled = frozen.settled(Results::new(), Timestamp(1));
    assert_eq!(settled.returning(Timestamp(70)).unfinished(), Some(Timestamp(70 + GRACE_MS)));
    assert_eq!(settled.returning(Timestamp(70)).duty(Timestamp(0)), Duty::FollowUp);
}

#[test]
fn a_task_is_in_a_batch_in_one_round_only_and_all_bytes_count() {
    let again = Candidate { round: Round(1), ..candidate(1, 10) };
    let (target, candidates) = (batch().target, [candidate(1, 10), candidate(2, 5), again]);
    let express = Batch::express(BatchId::new("b"), target.clone(), &candidates, Timestamp(3));
    assert_eq!((express.members.len(), express.bytes), (2, 25));
    assert_eq!((express.duty(Timestamp(3)), express.fence), (Duty::Call, Fence(3)), "it needs no leader");
    let task = |id: &str| Task::new(TaskId::new(id), target.clone(), String::new(), String::new(), Timestamp(0));
    assert!(express.has(&Task { round: Round(1), ..task("t1") }) && express.has(&task("t2")));
    assert!(!express.has(&task("t1")) && !express.has(&task("t3")), "not in that round, or not at all");
    let frozen = express.frozen(vec![Member { id: TaskId::new("t2"), round: Round(0) }]);
    assert!(!frozen.has(&Task { round: Round(1), ..task("t1") }), "it did not come");
}

#[test]
fn the_window_of_tasks_that_waited_begins_with_their_wait_and_ends_with_the_opening_at_the_earliest() {
    let target = batch().target;
    let opened = Batch::open(BatchId::new("b"), target, Fence(1), &[], Timestamp(1_000), 100);
    let until = |since| opened.clone().waited_for_since(Timestamp(since), 100).status;
    let expected = [500, 950, 1_000, 2_000].map(until);
    assert_eq!(expected, [1_000, 1_050, 1_100, 1_100].map(|until| Status::Open { until: Timestamp(until) }));
}

#[test]
fn a_claimed_batch_is_asked_for_by_its_session() {
    let session = SessionId::new("#handlers-1/s");
    let claimed = batch().frozen(batch().members).claimed(Claim { session: session.clone() });
    assert_eq!(claimed.duty(Timestamp(49)), Duty::AskFor { session });
}

#[test]
fn each_claim_counts_as_a_call_and_nothing_else_does() {
    let claim = || Claim { session: SessionId::new("#handlers-1/s") };
    let frozen = batch().frozen(batch().members);
    let once = frozen.claimed(claim());
    let twice = once.claimed(claim());
    assert_eq!([frozen.attempts, once.attempts, twice.attempts], [0, 1, 2]);
    let others = [once.paused(Timestamp(9)), once.nudged(Timestamp(9)), once.settled(Results::new(), Timestamp(9))];
    assert!(others.iter().all(|other| other.attempts == 1));
}

#[test]
fn a_batch_leaves_the_index_when_nothing_is_left_to_do() {
    let settled = batch().frozen(batch().members).settled(Results::new(), Timestamp(1));
    assert!(settled.unfinished().is_some());
    assert_eq!(settled.followed_up().unfinished(), None);
    assert_eq!(settled.followed_up().duty(Timestamp(9)), Duty::Nothing);
    assert_eq!(batch().frozen(Vec::new()).unfinished(), None);
}

#[test]
fn a_batch_that_is_sent_on_again_and_again_is_left_alone_for_longer_each_time() {
    let (once, now) = (batch().frozen(batch().members).nudged(Timestamp(0)), Timestamp(0));
    let twice = once.nudged(now);
    assert_eq!((once.nudges, twice.nudges), (1, 2));
    assert!(twice.due > once.due);
    assert!((0..99).fold(once, |batch, _| batch.nudged(now)).due <= Timestamp(16 * GRACE_MS));
}

#[test]
fn a_batch_is_woken_unless_a_worker_has_it() {
    let frozen = batch().frozen(batch().members);
    let paused = frozen.paused(Timestamp(90_000)).woken(Timestamp(50)).expect("it waits");
    assert_eq!((paused.nudges, paused.due, paused.duty(Timestamp(50))), (1, Timestamp(50 + GRACE_MS), Duty::Call));
    assert!(frozen.woken(Timestamp(50)).is_some_and(|woken| woken.revision == frozen.revision.next()));
    let claimed = frozen.claimed(Claim { session: SessionId::new("s") });
    assert_eq!(claimed.woken(Timestamp(50)), None, "its outcome would be refused");
    assert_eq!(batch().woken(Timestamp(50)), None, "it is open");
}

#[test]
fn a_pause_keeps_every_message_from_calling_until_it_is_over() {
    let paused = batch().frozen(batch().members).paused(Timestamp(50));
    assert_eq!(paused.duty(Timestamp(49)), Duty::LookAgain { at: Timestamp(50) });
    assert_eq!(paused.duty(Timestamp(50)), Duty::Call);
}

#[test]
fn an_open_batch_keeps_no_candidate_that_is_elsewhere() {
    let (mut open, joined) = (batch(), batch().members);
    for n in 2..9 {
        open = open.with_candidates(&joined, 10, &[candidate(n, 5)]);
        assert_eq!((open.members.len(), open.bytes), (2, 15));
    }
    assert_eq!(open.members, [joined, vec![Member { id: TaskId::new("t8"), round: Round(0) }]].concat());
}

#[test]
fn a_long_wait_is_written_down_with_its_ticket_and_settling_ends_it() {
    use crate::domain::gate::Of;
    let ticket = Ticket { of: Of::Route, number: 7, attempts: 0 };
    let frozen = batch().frozen(batch().members);
    let waiting = frozen.waiting(Some(ticket), Timestamp(900_000));
    assert_eq!((waiting.ticket, waiting.due), (Some(ticket), Timestamp(900_000 + GRACE_MS)));
    assert_eq!((waiting.duty(Timestamp(1)), waiting.attempts), (Duty::Call, 0));
    let pulled = frozen.clone().pulled_from(Timestamp(1)).waiting(Some(ticket), Timestamp(900_000));
    assert_eq!(pulled.due, Timestamp(900_000 - IN_PLACE_MS), "a worker finds it in time to wait in place");
    let left =
        frozen.claimed(Claim { session: SessionId::new("#handlers-1/s") }).waiting(Some(ticket), Timestamp(900_000));
    assert_eq!(left.claimed_by(), None);
    assert_eq!(left.duty(Timestamp(900_000 - IN_PLACE_MS)), Duty::Call);
    assert_eq!(waiting.settled(Results::new(), Timestamp(1)).ticket, None);
}

#[test]
fn every_step_raises_the_revision() {
    let open = batch();
    let frozen = open.frozen(open.members.clone());
    assert!(open.with_candidates(&[], 0, &[]).revision > open.revision);
    assert!(frozen.revision > open.revision);
    assert!(frozen.settled(Results::new(), Timestamp(1)).revision > frozen.revision);
}
