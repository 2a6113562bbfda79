//! Tasks whose message names a list: register-task puts them there, and what was released goes on like any other.

use groupage_lab::prelude::*;

use super::calls::id;

const ROUTES: &str = parcels_route!["when: type == 'parcel'", "batch: { express: false }"];

async fn is_registered(memory: &Memory, id: &str) -> bool {
    !memory.store.read(&[TaskId::new(id)], Freshness::Latest).await.unwrap().is_empty()
}

fn message(id: &str, truck: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","payload":{{"type":"parcel","truck":"{truck}"}}{more}}}"#)
}

const LISTED: &str = r#","list":"l""#;

#[tokio::test(start_paused = true)]
async fn a_task_waits_on_its_list_until_it_is_released_and_goes_on_then() {
    let memory = Memory::new(5);
    let bodies: Vec<String> = (0..120).map(|n| message(&format!("t{n}"), "7", LISTED)).collect();
    let report = memory.register(ROUTES, &bodies).await;
    assert_eq!((report.listed, report.failed.len(), report.registered), (120, 0, 0));
    assert!(!is_registered(&memory, "t0").await);
    let again = memory.register(ROUTES, &bodies).await;
    assert_eq!((again.listed, again.repeated), (0, 120), "a redelivery finds what it put");
    assert_eq!(memory.listing().release(&id(), "r", 500).await.unwrap().unwrap().count, 120);
    let released = memory.bodies(&Destination::Tasks);
    assert_eq!(released, (0..120).map(|n| message(&format!("t{n}"), "7", "")).collect::<Vec<_>>(), "in order");
    // A late copy of the first message beside it must not be taken for the released task.
    let both = [bodies[0].clone(), released[0].clone(), released[1].clone(), bodies[1].clone()];
    let report = memory.register(ROUTES, &both).await;
    assert_eq!((report.listed, report.repeated, report.registered, report.failed.len()), (0, 2, 2, 0));
    assert!(is_registered(&memory, "t0").await && is_registered(&memory, "t1").await);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_many_lists_takes_little_longer_than_of_one() {
    let took_ms = async |lists: usize| {
        let setting = Setting { latency_ms: 100, ..Setting::default() };
        let world = World::new(setting, ROUTES, Scripted::accepting());
        let list = |n| format!(r#","list":"l{}""#, n % lists);
        let bodies: Vec<String> = (0..64).map(|n| message(&format!("t{n}"), "7", &list(n))).collect();
        let begun = world.env.now();
        let report = world.register(&bodies).await;
        assert_eq!((report.listed, report.failed.len()), (64, 0));
        world.env.now().since(begun)
    };
    assert!(took_ms(64).await < 4 * took_ms(1).await, "not one after the other");
}

#[tokio::test(start_paused = true)]
async fn what_a_list_does_not_take_is_rejected_with_a_reason_and_its_item_fails() {
    let memory = Memory::new(5);
    let tracking = memory.tracking();
    let tracked = track(tracking, "t", 3).await;
    let first = message("a", "7", LISTED);
    let other = message("a", "8", r#","item":"t:0:0","list":"l""#);
    let nameless = message("b", "7", r#","item":"t:0:1","list":"no name""#);
    let routeless = r#"{"id":"c","payload":{},"list":"l"}"#.to_owned();
    let report = memory.register(ROUTES, &[first, other, nameless, routeless]).await;
    assert_eq!((report.listed, report.rejected, report.failed.len()), (1, 3, 0));
    memory.listing().close(&id()).await.unwrap().unwrap();
    let late = message("d", "7", r#","item":"t:0:2","list":"l""#);
    let report = memory.register(ROUTES, &[late, message("a", "7", LISTED)]).await;
    assert_eq!((report.listed, report.rejected, report.repeated), (0, 1, 1));
    let reasons: Vec<String> =
        memory.queues.messages(&Destination::Rejected).iter().map(|sent| sent.attributes[0].1.clone()).collect();
    assert_eq!(reasons.iter().filter(|reason| *reason == "list_closed").count(), 1);
    assert_eq!(reasons.iter().filter(|reason| *reason == "id_conflict").count(), 1);
    assert_eq!(reasons.iter().filter(|reason| *reason == "bad_list").count(), 1);
    assert_eq!(tracking.progress(&tracked).await.unwrap().unwrap().failed, 3, "no tracker waits for them");
    assert_eq!(memory.store.list(&id()).await.unwrap().unwrap().waiting(), 1);
}

/// One of both is put, the other refused, whichever order they are in and however often they come.
#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_id_in_one_event_do_not_spoil_the_others() {
    let memory = Memory::new(5);
    let bodies = [message("a", "7", LISTED), message("b", "7", LISTED), message("a", "8", LISTED)];
    let report = memory.register(ROUTES, &bodies).await;
    assert_eq!((report.listed, report.rejected, report.failed.len()), (2, 1, 0));
    let again = memory.register(ROUTES, &[bodies[2].clone(), bodies[0].clone()]).await;
    assert_eq!((again.listed, again.rejected, again.repeated), (0, 1, 1));
}
