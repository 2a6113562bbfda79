"""A fan-out of a thousand tasks on the deployed stack: its owner is told once, when the last one is done."""

import json
import subprocess
from dataclasses import dataclass

import pytest

from stack import GROUPAGE, ROOT, Stack

TASKS = 1_000
POSTCARD = 500
"""The line that no route wants."""


@dataclass
class FanOut:
    """What `groupage send --track` came to, and what its owner was told."""

    exit_code: int
    report: dict
    notices: list[dict]
    again: dict
    """What sending the file again came to."""


@pytest.fixture(scope="module")
def fan_out(run, tmp_path_factory) -> FanOut:
    stack, file = run.stack, tmp_path_factory.mktemp("fan-out") / "tasks.ndjson"
    payloads = [{"type": "parcel", "truck": f"fan-{n % 5}", "weight": 1, "n": n} for n in range(TASKS)]
    payloads[POSTCARD] = {"type": "postcard"}
    lines = [json.dumps({"id": f"fan-{n}", "payload": payload}) for n, payload in enumerate(payloads)]
    file.write_text("\n".join(lines))
    code, report = _send(stack, file)
    notices = [json.loads(message["Body"]) for message in stack.take("NotificationQueue", 1)]
    _, again = _send(stack, file)
    stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")
    late = [json.loads(message["Body"]) for message in stack.take("NotificationQueue", 0)]
    of_trackers = [notice for notice in notices + late if notice["type"].startswith("groupage.tracker.")]
    return FanOut(code, report, of_trackers, again)


def test_a_fan_out_ends_when_the_last_task_is_settled(fan_out):
    tracked = fan_out.report["tracked"]
    assert tracked["state"] == "completed"
    assert (tracked["items"], tracked["succeeded"], tracked["failed"], tracked["missing"]) == (TASKS, TASKS - 1, 1, 0)
    assert fan_out.exit_code == 1, "one task failed, and whoever waited should know"


def test_its_owner_is_told_once_and_of_the_item_that_failed(fan_out):
    [notice] = fan_out.notices
    assert notice["specversion"] == "1.0"
    assert notice["type"] == "groupage.tracker.completed.v1"
    assert notice["subject"] == "thousand"
    data = notice["data"]
    assert (data["items"], data["succeeded"], data["failed"], data["missing"]) == (TASKS, TASKS - 1, 1, 0)
    # Chunks of lines get their items in order, and so the item's number is the line's.
    assert data["failed_items"] == [f"thousand:0:{POSTCARD}"]


def test_sending_the_file_again_changes_nothing_and_tells_nobody(fan_out):
    assert fan_out.again["tracked"] == fan_out.report["tracked"]
    assert fan_out.again["settled"] == TASKS - 1


def test_the_tracker_can_be_looked_at(fan_out, run):
    shown = json.loads(run.stack.groupage("status", "tracker", "thousand", "--json"))
    assert (shown["state"], shown["items"], shown["failed"], shown["told"]) == ("completed", TASKS, 1, True)


def _send(stack: Stack, file) -> tuple[int, dict]:
    done = subprocess.run(
        [GROUPAGE, "send", file, "--track=thousand", "--notify=default", "--json", "--stack", stack.name],
        env=stack.environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)
