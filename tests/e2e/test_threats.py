"""docs/security.md: each attack names what shows that it fails, and that is there."""

import re
from functools import cache

import pytest

from stack import ROOT

HEAD = "| attack | why it fails | shown by |"
FOLDERS = ("api", "cli", "console", "functions", "infra", "shared", "tests")


def attacks() -> list[tuple[str, str]]:
    """Each row of the tables of attacks: the attack, and what shows that it fails."""
    rows, is_table = [], False
    for line in (ROOT / "docs/security.md").read_text().splitlines():
        is_table = line == HEAD or is_table and line.startswith("|")
        if is_table and line != HEAD and not line.startswith("|---"):
            attack, _, shown_by = line.strip("| ").split(" | ")
            rows.append((attack, shown_by))
    return rows


@cache
def known() -> set[str]:
    """The name of every function of Rust and Python in the repository."""
    names = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".rs", ".py"):
                names |= set(re.findall(r"(?:fn|def) (\w+)", path.read_text()))
    return names


def is_there(named: str) -> bool:
    """Whether a test, or a path in the repository, has this name."""
    return (ROOT / named).exists() if "/" in named else named in known()


def test_there_are_attacks():
    assert len(attacks()) >= 35


@pytest.mark.parametrize(("attack", "shown_by"), attacks(), ids=lambda text: text[:40])
def test_each_attack_is_tried_by_something_that_is_there(attack, shown_by):
    named = re.findall(r"`([^`]+)`", shown_by)
    shown = [name for name in named if is_there(name)]
    assert shown, f"nothing that is there shows that this fails: {attack}"
    # A word in between, such as a level of logs, is no name of a test.
    missing = [name for name in named if re.fullmatch(r"\w*_\w*|[\w.]+/[\w./-]+", name) and not is_there(name)]
    assert missing == []
