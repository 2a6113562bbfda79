use super::*;
use crate::dynamo::item;
use groupage_core::domain::answer::Excerpt;
use groupage_core::domain::batch::Positions;
use groupage_core::domain::ended::Ended;
use groupage_core::domain::gate::Of;
use groupage_core::domain::{Reason, RouteName};
use groupage_core::ports::Error;

fn said() -> Excerpts {
    let said = Excerpt { status: 400, text: "too heavy".to_owned() };
    Excerpts::default().with(Reason::new("http_400"), said)
}

fn batch(status: Status) -> Batch {
    let member = |id: &str, round| Member { id: TaskId::new(id), round: Round(round) };
    Batch {
        id: BatchId::new("b1"),
        target: Target::of(&RouteName::new("parcels"), "truck-7"),
        fence: Fence(1_700_000_000_123),
        revision: Revision(4),
        status,
        members: vec![member("c", 0), member("a", 2), member("b", 0)],
        bytes: 1_234,
        priority: 2,
        traits: None,
        attempts: 2,
        undone: 1,
        weight: Some(61_000),
        excused: None,
        omitted: None,
        apart: None,
        answers: Some(Box::new(said())),
        job: None,
        outputs: vec![OutputPart { attempt: 2, look: None, number: 0, of: [0, 2].into_iter().collect(), bytes: 9 }],
        left: None,
        created_at: Timestamp(1_700_000_000_000),
        due: Timestamp(1_700_000_061_000),
        nudges: 3,
        pulled: true,
        ticket: Some(Ticket { of: Of::Route, number: 1_764_000_000_000, attempts: 2 }),
    }
}

fn all() -> [Status; 10] {
    let failed = Exception::Failed { reason: Reason::new("too_heavy"), attempts: 3 };
    let returned =
        Exception::Returned { attempts: 1, is_unsure: true, delay_ms: 500, bytes: 17, traits: Traits::default() };
    let results = Results::from([(TaskId::new("a"), failed), (TaskId::new("b"), returned)]);
    [
        Status::Open { until: Timestamp(9) },
        Status::Closing,
        Status::Frozen,
        Status::InProgress { claim: Claim { session: SessionId::new("#handlers-1/s") } },
        Status::Settled { at: Timestamp(7_000), results: results.clone(), follow_up: FollowUp::Pending },
        Status::Settled { at: Timestamp(7_000), results: results.clone(), follow_up: FollowUp::Returning },
        Status::Settled { at: Timestamp(7_000), results, follow_up: FollowUp::Done },
        Status::Empty,
        Status::Void,
        Status::Paused { until: Timestamp(6) },
    ]
}

#[test]
fn every_status_survives_storage() {
    for status in all() {
        let batch = batch(status);
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), batch);
    }
}

#[test]
fn how_far_a_batch_is_taken_apart_survives_storage_and_costs_nothing_else() {
    let frozen = batch(Status::Frozen);
    assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Apart"));
    let lost = Reason::new("worker_lost");
    let mut apart = Bisection::of(3, 2, &lost, true);
    let mut stages = vec![apart.clone()];
    apart.begin();
    stages.push(apart.clone());
    apart.refused(&lost);
    stages.push(apart.clone());
    apart.begin();
    apart.answered(&frozen.members, BTreeMap::new());
    stages.push(apart);
    for apart in stages {
        let batch = Batch { apart: Some(Box::new(apart)), ..frozen.clone() };
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), batch);
    }
}

#[test]
fn what_is_excused_survives_storage_and_costs_nothing_else() {
    let frozen = batch(Status::Frozen);
    assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Excused"));
    let excused = Batch { excused: Some(Excused { calls: 2, since: Timestamp(7), paused_ms: 9 }), ..frozen };
    let item = encode(TABLE, "", &StoredBatch::of(&excused, 1_000)).unwrap();
    assert_eq!(batch_of(item).unwrap(), excused);
}

#[test]
fn a_job_survives_storage_and_costs_nothing_else() {
    let paused = batch(Status::Paused { until: Timestamp(6) });
    assert!(!encode(TABLE, "", &StoredBatch::of(&paused, 0)).unwrap().contains_key("Job"));
    let (url, since, deadline) = ("https://a.example/jobs/7".to_owned(), Timestamp(5), Timestamp(86_400_005));
    let begun = Job { url, since, deadline, failed: None, unread: false, uncalled: Vec::new(), permits: Vec::new() };
    let looked_at = Job {
        failed: Some(Reason::new("http_503")),
        unread: true,
        uncalled: vec![(1, Reason::new("task_missing"))],
        permits: vec!["#limit:shared".to_owned()],
        ..begun.clone()
    };
    let outputs = vec![OutputPart { look: Some(Revision(9)), ..paused.outputs[0].clone() }];
    for job in [begun, looked_at] {
        let batch = Batch { job: Some(Box::new(job)), outputs: outputs.clone(), ..paused.clone() };
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), batch);
    }
}

#[test]
fn who_is_left_out_survives_storage_and_costs_nothing_else() {
    let frozen = batch(Status::Frozen);
    assert!(!encode(TABLE, "", &StoredBatch::of(&frozen, 0)).unwrap().contains_key("Omitted"));
    let omitting = frozen.leaving_out([(0, 0), (2, 4)], Ended::Expired, Timestamp(7)).all_told();
    let omitting = omitting.leaving_out([(1, 0)], Ended::Cancelled, Timestamp(8));
    let item = encode(TABLE, "", &StoredBatch::of(&omitting, 1_000)).unwrap();
    assert_eq!(batch_of(item).unwrap(), omitting);
}

#[test]
fn what_is_known_of_candidates_survives_storage_and_costs_nothing_else() {
    let open = batch(Status::Open { until: Timestamp(9) });
    assert!(!encode(TABLE, "", &StoredBatch::of(&open, 0)).unwrap().contains_key("Traits"));
    let traits = Traits { weight: 7, closes: true, ..Traits::default() };
    let open = Batch { traits: Some(Box::new([(TaskId::new("a"), traits)].into())), ..open };
    let item = encode(TABLE, "", &StoredBatch::of(&open, 1_000)).unwrap();
    assert_eq!(batch_of(item).unwrap(), open);
}

#[test]
fn what_is_left_of_a_follow_up_survives_storage_and_costs_nothing_else() {
    let settled = batch(all()[4].clone());
    assert!(!encode(TABLE, "", &StoredBatch::of(&settled, 0)).unwrap().contains_key("Left"));
    for left in [Left::all(3, &Positions::default()), Left { untold: [0, 2].into_iter().collect(), ..Left::default() }]
    {
        let batch = settled.with_left(left);
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(batch_of(item).unwrap(), batch);
    }
}

#[test]
fn the_index_shows_just_the_batches_with_work_left() {
    for status in all() {
        let batch = batch(status);
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(item.contains_key("Open"), batch.unfinished().is_some(), "{:?}", batch.status);
    }
}

#[test]
fn only_a_batch_of_which_nothing_is_left_to_do_expires() {
    for status in all() {
        let batch = batch(status);
        let item = encode(TABLE, "", &StoredBatch::of(&batch, 1_000)).unwrap();
        assert_eq!(item.contains_key("Ttl"), batch.unfinished().is_none(), "{:?}", batch.status);
    }
    let settled = StoredBatch::of(&batch(all()[6].clone()), 3_000);
    assert_eq!(settled.ttl, Some(10));
}

#[test]
fn members_keep_their_order_and_only_later_rounds_are_stored() {
    let stored = StoredBatch::of(&batch(Status::Frozen), 0);
    assert_eq!(stored.members, [TaskId::new("c"), TaskId::new("a"), TaskId::new("b")]);
    assert_eq!(stored.rounds, BTreeMap::from([("1".to_owned(), Round(2))]));
}

#[test]
fn the_largest_batch_stays_inside_400_kb() {
    let ids = (0..1_000).map(|n| TaskId::new(format!("{n:0>128}")));
    let members: Vec<Member> = ids.map(|id| Member { id, round: Round(49) }).collect();
    let reason = Reason::new("x".repeat(64));
    let failed = Exception::Failed { reason, attempts: 50 };
    let results: Results = members.iter().map(|member| (member.id.clone(), failed.clone())).collect();
    let largest =
        Batch { members, ..batch(Status::Settled { at: Timestamp(1), results, follow_up: FollowUp::Pending }) };
    let item = encode(TABLE, "", &StoredBatch::of(&largest, 0)).unwrap();
    assert!(item::size(&item) < 400 * 1024, "{} bytes", item::size(&item));
    assert_eq!(batch_of(item).unwrap(), largest);
    let mut apart = Bisection::of(1_000, 50, &Reason::new("x".repeat(64)), true);
    while !apart.is_over() {
        apart.begin();
        apart.refused(&Reason::new("x".repeat(64)));
    }
    let largest = Batch { apart: Some(Box::new(apart)), status: Status::Frozen, ..largest };
    let item = encode(TABLE, "", &StoredBatch::of(&largest, 0)).unwrap();
    assert!(item::size(&item) < 400 * 1024, "{} bytes", item::size(&item));
    assert_eq!(batch_of(item).unwrap(), largest);
}

#[test]
fn an_unknown_status_names_table_item_and_attribute() {
    let mut stored = StoredBatch::of(&batch(Status::Frozen), 0);
    stored.status = "thawed".to_owned();
    let error = stored.into_batch().unwrap_err();
    assert!(matches!(error, Error::Broken { .. }));
    let said = error.to_string();
    assert!(said.contains("batch table") && said.contains("`b1`") && said.contains("`Status`"), "{said}");
}
