"""Three hundred tasks held back on the deployed stack, and released by several callers at once, two of whom die."""

import json
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from stack import GROUPAGE, ROOT, Stack

BY_FILE, BY_MESSAGE = 220, 80
CALLERS, EACH = 4, 40
GONE = 20
"""Tasks that somebody took who died right after that write."""
TAKEN = CALLERS * EACH + GONE


@dataclass
class Held:
    """What was seen on the way."""

    put: dict
    put_again: dict
    released: list[dict]
    """What the callers who lived were told."""
    killed: int
    """How many died by a signal."""
    closed: subprocess.CompletedProcess
    """A release from the closed list."""
    discarded: dict
    shown: dict
    accepted: dict[str, list[str]]
    """For each task that was accepted, the key of each call that accepted it."""


@pytest.fixture(scope="module")
def held(run, downstream, tmp_path_factory) -> Held:
    stack, file = run.stack, tmp_path_factory.mktemp("lists") / "tasks.ndjson"
    bodies = [
        {"id": f"held-{n}", "payload": {"type": "parcel", "truck": f"held-{n % 5}", "weight": 1, "n": n}}
        for n in range(BY_FILE + BY_MESSAGE)
    ]
    file.write_text("\n".join(json.dumps(body) for body in bodies[:BY_FILE]))
    put, put_again = (json.loads(stack.groupage("list", "put", "shelf", file, "--json")) for _ in range(2))
    stack.send([json.dumps(body | {"list": "shelf"}) for body in bodies[BY_FILE:]])
    stack.eventually("every task to wait", lambda: _show(stack)["waiting"] == len(bodies), lambda: _show(stack))

    callers = [_release(stack, f"caller-{n}") for n in range(CALLERS)]
    stack.eventually("the first taking", lambda: _show(stack)["waiting"] < len(bodies), lambda: _show(stack))
    # It may be anywhere in its work, and another makes its call again.
    callers[0].send_signal(signal.SIGKILL)
    ended = [caller.communicate() for caller in callers]
    killed = [caller for caller in callers if caller.returncode == -signal.SIGKILL]
    callers.append(_release(stack, "caller-0"))
    ended.append(callers[-1].communicate())
    released = [json.loads(out) for caller, (out, _) in zip(callers, ended) if caller.returncode == 0]
    assert len(released) == len(callers) - len(killed), [error for _, error in ended]
    _take_and_die(stack)

    stack.eventually("the released tasks to settle", lambda: _settled(stack, bodies) == TAKEN, lambda: _show(stack))
    stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")
    stack.groupage("list", "close", "shelf")
    closed = _release(stack, "too-late")
    out, error = closed.communicate()
    closed = subprocess.CompletedProcess(closed.args, closed.returncode, out, error)
    discarded = json.loads(stack.groupage("list", "discard", "shelf", "--yes", "--json"))
    accepted = {id: keys for id, keys in downstream.ledger.acceptances().items() if id.startswith("held-")}
    return Held(put, put_again, released, len(killed), closed, discarded, _show(stack), accepted)


def test_a_file_is_put_once_however_often(held):
    assert (held.put["put"], held.put["known"]) == (BY_FILE, 0)
    assert (held.put_again["put"], held.put_again["known"]) == (0, BY_FILE)


def test_callers_at_once_release_what_they_asked_for(held):
    assert len(held.released) == CALLERS + 1 - held.killed
    assert {release["tasks"] for release in held.released} == {EACH}


def test_every_released_task_settles_once_and_no_other(held, run):
    statuses = Counter(run.stack.status(f"held-{n}") for n in range(BY_FILE + BY_MESSAGE))
    assert statuses == {"succeeded": TAKEN, None: BY_FILE + BY_MESSAGE - TAKEN}
    assert len(held.accepted) == TAKEN
    assert all(len(set(keys)) == 1 for keys in held.accepted.values())


def test_a_closed_list_releases_nothing_and_says_so(held):
    assert held.closed.returncode != 0
    assert "closed" in held.closed.stderr


def test_what_is_left_is_discarded_and_nothing_stays_behind(held, run):
    left = BY_FILE + BY_MESSAGE - TAKEN
    assert held.discarded["tasks"] == left
    shown = held.shown
    assert shown["state"] == "closed"
    assert (shown["put"], shown["waiting"], shown["releasing"]) == (BY_FILE + BY_MESSAGE, 0, 0)
    assert (shown["released"], shown["discarded"]) == (TAKEN, left)
    slots = [item for item in run.stack.items("ListTable") if item["Slot"].startswith("slot#")]
    assert slots == []


def _show(stack: Stack) -> dict:
    return json.loads(stack.groupage("list", "show", "shelf", "--json"))


def _release(stack: Stack, key: str) -> subprocess.Popen:
    return subprocess.Popen(
        [GROUPAGE, "list", "release", "shelf", str(EACH), "--key", key, "--json", "--stack", stack.name],
        env=stack.environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )


def _take_and_die(stack: Stack) -> None:
    """Takes tasks by the write of a release, made a minute ago, of which nothing else was done."""
    minute_ago = int(time.time() * 1000) - 60_000
    stack.client("dynamodb").update_item(
        TableName=stack.outputs["ListTableName"],
        Key={"ListId": {"S": "shelf"}, "Slot": {"S": "head"}},
        UpdateExpression="SET #start = #Taken, #what = :what, #Taken = #Taken + :count, #Open = #Open + :one, #Due = :due",
        ExpressionAttributeNames={
            "#start": "s:gone", "#what": "w:gone", "#Taken": "Taken", "#Open": "Open", "#Due": "Due",
        },
        ExpressionAttributeValues={
            ":what": {"S": f"r{GONE} {minute_ago:x}"},
            ":count": {"N": str(GONE)},
            ":one": {"N": "1"},
            ":due": {"N": str(minute_ago)},
        },
    )


def _settled(stack: Stack, bodies: list[dict]) -> int:
    return sum(stack.status(body["id"]) == "succeeded" for body in bodies)
