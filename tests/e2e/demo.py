"""The recording of the demo in the README. `python tests/e2e/demo.py` makes it anew, of a run of the built command; a
test compares its lines with those of another run."""

import re
import subprocess

from stack import GROUPAGE, ROOT

README = ROOT / "README.md"
RECORDING = re.compile(r"(?<=```text\n)[^`]*the fewest possible[^`]*(?=```\n)")
"""The block of the README that shows what the demo prints."""


def run(*options: str) -> str:
    """What the demo prints."""
    return subprocess.run([GROUPAGE, "demo", *options], capture_output=True, text=True, check=True).stdout


def figures(text: str) -> list[str]:
    """What the demo's lines are about: their beginnings."""
    return [line[: re.search(r"\s{2,}\S+\s*\S*$", line).start()] for line in text.splitlines() if line.startswith(" ")]


if __name__ == "__main__":
    printed = run()
    text, count = RECORDING.subn(lambda _: printed.rstrip() + "\n", README.read_text())
    assert count == 1, "the README has no recording"
    README.write_text(text)
