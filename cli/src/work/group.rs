//! A command with everything it starts: one process group, which ends as a whole.

use std::io;
use std::process::ExitStatus;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A running command. Dropping it kills what is left of it.
#[derive(Debug)]
pub struct Group {
    child: Child,
    #[cfg(unix)]
    id: Option<rustix::process::Pid>,
}

impl Group {
    /// Starts a command in a group of its own. A Ctrl-C on the terminal does not reach it: the process that started it
    /// decides.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.kill_on_drop(true);
        #[cfg(unix)]
        {
            let child = command.process_group(0).spawn()?;
            let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
            Ok(Self { child, id })
        }
        #[cfg(not(unix))]
        Ok(Self { child: command.spawn()? })
    }

    /// Its standard input; once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output; once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits for the command's end, and kills what it left running: whatever holds its output open could otherwise hold
    /// up its answer.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.kill();
        Ok(status)
    }

    /// Kills the group, once: when it is gone its number may become another's.
    #[cfg(unix)]
    fn kill(&mut self) {
        if let Some(id) = self.id.take() {
            // An error says that nobody is left.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
