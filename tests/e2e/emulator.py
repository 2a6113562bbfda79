"""The AWS emulator: one process on a free loopback port, started and stopped by the tests."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

REGION = "us-east-1"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": REGION,
}


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
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that `stop` ends the functions' processes too
        )
        self._await_start()

    def _await_start(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"the emulator did not start:\n{self.log.read_text()}") from None
                time.sleep(0.1)

    def environment(self) -> dict[str, str]:
        """What a program needs to use the emulator instead of AWS."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.endpoint}

    def stop(self) -> None:
        """Ends the emulator and every process it started."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, sign)
            except ProcessLookupError:
                pass
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                continue
