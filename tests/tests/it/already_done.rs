//! A downstream without idempotency keys says of a repeat that it exists already. That is believed of members that an
//! earlier call may have carried out, of the same batch or of another, and of no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use groupage_core::ports::{Answer, NoAnswer};
use groupage_lab::downstream::{Seen, status};
use groupage_lab::prelude::*;

const ROUTES: &str = "version: 1
routes:
  - name: parcels
    target: truck
    batch: { max_items: 8, wait_ms: 1000 }
    on_reject: bisect
    downstream:
      http:
        url: 'http://downstream.invalid/load'
        response: { results: body.rows, id: id, succeeded: ok, already_done: \"error == 'exists'\", reason: error }
    notify: { failure: default, success: default }
";
const TASKS: usize = 8;
/// Refused with the whole call that it is in.
const POISON: &str = "p4";
/// Stored by somebody else, before anything was sent.
const DUPLICATE: &str = "p6";

/// Stores what it gets, and loses the answer of one call that it has carried out, counted from 0.
fn store(lost: Option<usize>) -> Scripted {
    let stored: Mutex<(usize, BTreeSet<String>)> = Mutex::new((0, BTreeSet::from([DUPLICATE.to_owned()])));
    Scripted::new(Box::new(move |seen: &Seen, _| {
        let (carried_out, stored) = &mut *stored.lock().unwrap();
        if seen.items.iter().any(|id| id == POISON) {
            return Ok(status(422, None));
        }
        let row = |id: &String| match stored.insert(id.clone()) {
            true => serde_json::json!({ "id": id, "ok": true }),
            false => serde_json::json!({ "id": id, "error": "exists" }),
        };
        let rows: Vec<_> = seen.items.iter().map(row).collect();
        *carried_out += 1;
        let is_lost = lost == Some(*carried_out - 1);
        let answer: Answer = ok(&serde_json::json!({ "rows": rows }).to_string());
        if is_lost { Err(NoAnswer::Connection) } else { Ok(answer) }
    }))
}

fn failed(lost: Option<usize>) -> BTreeMap<String, String> {
    failed_at(ROUTES, store(lost))
}

/// The reasons of the tasks that a downstream fails.
fn failed_at(routes: &str, downstream: Scripted) -> BTreeMap<String, String> {
    in_virtual_time(async {
        let world = World::new(Setting { sweeps: true, ..Setting::default() }, routes, downstream);
        world.send(&parcels(TASKS, 1));
        world.run_to_rest().await.expect("it comes to rest");
        assert_kept(&world, TASKS);
        let reason = |task: Task| Some((task.id.to_string(), task.status.reason()?.to_string()));
        world.tables().tasks().into_iter().filter_map(reason).collect()
    })
}

#[test]
fn what_exists_already_is_a_failure_of_a_member_that_was_never_called() {
    let expected = [(POISON, "http_422"), (DUPLICATE, "exists")];
    assert_eq!(failed(None), expected.map(|(id, reason)| (id.to_owned(), reason.to_owned())).into());
}

#[test]
fn a_part_that_was_carried_out_unheard_succeeds_when_it_is_called_again() {
    for lost in 0..4 {
        let failed = failed(Some(lost));
        let others: Vec<_> = failed.iter().filter(|(id, _)| ![POISON, DUPLICATE].contains(&id.as_str())).collect();
        assert!(others.is_empty() && failed.contains_key(POISON), "answer {lost} is lost: {failed:?}");
    }
}

/// The member that is turned away.
const LATE: &str = "p2";

/// Carries out the first call or not, and loses its answer. Turns one member away in the second.
fn turn_away(carries_out: bool) -> Scripted {
    let stored: Mutex<(usize, BTreeSet<String>)> = Mutex::new((0, BTreeSet::from([DUPLICATE.to_owned()])));
    Scripted::new(Box::new(move |seen: &Seen, _| {
        let (calls, stored) = &mut *stored.lock().unwrap();
        *calls += 1;
        if *calls == 1 {
            stored.extend(seen.items.iter().filter(|_| carries_out).cloned());
            return if carries_out { Err(NoAnswer::Connection) } else { Ok(status(429, None)) };
        }
        let turned_away = |id: &str| *calls == 2 && [LATE, DUPLICATE].contains(&id);
        let row = |id: &String| match turned_away(id) || stored.insert(id.clone()) {
            true if turned_away(id) => serde_json::json!({ "id": id, "error": "busy" }),
            true => serde_json::json!({ "id": id, "ok": true }),
            false => serde_json::json!({ "id": id, "error": "exists" }),
        };
        Ok(ok(&serde_json::json!({ "rows": seen.items.iter().map(row).collect::<Vec<_>>() }).to_string()))
    }))
}

#[test]
fn a_member_that_comes_again_in_another_batch_brings_along_that_it_may_be_done() {
    let failed = |carries_out| {
        failed_at(
            &ROUTES.replace("reason: error", "reason: error, retryable: \"error == 'busy'\""),
            turn_away(carries_out),
        )
    };
    assert_eq!(failed(true), BTreeMap::new(), "its first call was carried out, and so may that of the duplicate");
    let duplicate = (DUPLICATE.to_owned(), "exists".to_owned());
    assert_eq!(failed(false), BTreeMap::from([duplicate]), "the first call was turned away");
}
