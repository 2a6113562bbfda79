"""The AWS emulator: one process on a free loopback port, started and stopped by the tests."""

import os
import random
import socket
import sys
import time
import urllib.request
from pathlib import Path

from processes import KILLED, Process

REGION = "us-east-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
}


_CRASH = "Runtime exited before returning a response"
"""What the emulator logs of a function whose process ends in the middle of an invocation."""


def free_port() -> int:
    """A port that nobody listens on now, below those that the system hands out: other tests open many of these before
    the emulator listens."""
    while True:
        with socket.socket() as probe:
            port = random.randint(20_000, 32_000)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Emulator:
    """A running emulator, with IAM enforced: a call that a function's role does not allow is refused, so a stack that
    works here has policies that are wide enough."""

    def __init__(self, home: Path):
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self.log = home / "emulator.log"
        # It hands its whole environment on to the functions, so it gets only what they need. Without its own
        # AWS_ENDPOINT_URL the functions would call AWS itself; without BIND_HOST it would listen to the network.
        environment = CREDENTIALS | {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "AWS_ENDPOINT_URL": self.endpoint,
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "AUTH": "true",
        }
        self._process = Process([sys.executable, "-m", "ministack"], self.log, env=environment, cwd=home)
        try:
            self._await_start()
        except BaseException:
            self._process.end()
            raise

    def _await_start(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=5).close()
                return
            except OSError:
                self._process.check()
                assert time.monotonic() < deadline, f"the emulator did not start:\n{self.log.read_text()}"
                time.sleep(0.1)

    def environment(self) -> dict[str, str]:
        """What a program needs to use the emulator instead of AWS."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.endpoint}

    def stop(self) -> None:
        """Ends the emulator and every process it started."""
        self._process.stop()

    def check(self) -> None:
        """Fails if a function has ended in the middle of an invocation and no test had killed it."""
        # The mapping logs the same crash once more.
        crashes = [line for line in self.log.read_text().splitlines() if "[lambda_runtime]" in line and _CRASH in line]
        assert len(crashes) <= len(KILLED), f"functions crashed, of which tests killed {len(KILLED)}: {crashes}"
