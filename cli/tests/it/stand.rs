//! A stack in processes of its own, which a test may kill one by one.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use groupage_aws::runtime::STACK_BYTES;
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// A test that waits for longer has failed: nothing is expected to take nearly as long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Looks until `look` finds something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A running `groupage`; killed when the test ends, however it ends. The test fails if the process ends before the test
/// stops it or waits for its end.
pub struct Process {
    child: Child,
    /// Its standard output, line by line.
    lines: Receiver<String>,
    /// Its standard error.
    errors: Arc<Mutex<Vec<String>>>,
    /// How many lines of it the test has read.
    heard: usize,
    /// Whether the test has told it to end, or waits for that.
    may_end: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(status) = ended.filter(|_| !self.may_end) {
            let words = self.last_words(status);
            if std::thread::panicking() { eprintln!("{words}") } else { panic!("{words}") }
        }
    }
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        each_line(child.stdout.take().unwrap(), move |line| drop(send.send(line)));
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let said = Arc::clone(&errors);
        each_line(child.stderr.take().unwrap(), move |line| said.lock().unwrap().push(line));
        Self { child, lines, errors, heard: 0, may_end: false }
    }

    /// How it ended, and what it said last.
    fn last_words(&self, status: ExitStatus) -> String {
        // Its words may come a moment after its end.
        std::thread::sleep(Duration::from_millis(200));
        let errors = self.errors.lock().unwrap();
        format!("process {}: {status}\n{}", self.child.id(), errors[errors.len().saturating_sub(20)..].join("\n"))
    }

    /// Gives it its whole input.
    pub fn input(&mut self, lines: &str) {
        self.child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// Gives it these lines, and may give it more.
    pub fn type_in(&mut self, lines: &str) {
        self.child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// The next line of its standard error.
    pub fn said(&mut self) -> String {
        self.heard += 1;
        wait_for("its words", || self.errors.lock().unwrap().get(self.heard - 1).cloned())
    }

    /// Waits for its end: its exit code, and what it printed with `--json`.
    pub fn report(mut self) -> (Option<i32>, Value) {
        let status = self.ended();
        let report = serde_json::from_str(&self.lines.iter().collect::<String>());
        (status.code(), report.unwrap_or_else(|_| panic!("{}", self.last_words(status))))
    }

    /// What it has printed since the last look.
    pub fn printed(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// `kill -9`: it can do nothing more, not even say so.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Sends it a signal, unless an earlier one has ended it. It has not ended by itself before.
    pub fn signal(&mut self, signal: Signal) {
        if self.may_end && !self.runs() {
            return;
        }
        self.still_runs();
        self.may_end |= !matches!(signal, Signal::STOP | Signal::CONT);
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for its end, which is no crash.
    pub fn ended(&mut self) -> ExitStatus {
        self.may_end = true;
        let status = wait_for("a process to end", || self.child.try_wait().unwrap());
        assert!(status.code().is_some(), "{}", self.last_words(status));
        status
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Fails with its last words if it has ended.
    pub fn still_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{}", self.last_words(status));
        }
    }
}

/// `groupage local` on a folder, and whatever else runs on it.
pub struct Stand {
    folder: PathBuf,
    environment: Vec<(String, String)>,
    local: Process,
}

impl Stand {
    /// Starts it with these routes. `extra` are further arguments.
    pub fn start(folder: &Path, routes: &str, extra: &[&str]) -> Self {
        Self::start_with(folder, routes, extra, &[])
    }

    /// The same with variables of its own.
    pub fn start_with(folder: &Path, routes: &str, extra: &[&str], variables: &[(&str, &str)]) -> Self {
        let environment = folder.join("data/env");
        let _ = std::fs::remove_file(&environment);
        std::fs::write(folder.join("routes.yaml"), routes).unwrap();
        let mut command = groupage();
        command
            .args(["local", "--dynamodb-port", "0", "--sqs-port", "0", "--http-port", "0", "--data"])
            .arg(folder.join("data"));
        command.arg("--routes").arg(folder.join("routes.yaml")).args(extra);
        command.envs(variables.iter().copied());
        let mut local = Process::start(command.stdin(Stdio::null()));
        let lines = wait_for("groupage local", || {
            local.still_runs();
            std::fs::read_to_string(&environment).ok().filter(|lines| lines.contains("NOTIFICATION_QUEUE"))
        });
        let environment = lines
            .lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned()))
            .collect();
        Self { folder: folder.to_owned(), environment, local }
    }

    /// `kill -9` of tables and queues, and of the steps if they run there.
    pub fn kill(self) {
        self.local.kill();
    }

    /// Ctrl-C, and its end.
    pub fn interrupt(&mut self) -> ExitStatus {
        self.local.signal(Signal::INT);
        self.local.ended()
    }

    pub fn variable(&self, name: &str) -> &str {
        &self.environment.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// A command that finds the stack.
    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = groupage();
        command.args(arguments).current_dir(&self.folder).envs(self.environment.iter().cloned());
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// Starts a command that runs on beside the test.
    pub fn spawn(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let mut command = self.command(arguments);
        Process::start(command.envs(variables.iter().copied()).stdin(Stdio::null()))
    }

    /// Starts a command to which the test speaks, and whose words it reads.
    pub fn converse(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(&[&["--json"], arguments].concat());
        Process::start(command.stdin(Stdio::piped()))
    }

    /// Runs a command to its end, which is no crash.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.code().is_some(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// What a command prints with `--json`; it must end well.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.ask(&[&["--json"], arguments].concat());
        assert!(answer.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&answer.stderr));
        serde_json::from_slice(&answer.stdout).unwrap()
    }

    /// Sends these lines, and says how many of the tasks had settled before.
    pub fn send(&self, lines: &str) -> usize {
        std::fs::write(self.folder.join("tasks.ndjson"), lines).unwrap();
        usize::try_from(self.json(&["send", "tasks.ndjson"])["settled"].as_u64().unwrap()).unwrap()
    }

    /// Where a task stands.
    pub fn task(&self, id: &str) -> Value {
        self.json(&["status", "task", id])
    }

    /// Waits until a task has this status.
    pub fn wait_until(&self, id: &str, status: &str) -> Value {
        wait_for(&format!("{id} to be {status}"), || {
            // Not known is not registered yet.
            let answer = self.ask(&["--json", "status", "task", id]);
            let task = serde_json::from_slice::<Value>(&answer.stdout).unwrap_or_default();
            (task["status"] == status).then_some(task)
        })
    }

    /// How full the queues are, for people.
    pub fn depths(&self) -> String {
        String::from_utf8(self.ask(&["status"]).stdout).unwrap()
    }

    /// Waits until this many workers have a session.
    pub fn wait_for_sessions(&self, number: usize) {
        wait_for("sessions", || {
            let sessions = self.json(&["status", "sessions"]);
            (sessions.as_array().unwrap().len() == number).then_some(())
        });
    }
}

/// Does this for each line that comes out of a pipe, beside the test.
fn each_line(pipe: impl Read + Send + 'static, take: impl Fn(String) + Send + 'static) {
    std::thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).for_each(take));
}

/// The command, on half of the stack that it gets elsewhere: what grows fails here first.
pub fn groupage() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_groupage"));
    command.env("RUST_MIN_STACK", (STACK_BYTES / 2).to_string());
    command
}
