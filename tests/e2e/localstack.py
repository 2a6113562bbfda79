"""LocalStack's SQS: one process on a free loopback port."""

import os
import signal
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from emulator import free_port
from stack import ROOT

PYTHON = ROOT / "target/tools/localstack/bin/python"


@contextmanager
def localstack(home: Path):
    """Runs it, and gives its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "FILESYSTEM_ROOT": str(home), "SERVICES": "sqs",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}", "DISABLE_EVENTS": "1", "SKIP_SSL_CERT_DOWNLOAD": "1",
        # Queues say where they are; a name of the network would have to be looked up.
        "SQS_ENDPOINT_STRATEGY": "off", "LOCALSTACK_HOST": f"127.0.0.1:{port}",
    }
    log = home / "localstack.log"
    process = subprocess.Popen(
        [PYTHON, "-m", "localstack.runtime.main"], env=environment, cwd=home, stdin=subprocess.DEVNULL,
        stdout=log.open("w"), stderr=subprocess.STDOUT, start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{address}/_localstack/health", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
