"""A route that says `downstream: pull`, on the deployed stack: batches wait until `groupage work` claims them."""

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest

from stack import GROUPAGE, ROOT, Stack

TORN = "office-0"
"""The label that fails."""

PRINT = shlex.join([sys.executable, "tests/e2e/print_labels.py"])


class Labels:
    """Labels for one printer, frozen into batches that nobody has claimed yet."""

    def __init__(self, stack: Stack, printer: str, count: int):
        self.stack, self.target = stack, f"labels:{printer}"
        self.tasks = [f"{printer}-{n}" for n in range(count)]
        payloads = {id: {"type": "label", "printer": printer, "torn": id == TORN} for id in self.tasks}
        stack.send([json.dumps({"id": id, "payload": payload}) for id, payload in payloads.items()])
        stack.eventually("labels to be frozen", self._all_frozen, self.batches)

    def batches(self) -> list[dict]:
        """Those that have members."""
        return [batch for batch in self.stack.batches_of(self.target) if batch["Status"] not in ("empty", "void")]

    def statuses(self) -> set[str]:
        return {batch["Status"] for batch in self.batches()}

    def fates(self) -> dict[str, str]:
        return {id: self.stack.status(id) for id in self.tasks}

    def _all_frozen(self) -> bool:
        members = [task for batch in self.batches() for task in batch["Members"]]
        return self.statuses() == {"frozen"} and sorted(members) == sorted(self.tasks) and self.stack.idle()


class Workers:
    """Starts workers that may do just what the template's policy for them says."""

    def __init__(self, stack: Stack):
        self._stack, self._environment = stack, stack.user("printer", "Worker")

    def start(self, command: str, *options: str) -> subprocess.Popen:
        """A running worker, which runs `command` for each batch."""
        return subprocess.Popen(
            [GROUPAGE, "work", "--stack", self._stack.name, "--route", "labels", "--exec", command, *options],
            env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL,
        )


@pytest.fixture(scope="module")
def workers(run) -> Workers:
    return Workers(run.stack)


@pytest.fixture(scope="module")
def office(run) -> Labels:
    """Seven labels in two batches or more, after sweep and the handler saw them."""
    labels = Labels(run.stack, "office", 7)
    functions = run.stack.client("lambda")
    functions.invoke(FunctionName=run.stack.outputs["SweepFunctionName"], Payload=b"{}")
    event = json.loads((ROOT / "infra/events/batch-handler.json").read_text())
    for batch in labels.batches():
        message = {"batch": batch["BatchId"], "target": batch["Target"], "waits": 0}
        event["Records"][0]["body"] = json.dumps(message)
        payload = json.dumps(event).encode()
        answer = functions.invoke(FunctionName=run.stack.outputs["BatchHandlerFunctionName"], Payload=payload)
        assert json.loads(answer["Payload"].read()) == {"batchItemFailures": []}
    return labels


def test_a_batch_that_is_pulled_waits_for_a_worker_and_nobody_else(office):
    assert office.statuses() == {"frozen"}
    assert {batch["Attempts"] for batch in office.batches()} == {0}
    for batch in office.batches():
        assert batch["Open"] == f"labels#{batch['BatchId'][0]}#pull"
    assert office.stack.idle()


def test_workers_share_a_route_and_settle_every_batch_once(office, workers):
    batches = len(office.batches())
    assert batches >= 2
    processes = [workers.start(PRINT) for _ in range(2)]
    office.stack.eventually("labels to settle", lambda: office.statuses() == {"settled"}, office.fates)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert [process.wait() for process in processes] == [0, 0]
    assert office.fates() == {id: "failed" if id == TORN else "succeeded" for id in office.tasks}
    assert {batch["Attempts"] for batch in office.batches()} == {1}
    assert not any("Open" in batch for batch in office.batches())
    [event] = {message["Body"] for message in office.stack.take("NotificationQueue", 1)}
    assert (json.loads(event)["subject"], json.loads(event)["data"]["reason"]) == (TORN, "torn")


def test_a_worker_that_stops_leaves_no_session(office):
    assert office.stack.items("SessionTable") == []


def test_a_worker_that_is_killed_is_followed_by_another(run, workers, report):
    labels = Labels(run.stack, "killed", 1)
    killed = workers.start("exec sleep 30")
    run.stack.eventually("the label to be claimed", lambda: labels.statuses() == {"in-progress"}, labels.fates)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL, "it had ended before"
    killed_at = time.monotonic()
    assert workers.start(PRINT, "--batches", "1").wait() == 0
    took_s = time.monotonic() - killed_at
    report.append(f"a worker that pulls, killed: its batch settled by another after {took_s:.1f} s")
    [batch] = labels.batches()
    assert (batch["Status"], batch["Attempts"]) == ("settled", 2)
    assert labels.fates() == {"killed-0": "succeeded"}
    assert run.stack.items("SessionTable") == []
