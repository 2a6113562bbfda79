//! What every `Sessions` must do.

use std::collections::BTreeSet;

use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::session;

conformance![
    a_session_is_read_as_it_was_written,
    a_repeated_opening_recognises_itself,
    an_id_that_another_session_has_is_refused,
    a_renewal_moves_beat_expiry_and_claims_on,
    a_repeated_renewal_recognises_itself,
    a_renewal_overwrites_an_earlier_try_of_itself,
    a_renewal_at_any_other_beat_is_refused,
    a_renewal_never_brings_back_a_session_that_was_ended,
    nothing_is_renewed_where_no_session_was_opened,
    a_session_is_ended_at_the_beat_at_which_it_was_seen,
    a_session_that_is_gone_may_be_ended_again,
    a_session_that_was_renewed_is_not_ended_but_shown,
    a_pool_lists_its_sessions_and_no_others,
    a_pool_lists_no_more_than_it_is_asked_for,
    a_pool_lists_a_session_as_it_was_renewed_and_none_that_was_ended,
    a_handlers_session_is_found_in_one_of_the_handlers_pools,
];

const LATER: Timestamp = Timestamp(2_000);

async fn current(store: &impl Fixture, id: &str) -> Option<Session> {
    store.session(&SessionId::new(id)).await.unwrap()
}

/// Opens a session with claims.
async fn opened(store: &impl Fixture, id: &str) -> Session {
    let session = session(id);
    assert_eq!(store.open_session(&session).await.unwrap(), Stored::Yes);
    session
}

fn renewed(session: &Session, claims: &[&str]) -> Session {
    session.renewed(claims.iter().map(|id| BatchId::new(*id)).collect(), LATER, Timing::default())
}

async fn a_session_is_read_as_it_was_written(store: impl Fixture) {
    assert_eq!(current(&store, "r/s").await, None);
    let with_claims = opened(&store, "r/s").await;
    assert_eq!(current(&store, "r/s").await, Some(with_claims));
    let idle = Session { claims: Vec::new(), worker: String::new(), ..session("r/idle") };
    store.open_session(&idle).await.unwrap();
    assert_eq!(current(&store, "r/idle").await, Some(idle));
}

async fn a_repeated_opening_recognises_itself(store: impl Fixture) {
    for _ in 0..2 {
        opened(&store, "r/s").await;
    }
}

async fn an_id_that_another_session_has_is_refused(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    let others = [
        Session { worker: "somebody else".to_owned(), ..first.clone() },
        Session { claims: Vec::new(), ..first.clone() },
        Session { expires_at: Timestamp(9_999), ..first.clone() },
        renewed(&first, &["b1", "b2"]),
    ];
    for other in others {
        assert_eq!(store.open_session(&other).await.unwrap(), Stored::Conflict);
    }
    assert_eq!(current(&store, "r/s").await, Some(first));
}

async fn a_renewal_moves_beat_expiry_and_claims_on(store: impl Fixture) {
    let mut session = opened(&store, "r/s").await;
    for claims in [&["b1", "b2", "b3"][..], &["b3"], &[]] {
        let next = renewed(&session, claims);
        assert_eq!(store.renew(&next).await.unwrap(), Renewed::Kept);
        assert_eq!(current(&store, "r/s").await.as_ref(), Some(&next));
        assert!(next.beat > session.beat);
        session = next;
    }
}

async fn a_repeated_renewal_recognises_itself(store: impl Fixture) {
    let next = renewed(&opened(&store, "r/s").await, &["b1"]);
    for _ in 0..2 {
        assert_eq!(store.renew(&next).await.unwrap(), Renewed::Kept);
    }
    assert_eq!(current(&store, "r/s").await, Some(next));
}

/// The answer to the first try was lost, so the worker tries the same beat again, later and perhaps with more claims.
async fn a_renewal_overwrites_an_earlier_try_of_itself(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    store.renew(&renewed(&first, &["b1"])).await.unwrap();
    let again = first.renewed(vec![BatchId::new("b1"), BatchId::new("b3")], LATER.plus_ms(700), Timing::default());
    assert_eq!(store.renew(&again).await.unwrap(), Renewed::Kept);
    assert_eq!(current(&store, "r/s").await, Some(again));
}

async fn a_renewal_at_any_other_beat_is_refused(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    let second = renewed(&first, &["b1"]);
    let third = renewed(&second, &["b1"]);
    let ahead = renewed(&third, &["b1"]);
    assert_eq!(store.renew(&third).await.unwrap(), Renewed::Lost);
    assert_eq!(current(&store, "r/s").await.as_ref(), Some(&first));
    for next in [&second, &third] {
        store.renew(next).await.unwrap();
    }
    for stale in [&first, &second, &Session { beat: ahead.beat.next(), ..ahead }] {
        assert_eq!(store.renew(stale).await.unwrap(), Renewed::Lost);
    }
    assert_eq!(current(&store, "r/s").await, Some(third));
}

async fn a_renewal_never_brings_back_a_session_that_was_ended(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    assert_eq!(store.end_session(&first.id, first.beat).await.unwrap(), Ended::Yes);
    for late in [&first, &renewed(&first, &["b1"])] {
        assert_eq!(store.renew(late).await.unwrap(), Renewed::Lost);
    }
    assert_eq!(current(&store, "r/s").await, None);
}

async fn nothing_is_renewed_where_no_session_was_opened(store: impl Fixture) {
    assert_eq!(store.renew(&session("r/s")).await.unwrap(), Renewed::Lost);
    assert_eq!(current(&store, "r/s").await, None);
}

async fn a_session_is_ended_at_the_beat_at_which_it_was_seen(store: impl Fixture) {
    let next = renewed(&opened(&store, "r/s").await, &["b1"]);
    let neighbour = opened(&store, "r/t").await;
    store.renew(&next).await.unwrap();
    assert_eq!(store.end_session(&next.id, next.beat).await.unwrap(), Ended::Yes);
    assert_eq!(current(&store, "r/s").await, None);
    assert_eq!(current(&store, "r/t").await, Some(neighbour));
}

async fn a_session_that_is_gone_may_be_ended_again(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    for beat in [first.beat, first.beat, Beat(99)] {
        assert_eq!(store.end_session(&first.id, beat).await.unwrap(), Ended::Yes);
    }
    assert_eq!(store.end_session(&SessionId::new("r/never"), Beat(1)).await.unwrap(), Ended::Yes);
}

async fn a_session_that_was_renewed_is_not_ended_but_shown(store: impl Fixture) {
    let first = opened(&store, "r/s").await;
    let next = renewed(&first, &["b1", "b2", "b3"]);
    store.renew(&next).await.unwrap();
    for stale in [first.beat, next.beat.next()] {
        assert_eq!(store.end_session(&next.id, stale).await.unwrap(), Ended::Lives(next.clone()));
    }
    assert_eq!(current(&store, "r/s").await, Some(next));
}

/// The ids of the pool's sessions, each once.
async fn listed(store: &impl Fixture, pool: &str, limit: usize) -> BTreeSet<SessionId> {
    let sessions = store.sessions(&Pool::new(pool), None, limit).await.unwrap().all();
    let ids: BTreeSet<SessionId> = sessions.iter().map(|session| session.id.clone()).collect();
    assert_eq!(ids.len(), sessions.len(), "none is listed twice");
    ids
}

async fn a_pool_lists_its_sessions_and_no_others(store: impl Fixture) {
    let mut mine = Vec::new();
    for id in ["parcels/s1", "parcels/s2"] {
        mine.push(opened(&store, id).await);
    }
    for other in ["parcel/s1", "parcels-2/s1", "letters/s1", "#handlers-1/s1"] {
        opened(&store, other).await;
    }
    let pool = Pool::of_route(&RouteName::new("parcels"));
    let mut found = store.sessions(&pool, None, 100).await.unwrap().all();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(found, mine, "with everything that is known of them");
    assert!(listed(&store, "nobody", 100).await.is_empty());
}

async fn a_pool_lists_no_more_than_it_is_asked_for(store: impl Fixture) {
    let mut all = BTreeSet::new();
    for n in 0..5 {
        all.insert(opened(&store, &format!("r/s{n}")).await.id);
    }
    for limit in 1..=6 {
        let found = listed(&store, "r", limit).await;
        assert_eq!(found.len(), limit.min(all.len()));
        assert!(found.is_subset(&all));
    }
}

async fn a_pool_lists_a_session_as_it_was_renewed_and_none_that_was_ended(store: impl Fixture) {
    let (lives, ends) = (opened(&store, "r/lives").await, opened(&store, "r/ends").await);
    let next = renewed(&lives, &["b9"]);
    store.renew(&next).await.unwrap();
    store.end_session(&ends.id, ends.beat).await.unwrap();
    assert_eq!(store.sessions(&Pool::new("r"), None, 100).await.unwrap().all(), [next]);
}

async fn a_handlers_session_is_found_in_one_of_the_handlers_pools(store: impl Fixture) {
    let id = SessionId::of_handler("0123456789abcdef");
    let handler = opened(&store, id.as_str()).await;
    let mut found = Vec::new();
    for pool in Pool::of_handlers() {
        found.extend(store.sessions(&pool, None, 10).await.unwrap().all());
    }
    assert_eq!(found, [handler]);
}
