"""A stream of a thousand events of fifty users on the deployed stack: its feeder is killed twice, and one user's events
all fail."""

import json
import signal
import subprocess
from collections import defaultdict
from dataclasses import dataclass

import pytest

from stack import GROUPAGE, ROOT, Stack

EVENTS, USERS = 1_000, 50
FAILING = "u13"
"""Whose events the downstream refuses."""
JUNK = (499, 998)
"""The lines that no route wants."""


@dataclass
class Feeding:
    """What became of the stream."""

    report: dict
    """Of the feeder that came to the end."""
    resumed_at: list[int]
    watermarks: list[int]
    """As they were seen, by and by."""
    overtaken: list[str]
    """Events that were not settled when the watermark had passed them."""
    stream: dict
    tasks: dict[int, dict]
    """By the events' numbers."""


def user(number: int) -> str:
    return f"u{(number * 7 + number // USERS) % USERS}"


@pytest.fixture(scope="module")
def feeding(run, tmp_path_factory) -> Feeding:
    stack, file = run.stack, tmp_path_factory.mktemp("stream") / "events.ndjson"
    payloads = [{"type": "user-event", "user": user(number), "n": number} for number in range(EVENTS)]
    for number in JUNK:
        payloads[number] = {"type": "postcard"}
    file.write_text("".join(json.dumps({"payload": payload}) + "\n" for payload in payloads))

    watermarks: list[int] = []
    overtaken: list[str] = []

    def passed(number: int) -> bool:
        # The stream first: what it says is settled must be so when the tasks are read.
        streams = [item for item in stack.items("StreamTable") if item["Node"] == "stream"]
        watermarks.extend(int(stream["Watermark"]) for stream in streams)
        at = watermarks[-1] if watermarks else 0
        overtaken.extend(f"{task['Id']} {task['Status']}" for task in unsettled(stack) if number_of(task) < at)
        return at >= number

    resumed_at = []
    for least in (100, 400):
        feeder = start(stack, file, "--rate", "100")
        stack.eventually(f"the watermark to pass {least}", lambda: passed(least), lambda: watermarks[-3:])
        feeder.kill()
        said = feeder.communicate()
        assert feeder.returncode == -signal.SIGKILL, said
        resumed_at.append(watermarks[-1])
    feeder = start(stack, file, "--end")
    stack.eventually("the watermark to come to the end", lambda: passed(EVENTS), lambda: watermarks[-3:])
    out, err = feeder.communicate(timeout=120)
    assert out and feeder.returncode >= 0, err
    stream = json.loads(stack.groupage("stream", "show", "users", "--json"))
    tasks = {number_of(task): task for task in stack.items("TaskTable") if task.get("Event", "").startswith("users:")}
    return Feeding(json.loads(out), resumed_at, watermarks, overtaken, stream, tasks)


def test_every_event_is_settled_whoever_was_killed(feeding):
    failed = sum(user(n) == FAILING for n in range(EVENTS) if n not in JUNK) + len(JUNK)
    assert (feeding.stream["state"], feeding.stream["watermark"]) == ("completed", EVENTS)
    assert (feeding.stream["settled"], feeding.stream["failed"]) == (EVENTS, failed)
    assert (feeding.report["fed"], feeding.report["settled"], feeding.report["failed"]) == (EVENTS, EVENTS, failed)
    wanted = {n: "failed" if user(n) == FAILING else "succeeded" for n in range(EVENTS) if n not in JUNK}
    assert {n: task["Status"] for n, task in feeding.tasks.items()} == wanted


def test_the_last_feeder_went_on_at_the_watermark(feeding):
    assert feeding.report["resumed_at"] >= feeding.resumed_at[-1] >= 400
    assert feeding.report["new"] < EVENTS - 400


def test_the_watermark_rises_and_never_passes_an_unsettled_event(feeding):
    assert feeding.watermarks == sorted(feeding.watermarks)
    assert len(set(feeding.watermarks)) > 5
    assert feeding.overtaken == []


def test_each_users_events_reach_the_downstream_in_order(feeding, downstream):
    number_by_task = {task["Id"]: n for n, task in feeding.tasks.items()}
    order: dict[str, list[int]] = defaultdict(list)
    for call in downstream.ledger.calls("/apply"):
        for member in call.members:
            number = number_by_task[member]
            if number not in order[user(number)]:
                order[user(number)].append(number)
    assert len(order) == USERS
    for numbers in order.values():
        assert numbers == sorted(numbers)


def test_nothing_is_left_of_what_was_fed(feeding, run):
    left = [item["Node"] for item in run.stack.items("StreamTable") if item["Node"].startswith("p#")]
    assert left == []


def start(stack: Stack, file, *options: str) -> subprocess.Popen:
    command = [GROUPAGE, "feed", file, "--stream", "users", "--commit", "200ms", "--window", "200", *options]
    return subprocess.Popen(
        [str(word) for word in [*command, "--json", "--stack", stack.name]], env=stack.environment, cwd=ROOT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def unsettled(stack: Stack) -> list[dict]:
    events = (task for task in stack.items("TaskTable") if task.get("Event", "").startswith("users:"))
    return [task for task in events if task["Status"] not in ("succeeded", "failed")]


def number_of(task: dict) -> int:
    return int(task["Event"].rsplit(":", 1)[1])
