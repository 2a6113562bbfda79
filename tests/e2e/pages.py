"""The pages of the documentation: their blocks of code, and the commands in these."""

import re
from dataclasses import dataclass

from stack import ROOT

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A block of code: its language, what else its first line says, and its lines."""

    language: str
    why: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^```(\w+)[ ]?(.*)\n((?:.*\n)*?)```$", (ROOT / page).read_text(), re.MULTILINE)
    return [Block(*block) for block in found]


@dataclass(frozen=True)
class Command:
    """A line that a person types, and what it prints; nothing if the page does not say."""

    line: str
    printed: str


def commands(block: Block) -> list[Command]:
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"a console block begins with a command: {block.text}"
    # A line that ends with a backslash goes on in the next one.
    typed = [re.match(r"((?:.*\\\n)*.*)\n([\s\S]*)", part) for part in parts[1:]]
    return [Command(*line.groups()) for line in typed]
