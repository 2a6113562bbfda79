"""Processes that the tests start, stop and kill. One that ends by anything else fails its test, with its last words."""

import os
import re
import signal
import subprocess
from pathlib import Path

KILLED: list[int] = []
"""The functions' processes that tests have killed."""


class Process:
    """A program that runs until `stop`, and no longer than the tests themselves, however these end."""

    def __init__(self, command: list, log: Path, **options):
        self._log = log
        with log.open("w") as written:
            self._process = subprocess.Popen(
                ["/usr/bin/setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
                start_new_session=True,  # so that `stop` ends what it started, too
                **options,
            )

    def check(self) -> None:
        """Fails if it has ended."""
        ended = self._process.poll()
        assert ended is None, f"{self._process.args} ended by itself ({ended}):\n{last_words(self._log.read_text())}"

    def peak_bytes(self) -> int:
        """The most memory that it has had so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024

    def end(self) -> int:
        """Ends it and every process it started; how it ended."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, sign)
            except ProcessLookupError:
                pass
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                continue
        return self._process.returncode

    def stop(self) -> None:
        """The same, for one that has not ended by itself."""
        try:
            self.check()
        finally:
            self.end()


def last_words(output: str) -> str:
    """The last lines of what a process printed."""
    return "\n".join(output.splitlines()[-30:])


_ESTABLISHED = "01"


def kill_caller(port: int, called: int) -> None:
    """Kills the process that calls from this port on loopback to that one, as a machine's death would: at once."""
    KILLED.append(_owner(_inode(port, called)))
    os.kill(KILLED[-1], signal.SIGKILL)


def _inode(port: int, called: int) -> str:
    """The inode of the caller's socket. A connection to somewhere else may have the same local port, and a closed one
    lingers."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_, inode = line.split()[:10]
        if local.endswith(f":{port:04X}") and remote.endswith(f":{called:04X}") and state == _ESTABLISHED:
            return inode
    raise AssertionError(f"nobody calls from port {port} any more")


def _owner(inode: str) -> int:
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == f"socket:[{inode}]":
                return int(link.parts[2])
        except OSError:
            continue  # it ended meanwhile
    raise AssertionError(f"no process has socket {inode} any more")
