"""The work that the run sends, what must become of each task, and the run itself."""

import json
import random
from dataclasses import dataclass, field

from downstream import Downstream
from stack import Stack

CANARY = "canary-5e0c"
"""In every payload, and nowhere else: wherever it turns up, a payload leaked."""


@dataclass(frozen=True)
class Fate:
    """What must become of a task."""

    status: str
    reason: str | None = None
    attempts: int | None = None


@dataclass
class Work:
    """Tasks with their fates, and messages that must be rejected with their reasons."""

    tasks: dict[str, dict] = field(default_factory=dict)
    """Payloads by id."""
    fates: dict[str, Fate] = field(default_factory=dict)
    rejects: list[tuple[str, str]] = field(default_factory=list)
    """(body, reason)."""

    def __post_init__(self):
        done = Fate("succeeded")
        for truck in ("calm", "heavy", "fragile", "busy", "flaky"):
            for n in range(80):
                self._add(f"{truck}-{n}", {"type": "parcel", "truck": truck, "weight": n + 1}, done)
        self._add("heavy-poison", {"type": "parcel", "truck": "heavy", "weight": 5000}, Fate("failed", "too_heavy", 1))
        for n in range(3):
            self._add(f"glass-{n}", {"type": "parcel", "truck": "fragile", "weight": 1, "fragile": True}, done)
        for n in range(30):
            self._add(f"letter-{n}", {"type": "letter", "district": "north", "address": f"street {n}"}, done)
        self._add("letter-lost", {"type": "letter", "district": "north"}, Fate("failed", "item_failure", 2))
        for n in range(5):
            declaration = {"type": "declaration", "office": "harbour"}
            self._add(f"declaration-{n}", declaration, Fate("failed", "http_422", 1))
        for n in range(10):
            self._add(f"stamp-{n}", {"type": "stamp", "country": "FI"}, done)
        self._add("stamp-torn", {"type": "stamp", "country": "FI", "torn": True}, Fate("failed", "torn", 1))

        parcel = {"type": "parcel", "truck": "calm", "weight": 1, "note": CANARY}
        long_letter = {"type": "letter", "district": "north", "address": "x" * 4000, "note": CANARY}
        self.rejects = [
            (f"{CANARY} is not JSON", "not_json"),
            (json.dumps([CANARY]), "not_an_object"),
            (json.dumps({"payload": [CANARY]}), "not_an_object"),
            (json.dumps({"payload": parcel, "callback": "http://203.0.113.9/"}), "unknown_field"),
            (json.dumps({"id": "no-payload"}), "missing_field"),
            (json.dumps({"payload": parcel, "version": 2}), "bad_field"),
            (json.dumps({"payload": parcel, "id": "x" * 200}), "bad_id"),
            (json.dumps({"payload": {"type": "postcard", "note": CANARY}}), "no_route"),
            (json.dumps({"payload": {"type": "parcel", "truck": 7, "note": CANARY}}), "bad_target"),
            (json.dumps({"payload": long_letter}), "too_large"),
        ]

    def _add(self, id: str, payload: dict, fate: Fate) -> None:
        self.tasks[id] = payload | {"note": CANARY}
        self.fates[id] = fate

    def bodies(self) -> list[str]:
        """Every message, good and bad mixed, in an order that is always the same."""
        bodies = [json.dumps({"id": id, "payload": payload}) for id, payload in self.tasks.items()]
        bodies += [body for body, _ in self.rejects]
        random.Random(7).shuffle(bodies)
        return bodies


STEPS = {
    "register-task": "RegisterTaskFunction",
    "elect-leader": "ElectLeaderFunction",
    "group-batch": "GroupBatchFunction",
    "batch-handler": "BatchHandlerFunction",
}
"""Each step that a queue calls, and its function's name in the template."""


class Run:
    """All the work, sent, and everything about it settled; then part of it sent again. Holds copies of everything that
    came out, so that no test sees what another did later."""

    def __init__(self, stack: Stack, downstream: Downstream, work: Work):
        self.stack, self.work = stack, work
        self._send_and_settle(work.bodies())
        self.calls_before_repeat = len(downstream.ledger.calls())
        self._repeat()
        self.ledger = downstream.ledger.copy()
        self.tasks = {item["Id"]: item for item in stack.items("TaskTable")}
        self.batches = {item["BatchId"]: item for item in stack.items("BatchTable")}
        self.locks = stack.items("BatchLockTable")
        self.sessions = stack.items("SessionTable")
        self.dead_letters = {q: stack.waiting(q) for q in stack.queues() if q.endswith("DeadLetterQueue")}
        failures = sum(fate.status == "failed" for fate in work.fates.values())
        letters = sum(fate.status == "succeeded" and id.startswith("letter") for id, fate in work.fates.items())
        self.failures = [json.loads(m["Body"]) for m in stack.take("NotificationQueue", failures)]
        self.successes = [json.loads(m["Body"]) for m in stack.take(stack.success_queue, letters)]
        self.rejected = stack.take("RejectedQueue", len(work.rejects) + 1)
        self.logs = {step: stack.logs(step) for step in STEPS}

    def metric_events(self) -> list[tuple[str, dict]]:
        """Everything that the functions published as metrics in their logs, with the step that did."""
        return [
            (step, json.loads(line[line.index("{") :]))
            for step, lines in self.logs.items()
            for line in lines
            if '"_aws"' in line
        ]

    def metrics(self) -> dict[str, float]:
        """The sum of each metric."""
        sums: dict[str, float] = {}
        for _, event in self.metric_events():
            for directive in event["_aws"]["CloudWatchMetrics"]:
                for metric in directive["Metrics"]:
                    sums[metric["Name"]] = sums.get(metric["Name"], 0) + event[metric["Name"]]
        return sums

    def _repeat(self) -> None:
        """Every fifth task sent again as it was, and one with other content under its id."""
        again = [json.dumps({"id": id, "payload": self.work.tasks[id]}) for id in list(self.work.tasks)[::5]]
        self.conflict = json.dumps({"id": "calm-0", "payload": self.work.tasks["calm-0"] | {"weight": 9}})
        self._send_and_settle([*again, self.conflict])

    def _send_and_settle(self, bodies: list[str]) -> None:
        self.stack.send(bodies)
        self.stack.eventually("every task to settle", self._settled, lambda: f"unsettled: {self._unsettled()}")
        self.stack.eventually("every queue to empty", self.stack.idle, lambda: "some step still has messages")

    def _settled(self) -> bool:
        return not self._unsettled()

    def _unsettled(self) -> list[str]:
        status = self.stack.statuses()
        return [f"{id} {status.get(id)}" for id in self.work.tasks if status.get(id) not in ("succeeded", "failed")]
