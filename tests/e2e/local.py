"""The embedded stack: to compare the deployed one with, and to test the HTTP API on."""

import re
import time
from contextlib import contextmanager
from pathlib import Path

from processes import Process, last_words
from stack import GROUPAGE, PATIENCE_S


@contextmanager
def local_stack(folder: Path, routes: str | None = None, variables: dict[str, str] = {}):
    """Tables, queues and HTTP API of `groupage local`, and the steps if there are routes; gives the environment in
    which they are used."""
    with local_process(folder, routes, variables) as (_, environment):
        yield environment


@contextmanager
def local_process(folder: Path, routes: str | None = None, variables: dict[str, str] = {}):
    """The same with the process that runs all of it, which has these variables."""
    ports = [word for name in ("dynamodb", "sqs", "http") for word in (f"--{name}-port", "0")]
    steps = ["--no-steps"]
    if routes is not None:
        file = folder / "routes.yaml"
        file.write_text(routes)
        steps = ["--routes", file]
    command = [GROUPAGE, "local", *steps, "--data", folder, *ports]
    output = folder / "output"
    process = Process(command, output, env={"PATH": "/usr/bin:/bin"} | variables)
    try:
        yield process, _environment(output, process)
        process.check()
    finally:
        ended = process.end()
    assert ended == 0, last_words(output.read_text())


def _environment(output: Path, process: Process) -> dict[str, str]:
    """What the process prints once everything is there."""
    deadline = time.monotonic() + PATIENCE_S
    while "Stop with Ctrl-C" not in output.read_text():
        process.check()
        assert time.monotonic() < deadline, "groupage local did not start"
        time.sleep(0.1)
    return dict(re.findall(r"^export (\w+)='(.*)'$", output.read_text(), re.MULTILINE))
