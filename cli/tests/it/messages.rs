//! What a newcomer is told whose question has no answer: what is wrong, where, and what to do.

use crate::stand::Stand;

const ROUTES: &str = "
version: 1
routes:
  - { name: labels, when: label, target: label, downstream: pull }
  - { name: payments, target: bank, ordered_by: account, downstream: pull }
";

#[test]
fn questions_about_order_keys_say_what_the_route_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let told = |words: &[&str]| {
        let output = stand.command(words).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for words in
        [&["lane", "stopped", "nosuch"][..], &["lane", "show", "nosuch", "X"], &["lane", "resume", "nosuch", "X"]]
    {
        let (is_well, text) = told(words);
        assert!(!is_well && text.contains("no route is named `nosuch`"), "{words:?}: {text}");
    }
    for words in [&["lane", "stopped", "labels"][..], &["lane", "show", "labels", "X"]] {
        let (is_well, text) = told(words);
        assert!(!is_well && text.contains("not ordered"), "{words:?}: {text}");
    }
    assert!(told(&["lane", "stopped", "payments"]).0);
    let (is_well, text) = told(&["lane", "show", "payments", "X"]);
    assert!(!is_well && text.contains("knows no order key `X`"), "{text}");
}

#[test]
fn a_task_that_is_not_known_may_be_young_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let said = String::from_utf8(stand.command(&["status", "task", "t"]).output().unwrap().stderr).unwrap();
    assert!(said.contains("ask again") && said.contains("redrive show rejected"), "{said}");
}

#[test]
fn a_json_list_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), ROUTES, &[]);
    let file = folder.path().join("tasks.json");
    std::fs::write(&file, "[\n {\"id\": \"a\", \"payload\": {}},\n {\"id\": \"b\", \"payload\": {}}\n]\n").unwrap();
    let output = stand.command(&["send", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("one JSON object a line"), "{said}");
    assert!(said.contains("sent, new") && !said.contains("not_json"), "{said}");
}
