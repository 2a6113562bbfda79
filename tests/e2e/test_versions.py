"""A former version's functions and today's on one stack: about half of a burst for each, and a burst in which today's
are rolled back and deployed again.

`GROUPAGE_TESTS=long bash tests/run` does this with the last release, and `GROUPAGE_FORMER=COMMIT` with any version:
`tests/former` builds its functions.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from downstream import Downstream
from emulator import Emulator
from stack import ARCHITECTURE, Stack
from versions import ACCOUNTS, DECLINED, DECLINED_AT, EACH, FANNED, FORMERS, HELD, TODAYS, Burst, Versions

pytestmark = pytest.mark.skipif(
    os.environ.get("GROUPAGE_TESTS") != "long" and "GROUPAGE_FORMER" not in os.environ,
    reason="two versions on one stack: GROUPAGE_TESTS=long runs these, or GROUPAGE_FORMER=COMMIT",
)


@pytest.fixture(scope="module")
def downstream():
    downstream = Downstream()
    yield downstream
    downstream.stop()


@pytest.fixture(scope="module")
def versions(downstream):
    home = Path(tempfile.mkdtemp(prefix="groupage-versions-"))
    emulator = Emulator(home)
    try:
        parameters = {"Architecture": ARCHITECTURE, "PrivateHosts": "127.0.0.1", "Watched": "false"}
        yield Versions(Stack(emulator, "groupage-versions", parameters), downstream)
    finally:
        emulator.stop()
        shutil.rmtree(home)


def mixed(versions: Versions, burst: Burst) -> None:
    """Both versions read each queue, and both sweep."""
    with versions.mixed():
        burst.begin()
        burst.go_on()
        burst.has_called(20)
        burst.end()
        burst.settle()


def rolled_back(versions: Versions, burst: Burst) -> None:
    """Today's begin, the former go on, and today's bring it to its end."""
    burst.begin()
    burst.has_called(15)
    versions.deploy(FORMERS)
    burst.go_on()
    burst.has_called(25)
    versions.deploy(TODAYS)
    burst.end()
    burst.settle()


@pytest.fixture(scope="module", params=[mixed, rolled_back], ids=["mixed", "rolled-back"])
def burst(request, versions, downstream, report) -> Burst:
    burst = Burst(versions.stack, downstream, request.param.__name__.replace("_", "-"))
    began, before = time.monotonic(), versions.invocations()
    request.param(versions, burst)
    after = versions.invocations()
    burst.invocations = {step: after[step] - before[step] for step in after}
    took_s = time.monotonic() - began
    counts = ", ".join(f"{step} {of[TODAYS]} and {of[FORMERS]}" for step, of in burst.invocations.items())
    report.append(f"{burst.name}: {len(burst.fates)} tasks in {took_s:.0f} s, {burst.calls()} calls")
    report.append(f"invocations of today's version and of the former one: {counts}")
    return burst


def test_both_versions_are_at_work(burst):
    for step, of in burst.invocations.items():
        assert min(of[TODAYS], of[FORMERS]) * 5 > of.total(), f"{step}: {of}"


def test_no_task_is_lost(burst):
    assert burst.ended == {id: (fate.status, fate.reason) for id, fate in burst.fates.items()}


def test_no_task_is_settled_twice(burst):
    succeeded = {id for id, fate in burst.fates.items() if fate.status == "succeeded"}
    assert {id: len(keys) for id, keys in burst.accepted.items()} == dict.fromkeys(succeeded, 1)
    told = Counter(notice["subject"] for notice in burst.notices if notice["type"].startswith("groupage.task."))
    assert told == Counter(id for id, fate in burst.fates.items() if fate.status == "failed" or "-letter-" in id)


def test_neither_rejects_or_gives_up_what_the_other_sent(burst):
    assert burst.rejected == 0
    assert set(burst.dead.values()) == {0}, burst.dead


def test_a_fan_out_and_a_list_are_counted_by_both_as_one(burst):
    tracked = burst.tracked
    assert (tracked["state"], tracked["items"], tracked["succeeded"]) == ("completed", FANNED, FANNED)
    assert [notice["type"] for notice in burst.notices if ".tracker." in notice["type"]] == [
        "groupage.tracker.completed.v1"
    ]
    shown = burst.shown
    assert (shown["put"], shown["released"], shown["waiting"], shown["releasing"]) == (HELD, HELD, 0, 0)


def test_both_keep_the_order(burst):
    numbers = list(range(1, EACH + 1))
    accounts = [f"{burst.name}-{kind}-{account}" for kind in ("payment", "entry") for account in range(ACCOUNTS)]
    expected = dict.fromkeys(accounts, numbers) | {f"{burst.name}-entry-{DECLINED}": numbers[:DECLINED_AT]}
    assert burst.order == expected
