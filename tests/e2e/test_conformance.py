"""The claims about tables and queues on each engine, by its address: what holds is what the page says."""

import json
import os
import re
import subprocess

from emulator import CREDENTIALS
from localstack import localstack
from stack import ROOT

COMMAND = ROOT / "target/debug/conformance"
LONG = os.environ.get("GROUPAGE_TESTS") == "long"


def claims(*options) -> dict[str, dict]:
    """How the claims of each suite fare."""
    environment = os.environ | CREDENTIALS | {"CARGO_TERM_COLOR": "never"}
    done = subprocess.run(
        [COMMAND, "--json", *options], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def on_the_page(engine: str) -> dict[str, tuple[int, int]]:
    """What the page says of an engine: how many claims of each suite hold, and of how many."""
    text = (ROOT / "docs/reference/conformance.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    column = rows[0].index(engine)
    cells = {row[0].strip("`"): re.fullmatch(r"(\d+) of (\d+)", row[column]) for row in rows[2:] if len(row) == len(rows[0])}
    return {suite: (int(cell[1]), int(cell[2])) for suite, cell in cells.items() if cell}


def deviations(engine: str) -> str:
    """What the page says of how an engine deviates: the rows that begin with its name."""
    section = (ROOT / "docs/reference/conformance.md").read_text().split("## Deviations")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|", 1) for line in section.splitlines() if line.startswith("|")]
    return "\n".join(text for engines, text in rows if engine in [name.strip() for name in engines.split(",")])


def compare(engine: str, found: dict[str, dict], is_whole: bool = True) -> None:
    counted = {name: (suite["hold"], suite["hold"] + len(suite["fail"])) for name, suite in found.items()}
    expected = {suite: counts for suite, counts in on_the_page(engine).items() if is_whole or suite in found}
    assert counted and counted == expected, json.dumps(found, indent=1)
    for claim in (claim for suite in found.values() for claim in suite["fail"]):
        assert f"`{claim.split(',')[0]}`" in deviations(engine), f"the page names no such deviation of {engine}: {claim}"


def test_a_deviation_is_that_of_its_engine_alone():
    assert "ReceiptHandleIsInvalid" in deviations("ministack 1.5") and "InvalidParameterValue" in deviations("LocalStack 4.9.2")
    assert "ReceiptHandleIsInvalid" not in deviations("LocalStack 4.9.2") + deviations("embedded")


def test_the_page_counts_all_claims_of_the_embedded_stack():
    """They hold: `cargo test`, which `tests/run` runs beside this suite, fails with each that does not."""
    # All that `tests/run` tests, since Cargo compiles most crates once more where fewer programs are chosen.
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format", "json"]
    messages = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    artifacts = [message for message in map(json.loads, messages) if message["reason"] == "compiler-artifact"]
    [program] = [built["executable"] for built in artifacts if built["target"]["src_path"] == str(ROOT / "tests/tests/it/main.rs")]
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    suites = re.findall(r"^ports::(.*)::on_(?:dynamodb|dynamodb_losing_answers|sqs)::\w+: test$", listed, re.MULTILINE)
    counted = {suite: (suites.count(suite), suites.count(suite)) for suite in suites}
    assert counted == on_the_page("embedded")


def test_the_claims_hold_on_ministack_as_the_page_says(emulator):
    """Those about tables, which take half a minute of a processor, in the long settings only."""
    tables = ("--dynamodb", emulator.endpoint) if LONG else ()
    compare("ministack 1.5", claims(*tables, "--sqs", emulator.endpoint), is_whole=LONG)


def test_the_claims_about_queues_hold_on_localstack_as_the_page_says(tmp_path):
    with localstack(tmp_path) as address:
        compare("LocalStack 4.9.2", claims("--sqs", address))
