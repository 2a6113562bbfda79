"""The console, Python and JSON blocks of the documentation run as they are written, on one stack of a laptop, in their
order.

A console block that cannot run here says why in its info string; GitHub shows only the language before it. A line that
does not begin with `$ ` is what the command before it prints."""

import json
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import demo
from emulator import free_port
from local import local_stack
from pages import PAGES, blocks, commands
from stack import AWS_CLI, GROUPAGE, PATIENCE_S, ROOT

NOT_RUN = {
    "long": "builds something, runs until it is stopped, or kills something",
    "laptop": "loads the environment that all blocks here have already",
    "aws": "needs a stack on AWS",
    "containers": "needs a container engine, which `tests/sam-local` has",
    "emulator": "belongs to a walk through an emulator, which `test_emulators.py` makes",
    "localstack": "needs LocalStack on its own port: `test_doctor_localstack.py` runs a stack with its queues",
}
"""Why a console block is not run."""

RUNBOOK = "docs/operations.md"
"""Its commands have placeholders for names; `the_runbooks_commands_exist` of the command parses them. Those of `aws`
run in `test_template.py`."""

WAITS = re.compile(r"^groupage (status|lane|erase|redrive drop) ")
"""Commands that a person repeats until what they ask for is there."""

DOWNSTREAM = "127.0.0.1:9000"
"""Where the pages have the example's batch API."""


@contextmanager
def example_downstream():
    """`examples/downstream.py` on a free port."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, ROOT / "examples/downstream.py", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
        yield port
        assert process.poll() is None, f"it ended by itself: {process.returncode}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@dataclass(frozen=True)
class Shell:
    """Where the blocks run: a folder like the repository, and the environment of a stack with the routes of the
    guides."""

    folder: Path
    environment: dict[str, str]
    downstream: int

    def type(self, line: str) -> subprocess.CompletedProcess:
        """What a person types, beside a batch API on another port."""
        return self.run("bash", "-c", line.replace(DOWNSTREAM, f"127.0.0.1:{self.downstream}"))

    def run(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S
        )


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    with example_downstream() as port:
        examples_calling(port, folder)
        routes = (folder / "examples/guides/routes.yaml").read_text()
        with local_stack(tmp_path_factory.mktemp("stack"), routes) as environment:
            tools = [GROUPAGE.parent, Path(sys.executable).parent, AWS_CLI.parent, "/usr/bin", "/bin"]
            yield Shell(folder, environment | {"PATH": ":".join(map(str, tools)), "HOME": str(folder)}, port)


def examples_calling(port: int, folder: Path) -> None:
    """Copies what the blocks name, with routes that call this port: blocks put routes files in force."""
    shutil.copytree(ROOT / "infra", folder / "infra", ignore=lambda *_: ["src", "tests"])
    shutil.copytree(ROOT / "examples", folder / "examples")
    for file in (folder / "examples").rglob("routes.yaml"):
        text = file.read_text()
        assert DOWNSTREAM in text
        file.write_text(text.replace(DOWNSTREAM, f"127.0.0.1:{port}"))
    # All pages share one stack: what the tutorial pushes there must not take the other routes away.
    shutil.copy(folder / "examples/guides/routes.yaml", folder / "examples/trucks/routes.yaml")


def run_patiently(shell: Shell, command: str) -> subprocess.CompletedProcess:
    """Repeats a command that asks until it is answered: a task is known some seconds after it was sent."""
    deadline = time.monotonic() + PATIENCE_S
    while (done := shell.type(command)).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    return done


@pytest.mark.parametrize("page", PAGES)
def test_console_blocks_run_as_written(page, shell):
    for block in blocks(page):
        if block.language != "console" or page == RUNBOOK:
            continue
        if block.why:
            assert block.why in NOT_RUN, f"{page}: {block.why!r} is no reason"
            continue
        for command in commands(block):
            is_asked_again = WAITS.match(command.line)
            done = run_patiently(shell, command.line) if is_asked_again else shell.type(command.line)
            assert done.returncode == 0, f"{page}: {command.line}\n{done.stdout}{done.stderr}"
            if command.printed:
                assert done.stdout.strip() == command.printed.strip(), f"{page}: {command.line}"


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_as_written(page, shell):
    for block in blocks(page):
        if block.language == "python":
            done = shell.run(sys.executable, "-c", block.text)
            assert done.returncode == 0, f"{page}: {block.text}\n{done.stderr}"


def test_the_pages_leave_the_stack_as_they_found_it(shell):
    status = run_patiently(shell, "groupage status | tee /dev/stderr | grep --quiet '^Nothing waits'")
    assert status.returncode == 0, f"something waits: {status.stderr}"
    end = time.monotonic() + PATIENCE_S
    while True:
        routes = json.loads(shell.run(GROUPAGE, "--json", "status", "routes").stdout)
        unwell = [shown for shown in routes if shown["state"] != "well"]
        # A route whose downstream came back begins slowly, and is well by itself after that.
        if all(shown["state"] != "draining" for shown in unwell) or time.monotonic() > end:
            break
        time.sleep(1)
    assert unwell == []
    done = shell.run(GROUPAGE, "doctor")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_json_blocks_are_json_and_whole_routes_files_are_right(page, tmp_path):
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.text)
        if block.language == "yaml" and "routes:" in block.text:
            file = tmp_path / "routes.yaml"
            file.write_text(block.text)
            done = subprocess.run([GROUPAGE, "check", file], capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {block.text}\n{done.stderr}"


def test_the_readme_shows_what_the_demo_prints():
    [shown] = demo.RECORDING.findall(demo.README.read_text())
    printed = demo.run("--tasks", "400")
    assert len(demo.figures(shown)) > 15 and demo.figures(shown) == demo.figures(printed)
    assert shown.splitlines()[-1] == printed.splitlines()[-1]


def test_every_file_of_the_examples_is_named_by_a_page():
    text = "".join((ROOT / page).read_text() for page in PAGES)
    files = [file.relative_to(ROOT) for file in (ROOT / "examples").rglob("*") if file.is_file()]
    files = [str(file) for file in files if "__pycache__" not in file.parts]
    assert len(files) > 8
    assert [file for file in files if file not in text] == []


def task_files() -> list[str]:
    return sorted(str(file.relative_to(ROOT)) for file in (ROOT / "examples").rglob("*.ndjson"))


def test_each_file_of_tasks_is_taken_by_its_routes(shell):
    """Blocks that a person stops or kills are not run, but what they send is."""
    typed = [command.line for page in PAGES for block in blocks(page) if not block.why for command in typed_in(block)]
    unsent = [file for file in task_files() if not any(file in line for line in typed)]
    assert unsent == ["examples/trucks/more.ndjson"]
    done = shell.run(GROUPAGE, "send", unsent[0], "--track=more")
    assert done.returncode == 0, f"each of them succeeds\n{done.stdout}{done.stderr}"


def typed_in(block) -> list:
    return commands(block) if block.language == "console" else []


def test_ids_differ_between_blocks_and_files():
    """A block that runs as written must not find its task settled, or its id taken by other content."""
    texts = {file: (ROOT / file).read_text() for file in task_files()}
    for page in PAGES:
        for number, block in enumerate(blocks(page)):
            if block.language in ("console", "python") and not block.why:
                texts[f"{page}, block {number}"] = block.text
    where = {}
    for place, text in texts.items():
        for id in set(re.findall(r'"id": ?"([^"]+)"', text)):
            where.setdefault(id, []).append(place)
    assert len(where) > 2000
    assert {id: places for id, places in where.items() if len(places) > 1} == {}
