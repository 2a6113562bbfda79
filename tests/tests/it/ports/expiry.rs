//! What every store may forget: what nothing is left to do of, and nothing else.

use groupage_core::domain::gate::{Admission, Asks, Limits, Rates};
use groupage_core::domain::lane::{Numbering, Queued};
use groupage_core::domain::time::{DAY_MS, IDLE_MS};
use groupage_lab::prelude::*;

use super::fixture::{Fixture, conformance};
use super::samples::{batch, failure, lead, now, session, target, task, waiting};

conformance![
    a_gate_that_a_person_holds_outlives_tickets_of_those_who_saw_it_before,
    an_idle_gate_expires_a_week_after_its_last_use,
    what_is_settled_or_over_expires_and_what_is_open_stays,
    a_task_that_ended_and_expired_before_its_turn_has_ended,
];

const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// Longer than anything is kept that is over.
const LATER: Timestamp = NOW.plus_ms(30 * DAY_MS);

fn route() -> Scope {
    Scope::Route(RouteName::new("parcels"))
}

/// A gate at which a batch waits for the end of a pause, as it was stored, and its flow.
async fn busy(store: &impl Gates) -> (Gate, u64, u64) {
    let limits = Limits { rates: Rates::every(100), ..Limits::default() };
    let ask = |gate: &Gate, batch| gate.admit(&BatchId::new(batch), Asks::Anew, limits, NOW, NOW.plus_ms(30_000));
    let Admission::Admitted(Some(one), _) = ask(&Gate::default(), "b") else { panic!("an open gate") };
    let paused = one.paused(NOW.plus_ms(10_000)).expect("it was open");
    let Admission::Later { gate: Some(busy), .. } = ask(&paused, "c") else { panic!("a gate that is paused") };
    for gate in [&one, &paused, &busy] {
        assert_eq!(store.store_gate(&route(), gate, NOW).await.unwrap(), Stored::Yes);
    }
    let (flow, stride) = busy.queue.flows.iter().map(|(key, flow)| (*key, flow.stride)).next().expect("it waits");
    (busy, flow, stride)
}

async fn a_gate_that_a_person_holds_outlives_tickets_of_those_who_saw_it_before(store: impl Fixture) {
    let (seen, flow, stride) = busy(&*store).await;
    let held = seen.held(Some("a migration".to_owned()), NOW).expect("nobody holds it");
    assert_eq!(store.store_gate(&route(), &held, NOW).await.unwrap(), Stored::Yes);
    for _ in 0..3 {
        let _: Option<Gate> = store.take_ticket(&route(), flow, stride).await.unwrap();
    }
    store.expire(LATER).await;
    assert_eq!(store.gate(&route()).await.unwrap().pauses.all, held.pauses.all, "a pause by hand ends by hand");
}

async fn an_idle_gate_expires_a_week_after_its_last_use(store: impl Fixture) {
    let (gate, _, _) = busy(&*store).await;
    let last_use = gate.paused_until.max(gate.rate.lasts_until());
    store.expire(last_use.plus_ms(IDLE_MS - 1_000)).await;
    assert_eq!(store.gate(&route()).await.unwrap(), gate);
    store.expire(last_use.plus_ms(IDLE_MS + 2_000)).await;
    assert_eq!(store.gate(&route()).await.unwrap(), Gate::default());
}

async fn what_is_settled_or_over_expires_and_what_is_open_stays(store: impl Fixture) {
    let to = target("a");
    let [open, done] = [batch("open", &to, 1), batch("done", &to, 0)];
    for (batch, next) in [(&open, open.closing()), (&done, done.frozen(Vec::new()))] {
        assert_eq!(store.store(batch, groupage_core::domain::batch::Assumes::Absent).await.unwrap(), Stored::Yes);
        let assumes = groupage_core::domain::batch::Assumes::At(batch.revision);
        assert_eq!(store.store(&next, assumes).await.unwrap(), Stored::Yes);
    }
    for id in ["waits", "joins", "ends"] {
        waiting(&*store, id, &to).await;
    }
    store.join(&TaskId::new("joins"), Round(0), &open.id).await.unwrap();
    store.end(&TaskId::new("ends"), Round(0), &failure(&to, "cancelled"), NOW).await.unwrap().expect("it waited");
    lead(&*store, &to, "w1", 10).await;
    let free = lead(&*store, &target("b"), "w2", 10).await;
    assert_eq!(store.release(&free, Seq(0), 0, NOW).await.unwrap(), Released::Yes);
    store.open_session(&session("r/s")).await.unwrap();

    store.expire(LATER).await;
    let ids: Vec<TaskId> = ["waits", "joins", "ends"].map(TaskId::new).into();
    let mut left: Vec<String> =
        store.read(&ids, Freshness::Latest).await.unwrap().into_iter().map(|task| task.id.to_string()).collect();
    left.sort();
    assert_eq!(left, ["joins", "waits"]);
    assert!(store.batch(&open.id).await.unwrap().is_some() && store.batch(&done.id).await.unwrap().is_none());
    assert!(store.lock(&to).await.unwrap().is_some() && store.lock(&target("b")).await.unwrap().is_none());
    assert_eq!(store.session(&SessionId::new("r/s")).await.unwrap(), None);
    // Its id may be used again.
    assert_eq!(store.register(&task("ends", &to)).await.unwrap(), Registered::New);
    store.expire(LATER).await;
    assert_eq!(now(&*store, &TaskId::new("ends")).await.status, task::Status::Created { target: to });
}

async fn a_task_that_ended_and_expired_before_its_turn_has_ended(store: impl Fixture) {
    let (lane, id) = (LaneId::of(&RouteName::new("parcels"), "k"), TaskId::new("t1"));
    let (after, _) = Lane::open(lane.clone(), Numbering::ByArrival, NOW)
        .lined_up(&[(TaskId::new("t0"), None), (id.clone(), None)], NOW);
    let [first, second] = ["t0", "t1"].map(|id| Task { lane: Some(lane.clone()), ..task(id, &target("a")) });
    let queued = Some(Queued::of(&second, target("a"), Turn(1)));
    let newcomers = [Newcomer { task: first, queued: None }, Newcomer { task: second.queued_in(lane.clone()), queued }];
    assert_eq!(store.line_up(&after.expect("two come"), true, &newcomers).await.unwrap(), LinedUp::Yes);
    store.end(&id, Round(0), &failure(&target("a"), "cancelled"), NOW).await.unwrap().expect("it waited");
    for expires in [false, true] {
        if expires {
            store.expire(LATER).await;
        }
        let taken = store.take_turn((&id, Traits::default()), &target("a"), NOW).await.unwrap();
        assert_eq!(taken, PutBack::Ended, "expired: {expires}");
    }
    assert!(store.lane(&lane).await.unwrap().is_some_and(|lane| !lane.is_idle()), "somebody has the turn");
}
