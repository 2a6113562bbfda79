//! A stack in processes of its own, which a test may kill one by one.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

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

/// A running `groupage`; killed when the test ends, however it ends.
pub struct Process {
    child: Child,
    /// Its standard output, line by line.
    lines: Receiver<String>,
    /// Its standard error, if the test reads that.
    errors: Option<Receiver<String>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (lines, errors) = (lines_of(child.stdout.take().unwrap()), child.stderr.take().map(lines_of));
        Self { child, lines, errors }
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
    pub fn said(&self) -> String {
        wait_for("its words", || self.errors.as_ref().unwrap().try_recv().ok())
    }

    /// Waits for its end: its exit code, and what it printed with `--json`.
    pub fn report(mut self) -> (Option<i32>, Value) {
        let status = self.ended();
        let said: Vec<String> = self.errors.iter().flat_map(Receiver::iter).collect();
        let report = serde_json::from_str(&self.lines.iter().collect::<String>());
        (status.code(), report.unwrap_or_else(|_| panic!("{said:?}")))
    }

    /// What it has printed since the last look.
    pub fn printed(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// `kill -9`: it can do nothing more, not even say so.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        wait_for("a process to end", || self.child.try_wait().unwrap())
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
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
        command.arg("--routes").arg(folder.join("routes.yaml")).args(extra).stderr(Stdio::null());
        command.envs(variables.iter().copied());
        let mut local = Process::start(command.stdin(Stdio::null()));
        let lines = wait_for("groupage local", || {
            assert!(local.runs(), "groupage local ended");
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
        Process::start(command.stdin(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Runs a command to its end.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
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

/// What comes out of a pipe, line by line.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    lines
}

pub fn groupage() -> Command {
    Command::new(env!("CARGO_BIN_EXE_groupage"))
}
