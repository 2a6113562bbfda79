"""A walk: the console blocks of a guide that say the same, typed into one shell in their order."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from pages import blocks, commands
from stack import PATIENCE_S


def script(page: str, kind: str) -> str:
    """The commands of those blocks of a page that say `kind`; the first that fails ends it."""
    lines = [command.line for block in blocks(page) if block.why == kind for command in commands(block)]
    assert len(lines) > 10, f"{page} has no walk of blocks that say `{kind}`: {lines}"
    # What runs beside the walk has not ended by itself before the walk ends it.
    text = re.sub(r"^kill (%.+);", _checked, "\n".join(lines), flags=re.MULTILINE)
    return f"set -e\n{text}"


def _checked(kill: re.Match) -> str:
    return "\n".join([*(f"kill -0 {job}" for job in kill[1].split()), kill[0]])


def type_in(script: str, folder: Path, patience_s: float = PATIENCE_S) -> str:
    """What a shell in `folder` prints for the script; nothing that it started outlives this."""
    # The caller's PATH: with another Python, the walk would install the tools anew.
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "DOCKER_HOST", "AWS_DEFAULT_REGION")}
    environment = kept | {"HOME": str(folder)}
    printed = folder / "printed"
    with printed.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
    try:
        ended = shell.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        ended = "not"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert ended == 0, f"the walk ended {ended}:\n{printed.read_text()}"
    return printed.read_text()
