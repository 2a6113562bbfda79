//! A downstream without idempotency keys says of a repeat that it exists already. That is believed of members that an
//! earlier call of the same batch may have carried out, and of no others.

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
    in_virtual_time(async {
        let world = World::new(Setting { sweeps: true, ..Setting::default() }, ROUTES, store(lost));
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
