//! Messages between the steps of each release, and its stored items: today's code reads them, and that release reads
//! today's.
//!
//! `tests/versions` has a folder for each release. Its messages are as it wrote them, without fields that may be
//! missing. What is there may be required by its reader, so today's messages must have it, too. Its [items](items) are
//! whole. The present version's files are written anew with `GROUPAGE_REWRITE=1`; a release keeps its own for ever.

mod items;
mod samples;

use std::fs;
use std::path::PathBuf;

use groupage_core::domain::batch::Pace;
use groupage_core::domain::gate::{Of, Ticket};
use groupage_core::domain::message::{Due, Election, Finish, Group, Handle, Lead, Resume, Return, Returning};
use groupage_lab::prelude::*;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("versions")
}

/// One message of each kind as today's steps write it; without those fields that may be missing, if `bare`.
fn todays(bare: bool) -> Vec<(&'static str, Value)> {
    let (target, batch) = (Target::new("parcels:t1"), BatchId::new("b1"));
    let traits = if bare { Traits::default() } else { Traits { weight: 5, closes: true, ..Traits::default() } };
    let (workflow, id) = (WorkflowId::new("w1"), TaskId::new("p1"));
    let task = Candidate { id, round: Round(2), bytes: 30, traits };
    let copies = if bare { Copies::NONE } else { Copies::NONE.and_one(0, Timestamp(7)).0 };
    let election = Election {
        workflow: workflow.clone(),
        target: target.clone(),
        tasks: vec![task.clone()],
        since: Timestamp(7),
        attempt: 1,
        signalled: (!bare).then_some((Shard(0), Fence(3))),
        copies,
    };
    let due = Due { target: target.clone(), at: Timestamp(9), tasks: vec![task.clone()] };
    let returning = Returning { task: task.clone(), attempts: 2, is_unsure: true };
    let returned = Return { batch: batch.clone(), target: target.clone(), tasks: vec![returning] };
    let resume = Resume {
        batch: batch.clone(),
        revision: Revision(4),
        missed: vec![TaskId::new("p2")],
        last: (!bare).then_some(Timestamp(8)),
        sizes: if bare { Vec::new() } else { vec![20] },
    };
    let lead = Lead {
        term: Term { target: target.clone(), workflow, fence: Fence(3) },
        tasks: vec![task],
        verify: true,
        pace: Pace::UNKNOWN,
        resume: Some(resume),
        copies,
        wakes: !bare,
    };
    let handle = Handle {
        batch: batch.clone(),
        target: target.clone(),
        waits: 1,
        nudge: 1,
        ticket: (!bare).then_some(Ticket { of: Of::Route, number: 5, attempts: 1 }),
        copies,
    };
    vec![
        ("elect", json!(Elect::Waiting(election.clone()))),
        ("elect", json!(Elect::Several(vec![election]))),
        ("elect", json!(Elect::Returning(returned))),
        ("elect", json!(Elect::Due(due))),
        ("group", json!(Group::Lead(lead))),
        ("group", json!(Group::Finish(Finish { batch, target, copies }))),
        ("handle", json!(handle)),
        ("rest", serde_json::from_str(&Rest::body(&["{}".to_owned()], Stage::Left(Timestamp(7)), Shard(0))).unwrap()),
    ]
}

/// Whether today's step reads it.
fn is_read(kind: &str, message: &Value) -> bool {
    let body = message.to_string();
    match kind {
        "elect" => serde_json::from_str::<Elect>(&body).is_ok(),
        "group" => serde_json::from_str::<Group>(&body).is_ok(),
        "handle" => serde_json::from_str::<Handle>(&body).is_ok(),
        _ => serde_json::from_str::<Rest>(&body).is_ok(),
    }
}

/// Whether a reader that requires what is in `former` finds it in `new`: each field, with a value of its type.
fn has_all_of(new: &Value, former: &Value) -> bool {
    match (new, former) {
        (Value::Object(new), Value::Object(former)) => {
            former.iter().all(|(name, value)| new.get(name).is_some_and(|new| has_all_of(new, value)))
        }
        (Value::Array(new), Value::Array(former)) => {
            former.iter().zip(new).all(|(former, new)| has_all_of(new, former))
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => true,
        _ => false,
    }
}

/// Each release with its messages.
fn releases() -> Vec<(String, Vec<Value>)> {
    if std::env::var_os("GROUPAGE_REWRITE").is_some() {
        let own = folder().join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&own).unwrap();
        let line = |(kind, message)| json!({ "kind": kind, "message": message }).to_string() + "\n";
        fs::write(own.join("messages.jsonl"), todays(true).into_iter().map(line).collect::<String>()).unwrap();
    }
    let folders = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("messages.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (entry.file_name().into_string().unwrap(), lines)
    };
    folders.map(read).collect()
}

#[test]
fn every_releases_messages_are_read_and_todays_have_what_its_readers_require() {
    let (releases, todays) = (releases(), todays(false));
    assert!(!releases.is_empty());
    for (version, messages) in releases {
        assert!(messages.len() <= todays.len(), "a new kind of message comes behind the others");
        for (former, (kind, new)) in messages.iter().zip(&todays) {
            assert_eq!(former["kind"], *kind);
            assert!(is_read(kind, &former["message"]), "today's steps do not read this of {version}: {former}");
            assert!(has_all_of(new, &former["message"]), "{version} does not read this: {new}; it has {former}");
        }
    }
}

#[test]
fn a_field_that_is_gone_or_of_another_type_is_noticed() {
    let former = json!({ "waiting": { "tasks": [{ "id": "p", "round": 1 }] } });
    assert!(has_all_of(&json!({ "waiting": { "tasks": [{ "id": "q", "round": 7, "more": 1 }] } }), &former));
    assert!(!has_all_of(&json!({ "waiting": { "tasks": [{ "id": "q" }] } }), &former));
    assert!(!has_all_of(&json!({ "waiting": { "tasks": [{ "id": "q", "round": "7" }] } }), &former));
}
