"""The walk of `docs/guides/emulators.md`, as it is written: deployed to an emulator, a task that failed and was run again.

All its blocks are typed into one shell, in a folder like the repository. Only the two ports differ."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from emulator import free_port
from pages import blocks, commands
from stack import PATIENCE_S, ROOT

PAGE = "docs/guides/emulators.md"


def script(kind: str) -> str:
    lines = [command.line for block in blocks(PAGE) if block.why == kind for command in commands(block)]
    assert len(lines) > 10, f"{PAGE} has no walk of blocks that say `{kind}`: {lines}"
    return "\n".join(["set -e", *lines])


def type_in(script: str, folder: Path) -> str:
    """What a shell in `folder` prints for the script; nothing that it started outlives this."""
    # The caller's PATH: with another Python, the walk would install the tools anew.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    printed = folder / "printed"
    with printed.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
    try:
        ended = shell.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        ended = "not"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert ended == 0, f"the walk ended {ended}:\n{printed.read_text()}"
    return printed.read_text()


def test_the_walk_through_the_emulator_is_as_the_guide_says(tmp_path):
    api, emulator = str(free_port()), str(free_port())
    (tmp_path / "target").mkdir()
    for name in ("tests", "rust-toolchain.toml", "target/tools", "target/debug", "target/sam"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "examples/trucks").mkdir(parents=True)
    for name in ("downstream.py", "trucks/parcels.ndjson", "trucks/routes.yaml"):
        (tmp_path / "examples" / name).write_text((ROOT / "examples" / name).read_text().replace("9000", api))
    printed = type_in(script("emulator").replace("4566", emulator).replace("9000", api), tmp_path)
    events = ["Successfully created/updated stack", "truck-3: ", "answered 503", "too_heavy", "run again", "succeeded"]
    places = [printed.find(event) for event in events]
    places[-1] = printed.rfind(events[-1])
    assert -1 not in places and places == sorted(places), f"{events} are at {places}:\n{printed}"
