//! Workers in processes of their own that leave, sleep or run commands that misbehave: another worker goes on, and the
//! test prints how soon. The soak kills workers.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::stand::{Process, Stand, wait_for};

const PULLED: &str = "
version: 1
routes:
  - name: labels
    target: printer
    batch: { max_items: 10, wait_ms: 0 }
    downstream: pull
    # Each failure is an attempt: no outage is waited out.
    retry: { attempts: 2, base_ms: 1, cap_ms: 1, give_up_after_s: 0 }
";

/// A session that nobody would take for dead while the test waits: the one that takes over was told that it is gone.
const LONG_SESSION: [(&str, &str); 1] = [("GROUPAGE_SESSION_EXPIRY_MS", "600000")];

/// Where the commands of workers write what they do; ends what is left of them.
struct Book(PathBuf);

impl Book {
    fn new(folder: &Path) -> Self {
        Self(folder.join("book"))
    }

    /// A command that says that it begins, does `what`, and says that it ends.
    fn command(&self, name: &str, what: &str) -> String {
        let book = self.0.display();
        format!(
            "echo \"{name} begins $GROUPAGE_BATCH $GROUPAGE_ATTEMPT $$\" >> {book}; {what}\necho {name} ends >> {book}"
        )
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Waits for the first line that says that a command begins: its batch and attempt.
    fn wait_for(&self, name: &str) -> (String, String) {
        wait_for(name, || {
            let lines = self.lines();
            let line = lines.iter().find(|line| line[0] == name && line[1] == "begins" && line.len() == 5)?;
            Some((line[2].clone(), line[3].clone()))
        })
    }

    fn has_ended(&self, name: &str) -> bool {
        self.lines().iter().any(|line| line[0] == name && line[1] == "ends")
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        // The commands of killed workers are orphans.
        for group in self.lines().iter().filter_map(|line| Pid::from_raw(line.get(4)?.parse().ok()?)) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

fn worker(stand: &Stand, command: &str, variables: &[(&str, &str)]) -> Process {
    stand.spawn(&["--json", "work", "--route", "labels", "--exec", command], variables)
}

fn tasks(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("{{\"id\":\"{id}\",\"payload\":{{\"printer\":\"p-{id}\"}}}}\n")).collect()
}

/// A folder, a stack in it with its steps, and a book for those who pull.
fn printers() -> (tempfile::TempDir, Stand, Process, Book) {
    let folder = tempfile::tempdir().unwrap();
    let stand = Stand::start(folder.path(), PULLED, &["--no-steps"]);
    let steps = stand.spawn(&["steps"], &[]);
    let book = Book::new(folder.path());
    (folder, stand, steps, book)
}

/// A stack with its steps, on whose only batch a worker `first` is at work for longer than any test waits.
struct Busy {
    book: Book,
    first: Process,
    batch: String,
    steps: Process,
    stand: Stand,
    _folder: tempfile::TempDir,
}

fn busy(variables: &[(&str, &str)]) -> Busy {
    let (folder, stand, steps, book) = printers();
    let first = worker(&stand, &book.command("first", "sleep 3600"), variables);
    stand.send(&tasks(&["a"]));
    let (batch, attempt) = book.wait_for("first");
    assert_eq!(attempt, "1");
    Busy { book, first, batch, steps, stand, _folder: folder }
}

impl Busy {
    /// Starts a second worker, and waits until it knows that it is not alone.
    fn second(&self, variables: &[(&str, &str)]) -> Process {
        let second = worker(&self.stand, &self.book.command("second", ":"), variables);
        self.stand.wait_for_sessions(2);
        second
    }

    /// Waits until the second worker has the batch of the first, and has settled it.
    fn wait_for_takeover(&self, what: &str, began: Instant) {
        let taken = self.book.wait_for("second");
        println!("{what}: taken over after {:.2} s", began.elapsed().as_secs_f64());
        assert_eq!(taken, (self.batch.clone(), "2".to_owned()));
        assert!(!self.book.has_ended("first"));
        self.stand.wait_until("a", "succeeded");
        let batch = self.stand.json(&["status", "batch", &self.batch]);
        assert_eq!((&batch["status"], &batch["calls"]), (&"settled".into(), &2.into()));
    }
}

#[test]
fn the_batch_of_a_worker_that_is_told_twice_to_stop_is_free_at_once() {
    let mut busy = busy(&LONG_SESSION);
    let _second = busy.second(&LONG_SESSION);
    let began = Instant::now();
    // Signals that come together count as one, so it is told until it goes.
    wait_for("the first worker to go", || {
        busy.first.signal(Signal::TERM);
        (!busy.first.runs()).then_some(())
    });
    busy.wait_for_takeover("SIGTERM, twice", began);
    assert!(busy.first.ended().success());
}

#[test]
fn a_worker_whose_grace_is_over_gives_its_batch_up() {
    let (_folder, stand, _steps, book) = printers();
    let command = book.command("first", "sleep 3600");
    let arguments = ["work", "--route", "labels", "--grace", "100ms", "--exec", &command];
    let mut first = stand.spawn(&arguments, &LONG_SESSION);
    stand.send(&tasks(&["a"]));
    book.wait_for("first");
    first.signal(Signal::TERM);
    assert!(first.ended().success());
    stand.wait_for_sessions(0);
    let _second = worker(&stand, &book.command("second", ":"), &LONG_SESSION);
    stand.wait_until("a", "succeeded");
    assert!(!book.has_ended("first"));
}

#[test]
fn a_worker_that_is_told_to_stop_finishes_its_batch_and_claims_no_other() {
    let (folder, stand, _steps, book) = printers();
    let gate = folder.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let mut first = worker(&stand, &book.command("first", &wait), &[]);
    stand.send(&tasks(&["a", "b"]));
    let (batch, _) = book.wait_for("first");
    first.signal(Signal::TERM);
    std::fs::write(gate, "").unwrap();
    assert!(first.ended().success());
    assert_eq!(book.lines().len(), 2, "one command began and ended");
    let statuses = ["a", "b"].map(|id| stand.task(id));
    for task in statuses {
        let expected = if task["batch"] == batch.as_str() { "succeeded" } else { "batched" };
        assert_eq!(task["status"], expected, "{task}");
    }
    assert_eq!(stand.json(&["status", "sessions"]), Value::Array(Vec::new()));
}

#[test]
fn a_worker_that_slept_through_its_expiry_drops_its_batch_and_goes_on() {
    let timing = [("GROUPAGE_HEARTBEAT_MS", "200"), ("GROUPAGE_SESSION_EXPIRY_MS", "1500")];
    let mut busy = busy(&timing);
    let second = busy.second(&timing);
    let began = Instant::now();
    busy.first.signal(Signal::STOP);
    busy.wait_for_takeover("a worker that pulls and stood still, expiry 1.5 s", began);
    second.kill();
    busy.first.signal(Signal::CONT);
    busy.stand.send(&tasks(&["b"]));
    wait_for("the next batch", || {
        (busy.book.lines().iter().filter(|line| line[0] == "first" && line[1] == "begins").count() == 2).then_some(())
    });
    assert!(busy.first.runs());
    assert_eq!(busy.first.printed(), Vec::<String>::new(), "its first result does not count");
    assert!(busy.steps.runs());
}

#[test]
fn whatever_a_command_does_its_tasks_settle_by_the_retry_policy() {
    let (_folder, stand, _steps, _) = printers();
    let command = r#"case "$GROUPAGE_TARGET" in
        p-prints-no-json) echo oops ;;
        p-dies) exit 3 ;;
        p-hangs) sleep 3600 ;;
        p-prints-100-mb) head -c 100000000 /dev/zero ;;
        p-names-a-stranger) echo '{"results":[{"id":"stranger","status":"succeeded"}]}' ;;
        p-fails) echo '{"results":[{"id":"fails","status":"failed","reason":"no_paper"}]}' ;;
        p-works) ;;
    esac"#;
    let _worker = stand.spawn(&["work", "--route", "labels", "--timeout", "700ms", "--exec", command], &[]);
    let expected = [
        ("prints-no-json", "answer_not_json"),
        ("dies", "exec_exit_3"),
        ("hangs", "timeout"),
        ("prints-100-mb", "answer_too_large"),
        ("names-a-stranger", "answer_names_unknown_item"),
        ("fails", "no_paper"),
    ];
    let ids: Vec<&str> = expected.iter().map(|(id, _)| *id).chain(["works"]).collect();
    stand.send(&tasks(&ids));
    for (id, reason) in expected {
        assert_eq!(stand.wait_until(id, "failed")["reason"], reason, "{id}");
    }
    stand.wait_until("works", "succeeded");
}

#[test]
fn a_worker_without_work_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let routes =
        format!("{PULLED}  - name: calls\n    target: x\n    downstream: {{ http: {{ url: \"https://h/\" }} }}\n");
    let stand = Stand::start(folder.path(), &routes, &["--no-steps"]);
    for (route, said) in [("calls", "calls its downstream itself"), ("none", "no route is named `none`")] {
        let answer = stand.ask(&["work", "--route", route, "--exec", "true"]);
        let text = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert_eq!(answer.status.code(), Some(1));
        assert!(text.contains(said) && text.contains("labels"), "{text}");
    }
}
