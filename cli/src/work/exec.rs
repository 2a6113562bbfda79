//! A command as a downstream: it gets the body on standard input, and what it prints is its answer.
//!
//! Whatever it does, the worker goes on: an exit code other than 0, a hang, an answer that is too large or is none are
//! reasons to call again by the route's policy. A command that is not found stops the route's calls, since no other
//! call of it can do better. When the call is over or dropped, nothing of the command is left.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use groupage_core::domain::outcome::Reason;
use groupage_core::ports::{Answer, Call, Downstream, MAX_ANSWER_BYTES, NoAnswer};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time;

use super::group::Group;

/// Runs a command for each call.
#[derive(Debug)]
pub struct Exec {
    command: String,
    timeout: Duration,
}

/// The variable with the call's trace, as OpenTelemetry's tools for the command line have it.
const TRACEPARENT: &str = "TRACEPARENT";

/// Whether a variable holds what lets somebody act for the worker, or for the stack's downstreams.
fn is_secret(variable: &str) -> bool {
    const KEYS: [&str; 5] = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GROUPAGE_API_TOKEN",
        "GROUPAGE_CONSOLE_URL",
    ];
    KEYS.contains(&variable) || variable.starts_with("GROUPAGE_SECRET_")
}

/// What a body says of the batch as a whole.
#[derive(Deserialize)]
struct Head {
    target: String,
}

impl Exec {
    /// Runs `command` by `sh -c`, each time for `timeout` at most.
    pub fn new(command: impl Into<String>, timeout: Duration) -> Self {
        Self { command: command.into(), timeout }
    }

    fn start(&self, call: &Call<'_>) -> io::Result<Group> {
        // Batches that are pulled have the default body, which names their Target.
        let Head { target } = serde_json::from_str(&call.body)?;
        let mut command = Command::new("sh");
        // It reads what strangers send, and needs none of what the worker itself reaches the stack with.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_secret(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command
            .args(["-c", &self.command])
            .env("GROUPAGE_BATCH", call.batch.as_str())
            .env("GROUPAGE_TARGET", target)
            .env("GROUPAGE_FENCE", call.fence.to_string())
            .env("GROUPAGE_ATTEMPT", call.attempt.to_string())
            // What the worker itself runs in is no trace of a batch.
            .env_remove(TRACEPARENT)
            .envs(call.trace.as_ref().map(|trace| (TRACEPARENT, trace.context.to_string())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        Group::start(command)
    }
}

impl Downstream for Exec {
    async fn call(&self, call: &Call<'_>) -> Result<Answer, NoAnswer> {
        let mut group = self.start(call).map_err(|error| {
            tracing::error!(%error, "the command cannot be started");
            NoAnswer::Misconfigured(Reason::new("exec_not_started"))
        })?;
        // Dropping the group ends what is left of it, however this ends.
        match time::timeout(self.timeout, talk(&mut group, &call.body)).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::Timeout),
        }
    }
}

async fn talk(group: &mut Group, body: &str) -> Result<Answer, NoAnswer> {
    let (stdin, stdout) = (group.stdin(), group.stdout());
    let lost = |_| NoAnswer::Other(Reason::new("exec_lost"));
    let ((), body, status) = tokio::try_join!(
        async {
            feed(stdin, body).await;
            Ok(())
        },
        read(stdout),
        async { group.ended().await.map_err(lost) },
    )?;
    match failure(status) {
        None => Ok(Answer { status: 200, body, ..Answer::default() }),
        Some(reason) => Err(match status.code() {
            Some(NOT_EXECUTABLE | NOT_FOUND) => NoAnswer::Misconfigured(reason),
            Some(UNAVAILABLE | TEMPORARY_FAILURE) => NoAnswer::Other(reason),
            Some(_) | None => NoAnswer::Failed(reason),
        }),
    }
}

/// `EX_UNAVAILABLE` and `EX_TEMPFAIL` of sysexits.h: what the command needs is away, and the tasks have no part in
/// that.
const UNAVAILABLE: i32 = 69;
const TEMPORARY_FAILURE: i32 = 75;
/// How a shell exits that may not run the command (POSIX, "Exit Status for Commands").
const NOT_EXECUTABLE: i32 = 126;
/// The same for a command that is not there.
const NOT_FOUND: i32 = 127;

/// A command need not read what it is given: its answer counts.
async fn feed(stdin: Option<ChildStdin>, body: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(body.as_bytes()).await;
    }
}

async fn read(stdout: Option<ChildStdout>) -> Result<Vec<u8>, NoAnswer> {
    let mut body = Vec::new();
    if let Some(stdout) = stdout {
        // One byte more tells an answer that is too large from one that just fits.
        let read = stdout.take(MAX_ANSWER_BYTES as u64 + 1).read_to_end(&mut body).await;
        read.map_err(|_| NoAnswer::Other(Reason::new("exec_lost")))?;
    }
    if body.len() > MAX_ANSWER_BYTES { Err(NoAnswer::TooLarge) } else { Ok(body) }
}

fn failure(status: ExitStatus) -> Option<Reason> {
    if status.success() {
        return None;
    }
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Some(Reason::new(format!("exec_signal_{signal}")));
    }
    Some(status.code().map_or_else(|| Reason::new("exec_failed"), |code| Reason::new(format!("exec_exit_{code}"))))
}

#[cfg(all(test, unix))]
mod tests {
    use groupage_core::domain::id::{BatchId, Fence, Target};
    use groupage_core::domain::trace::{CallOf, CallTrace};
    use groupage_core::routes;

    use super::*;

    const BODY: &str = r#"{"batch":"b1","target":"t1","items":[{"id":"a","payload":{}}]}"#;
    /// Longer than any test is waited for.
    const LONG: Duration = Duration::from_secs(120);

    async fn call(command: &str, timeout: Duration, body: &str) -> Result<Answer, NoAnswer> {
        call_traced(command, timeout, body, None).await
    }

    async fn call_traced(
        command: &str,
        timeout: Duration,
        body: &str,
        trace: Option<CallTrace>,
    ) -> Result<Answer, NoAnswer> {
        let (batch, body, downstream) = (BatchId::new("b1"), body.to_owned(), routes::Downstream::Pull);
        let target = &Target::new("r:t1");
        let (fence, secrets, look) = (Fence(17), Vec::new(), None);
        let call =
            Call { downstream: &downstream, batch: &batch, target, fence, attempt: 3, body, secrets, trace, look };
        Exec::new(command, timeout).call(&call).await
    }

    async fn answer(command: &str) -> Result<String, NoAnswer> {
        call(command, LONG, BODY).await.map(|answer| String::from_utf8(answer.body).unwrap())
    }

    fn failed(reason: &str) -> Result<String, NoAnswer> {
        Err(NoAnswer::Failed(Reason::new(reason)))
    }

    #[tokio::test]
    async fn the_command_gets_the_body_and_its_environment_and_its_output_is_the_answer() {
        assert_eq!(answer("cat").await.unwrap(), BODY);
        let environment = "printf %s \"$GROUPAGE_BATCH $GROUPAGE_TARGET $GROUPAGE_FENCE $GROUPAGE_ATTEMPT\"";
        assert_eq!(answer(environment).await.unwrap(), "b1 t1 17 3");
    }

    #[tokio::test]
    async fn the_command_does_not_get_what_the_worker_reaches_the_stack_with() {
        // Cargo sets this one for all tests.
        assert!(std::env::var("GROUPAGE_SECRET_OF_TESTS").is_ok());
        assert_eq!(answer("printf %s \"$GROUPAGE_SECRET_OF_TESTS\"").await.unwrap(), "");
        for (name, is_one) in
            [("AWS_SESSION_TOKEN", true), ("GROUPAGE_API_TOKEN", true), ("AWS_REGION", false), ("PATH", false)]
        {
            assert_eq!(is_secret(name), is_one, "{name}");
        }
    }

    #[tokio::test]
    async fn the_command_is_told_the_trace_of_its_call() {
        let batch = BatchId::new("b1");
        let call = CallOf { batch: &batch, key: &batch, attempt: 3 };
        let trace = CallTrace::of(call, [], true).unwrap();
        let print = "printf %s \"$TRACEPARENT\"";
        let told = call_traced(print, LONG, BODY, Some(trace.clone())).await.unwrap().body;
        assert_eq!(String::from_utf8(told).unwrap(), trace.context.to_string());
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_by_its_exit_code_or_signal() {
        assert_eq!(answer("echo '{}'; exit 3").await, failed("exec_exit_3"));
        let missing = Err(NoAnswer::Misconfigured(Reason::new("exec_exit_127")));
        assert_eq!(answer("no-such-command-anywhere 2>/dev/null").await, missing);
        assert_eq!(answer("kill -9 $$").await, failed("exec_signal_9"));
        assert_eq!(answer("exit 75").await, Err(NoAnswer::Other(Reason::new("exec_exit_75"))));
    }

    #[tokio::test]
    async fn a_command_that_reads_nothing_of_a_large_body_is_answered_for() {
        let body = format!(r#"{{"target":"t","items":["{}"]}}"#, "x".repeat(1_000_000));
        assert_eq!(call("exit 0", LONG, &body).await.unwrap().body, b"");
        assert_eq!(call("printf '{\"results\":[]}'", LONG, &body).await.unwrap().body, b"{\"results\":[]}");
    }

    #[tokio::test]
    async fn a_command_that_prints_without_end_is_stopped_at_the_largest_answer() {
        assert_eq!(call("yes", LONG, BODY).await, Err(NoAnswer::TooLarge));
        let just_fits = format!("head -c {MAX_ANSWER_BYTES} /dev/zero");
        assert_eq!(call(&just_fits, LONG, BODY).await.unwrap().body.len(), MAX_ANSWER_BYTES);
    }

    const HANGS: &str = "echo started >&3; sleep 6000 & sleep 6000";

    /// A named pipe, and a thread that waits until no process holds its other end open any more: the kernel says so,
    /// not a clock.
    struct Watch {
        folder: tempfile::TempDir,
        held: std::fs::File,
        gone: tokio::sync::oneshot::Receiver<()>,
    }

    impl Watch {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let pipe = folder.path().join("pipe");
            assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            let held = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
            let mut reader = std::fs::File::open(&pipe).unwrap();
            let (end, gone) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap();
                end.send(()).unwrap();
            });
            Self { folder, held, gone }
        }

        fn command(&self) -> String {
            format!("exec 3>{}; {HANGS}", self.folder.path().join("pipe").display())
        }

        async fn everybody_goes(self) {
            drop(self.held);
            time::timeout(LONG, self.gone).await.expect("something is left running").unwrap();
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_all_it_started() {
        let watch = Watch::new();
        assert_eq!(call(&watch.command(), Duration::from_millis(300), BODY).await, Err(NoAnswer::Timeout));
        watch.everybody_goes().await;
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_leaves_nothing_running() {
        let watch = Watch::new();
        assert!(time::timeout(Duration::from_millis(300), call(&watch.command(), LONG, BODY)).await.is_err());
        watch.everybody_goes().await;
    }

    #[tokio::test]
    async fn what_a_command_leaves_running_does_not_hold_up_its_answer() {
        assert_eq!(answer("sleep 6000 & printf done").await.unwrap(), "done");
    }
}
