//! What every `Batches` must do.

use groupage_core::domain::batch::{Assumes, ByPosition, Claim, OutputPart, Status};
use groupage_core::domain::output::{MAX_OUTPUT_BYTES, Output};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{batch, target};

conformance![
    a_batch_is_read_as_it_was_written_in_every_status,
    a_batch_is_put_where_none_is,
    a_repeated_write_recognises_itself,
    a_void_keeps_its_writer_from_writing,
    a_write_over_another_revision_is_refused,
    nothing_is_overwritten_where_there_is_no_batch,
    the_largest_batch_fits,
    outputs_are_read_as_they_were_kept_and_erased_one_by_one,
    the_largest_outputs_fit,
];

async fn current(store: &impl Fixture, id: &str) -> Option<Batch> {
    store.batch(&BatchId::new(id)).await.unwrap()
}

async fn a_batch_is_read_as_it_was_written_in_every_status(store: impl Fixture) {
    let claim = Claim { session: SessionId::new("#handlers-1/s") };
    let failed = Exception::Failed { reason: Reason::new("too_heavy"), attempts: 3 };
    let returned =
        Exception::Returned { attempts: 1, is_unsure: true, delay_ms: 500, bytes: 17, traits: Traits::default() };
    let results = Results::from([(TaskId::new("b1-0"), failed), (TaskId::new("b1-1"), returned)]);
    let later = Member { id: TaskId::new("later"), round: Round(4) };
    let open = batch("b1", &target("a"), 3);
    let closing = open.closing();
    let frozen = closing.frozen([closing.members.clone(), vec![later]].concat());
    let nudged = frozen.nudged(Timestamp(70_000));
    let claimed = nudged.claimed(claim.clone());
    let paused = claimed.paused(Timestamp(8_000));
    let again = paused.claimed(claim);
    let settled = again.settled(results, Timestamp(9_000));
    let followed_up = settled.followed_up();
    let clean = followed_up.settled(Results::new(), Timestamp(9_001));
    let empty = clean.frozen(Vec::new());
    let mut assumes = Assumes::Absent;
    for batch in [open, closing, frozen, nudged, claimed, paused, again, settled, followed_up, clean, empty] {
        assert_eq!(store.store(&batch, assumes).await.unwrap(), Stored::Yes);
        assert_eq!(current(&store, "b1").await.as_ref(), Some(&batch));
        assumes = Assumes::At(batch.revision);
    }
}

async fn a_batch_is_put_where_none_is(store: impl Fixture) {
    assert_eq!(current(&store, "b1").await, None);
    let (first, second) = (batch("b1", &target("a"), 1), batch("b1", &target("a"), 2));
    assert_eq!(store.store(&first, Assumes::Absent).await.unwrap(), Stored::Yes);
    assert_eq!(store.store(&second, Assumes::Absent).await.unwrap(), Stored::Conflict);
    assert_eq!(current(&store, "b1").await, Some(first));
}

async fn a_repeated_write_recognises_itself(store: impl Fixture) {
    let open = batch("b1", &target("a"), 2);
    let frozen = open.frozen(open.members.clone());
    for (batch, assumes) in [(&open, Assumes::Absent), (&frozen, Assumes::At(open.revision))] {
        for _ in 0..2 {
            assert_eq!(store.store(batch, assumes).await.unwrap(), Stored::Yes);
        }
    }
}

async fn a_void_keeps_its_writer_from_writing(store: impl Fixture) {
    let void = Batch::void(BatchId::new("b1"), target("a"), Timestamp(1));
    assert_eq!(store.store(&void, Assumes::Absent).await.unwrap(), Stored::Yes);
    let sleeper = batch("b1", &target("a"), 2);
    assert_eq!(store.store(&sleeper, Assumes::Absent).await.unwrap(), Stored::Conflict);
    assert_eq!(current(&store, "b1").await.map(|batch| batch.status), Some(Status::Void));
}

async fn a_write_over_another_revision_is_refused(store: impl Fixture) {
    let open = batch("b1", &target("a"), 2);
    store.store(&open, Assumes::Absent).await.unwrap();
    let closing = open.closing();
    store.store(&closing, Assumes::At(open.revision)).await.unwrap();
    let late = open.frozen(Vec::new());
    assert_eq!(store.store(&late, Assumes::At(open.revision)).await.unwrap(), Stored::Conflict);
    assert_eq!(store.store(&late, Assumes::At(Revision(99))).await.unwrap(), Stored::Conflict);
    assert_eq!(current(&store, "b1").await, Some(closing));
}

async fn nothing_is_overwritten_where_there_is_no_batch(store: impl Fixture) {
    let batch = batch("b1", &target("a"), 2);
    let stored = store.store(&batch, Assumes::At(Revision(1))).await.unwrap();
    assert_eq!(stored, Stored::Conflict);
    assert_eq!(current(&store, "b1").await, None);
}

async fn the_largest_batch_fits(store: impl Fixture) {
    let ids = (0..1_000).map(|n| TaskId::new(format!("{n:0>128}")));
    let members: Vec<Member> = ids.map(|id| Member { id, round: Round(1) }).collect();
    let failed =
        |member: &Member| (member.id.clone(), Exception::Failed { reason: Reason::new("x".repeat(64)), attempts: 9 });
    let results: Results = members.iter().map(failed).collect();
    let open = Batch::open(BatchId::new("b1"), target("a"), Fence(1), &[], Timestamp(0), 0);
    let settled = open.frozen(members).settled(results, Timestamp(1));
    assert_eq!(store.store(&settled, Assumes::Absent).await.unwrap(), Stored::Yes);
    assert_eq!(current(&store, "b1").await, Some(settled));
}

async fn outputs_are_read_as_they_were_kept_and_erased_one_by_one(store: impl Fixture) {
    let (id, now) = (BatchId::new("b1"), Timestamp(1));
    let part = |attempt, number, of: &[usize]| {
        let of = of.iter().copied().collect();
        OutputPart { attempt, look: None, number, of, bytes: 9 }
    };
    let (first, second) = (part(2, 0, &[0, 2]), part(2, 1, &[7]));
    let kept = ByPosition::from([(0, Output::of("[1.50]".to_owned())), (2, Output::TooLarge(200_000))]);
    let more = ByPosition::from([(7, Output::of(r#"{"id": "ü"}"#.to_owned()))]);
    store.keep_outputs(&id, &first, &kept, now).await.unwrap();
    store.keep_outputs(&id, &second, &more, now).await.unwrap();
    let of_another_attempt = ByPosition::from([(0, Output::of("0".to_owned()))]);
    store.keep_outputs(&id, &part(1, 0, &[0]), &of_another_attempt, now).await.unwrap();
    let both = [first.clone(), second.clone(), part(3, 2, &[8])];
    let all: ByPosition = kept.clone().into_iter().chain(more.clone()).collect();
    assert_eq!(store.outputs(&id, &both).await.unwrap(), all);
    assert_eq!(store.outputs(&BatchId::new("b2"), &both).await.unwrap(), ByPosition::new());
    for no_batch in [id.clone(), BatchId::new(first.key(&id))] {
        assert_eq!(store.batch(&no_batch).await.unwrap(), None, "a part is no batch");
    }
    for _ in 0..2 {
        store.erase_output(&id, &first, 0).await.unwrap();
        store.erase_output(&id, &part(3, 2, &[8]), 8).await.unwrap();
    }
    let left: ByPosition = all.into_iter().filter(|(position, _)| *position != 0).collect();
    assert_eq!(store.outputs(&id, &both).await.unwrap(), left);
    let named = Batch { outputs: vec![first, second], ..batch("b1", &target("a"), 9) };
    let of = |n: usize| named.members[n].id.clone();
    assert_eq!(store.output(&named, &of(2)).await.unwrap(), Some(Output::TooLarge(200_000)));
    assert_eq!(store.output(&named, &of(0)).await.unwrap(), None);
}

async fn the_largest_outputs_fit(store: impl Fixture) {
    let batch = batch("b1", &target("a"), 1_000);
    let large = |n: usize| (batch.members[n].id.clone(), Output::of("1".repeat(MAX_OUTPUT_BYTES)));
    let small = |n: usize| (batch.members[n].id.clone(), Output::of("1".repeat(500)));
    for outputs in [(0..9).map(large).collect(), (0..1_000).map(small).collect()] {
        let parts = batch.parts_of(outputs);
        let kept: usize = parts.iter().map(|(_, kept)| kept.len()).sum();
        for (part, outputs) in &parts {
            store.keep_outputs(&batch.id, part, outputs, Timestamp(1)).await.unwrap();
        }
        let named: Vec<OutputPart> = parts.into_iter().map(|(part, _)| part).collect();
        assert_eq!(store.outputs(&batch.id, &named).await.unwrap().len(), kept);
    }
}
