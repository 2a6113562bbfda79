"""The restore drill: tables are copied in the middle of a burst, much is done after that, and the copies go on."""

import json
import time

from downstream import API_KEY, Downstream
from emulator import Emulator
from stack import ARCHITECTURE, Stack

SUFFIX = "-restored"
TASKS, TRUCKS = 240, 6

ROUTES = """
version: 1
routes:
  - name: parcels
    target: truck
    batch: {{ max_items: 10, wait_ms: 2000 }}
    # So slow that the burst has a middle.
    limits: {{ calls_per_second: 2 }}
    downstream: {{ http: {{ url: "{url}/load", headers: {{ X-Api-Key: {key} }} }} }}
  - name: idle
    when: "idle"
    target: "'all'"
    downstream: pull
"""


class Drill:
    """A stack that was restored to the middle of its burst by the commands of the guide, and what was seen on the way.

    The emulator restores a table as it is at that moment, one table after the other, while the functions run. So the
    tables are copied some milliseconds apart, as they are on AWS, and the burst goes on after the copy until calls were
    made that the copy knows nothing of.
    """

    def __init__(self, emulator: Emulator, downstream: Downstream):
        self._downstream = downstream
        self._parameters = {
            "Architecture": ARCHITECTURE,
            "PrivateHosts": "127.0.0.1",
        }
        self.stack = stack = Stack(emulator, "groupage-drill", self._parameters)
        stack.allow_batches()
        self.used = {name: value for name, value in stack.outputs.items() if name.endswith("TableName")}
        # The emulator takes no notice of what the template says of it; `test_tables_are_encrypted_and_can_be_restored`
        # does.
        for name in self.used.values():
            specification = {"PointInTimeRecoveryEnabled": True}
            stack.client("dynamodb").update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification=specification
            )
        file = emulator.log.with_name("drill.yaml")
        file.write_text(ROUTES.format(url=downstream.url, key=API_KEY))
        stack.groupage("push", file)
        self.bodies = [
            json.dumps({"id": f"p{n}", "payload": {"type": "parcel", "truck": f"t{n % TRUCKS}", "weight": 1}})
            for n in range(TASKS)
        ]
        self._burst_and_copy()
        self._lose_the_tables()
        self._go_on()

    def _burst_and_copy(self) -> None:
        stack = self.stack
        stack.groupage("pause", "--target", "idle:before")
        stack.send(self.bodies[: TASKS * 3 // 4])
        stack.eventually("calls", lambda: len(self.calls()) >= 5, lambda: len(self.calls()))
        self.plan = json.loads(stack.groupage("--json", "restore", "--plan"))
        stack.groupage("pause", "--route", "idle", "--reason", "it's late")
        began = time.monotonic()
        arguments = ("--json", "restore", "--run", "--at", self.plan["latest"], f"--suffix={SUFFIX}")
        self.restored = json.loads(stack.groupage(*arguments))
        self.restore_s = time.monotonic() - began
        # What runs into the tables from now on is not in the copy.
        stack.send(self.bodies[TASKS * 3 // 4 :])
        known = len(self.calls())
        stack.eventually("later calls", lambda: len(self.calls()) >= known + 6, lambda: len(self.calls()))

    def _lose_the_tables(self) -> None:
        stack = self.stack
        self.lost_at = time.monotonic()
        stack.deploy(self._parameters | {"Stopped": "true"})
        stack.deploy(self._parameters | {"Stopped": "true", "TableSuffix": SUFFIX})
        self.tasks = {item["Id"]: item for item in stack.items("TaskTable")}
        self.batches = {item["BatchId"]: item for item in stack.items("BatchTable")}
        self.before = self.calls()
        for queue in stack.STEP_QUEUES:
            stack.client("sqs").purge_queue(QueueUrl=stack.queue(queue))

    def _go_on(self) -> None:
        stack = self.stack
        self.revived = json.loads(stack.groupage("--json", "restore", "--revive"))
        stack.deploy(self._parameters | {"Stopped": "false", "TableSuffix": SUFFIX})
        self.running_after_s = time.monotonic() - self.lost_at
        # Before anybody sends anything again, what the copy has is settled.
        stack.eventually("the copy to settle", lambda: not self._unsettled(self.tasks), lambda: self._unsettled(self.tasks))
        self.settled_after_s = time.monotonic() - self.lost_at
        self.settled_alone = self._statuses()
        everything = [f"p{n}" for n in range(TASKS)]
        stack.send(self.bodies)
        stack.eventually("all to settle", lambda: not self._unsettled(everything), lambda: self._unsettled(everything))
        stack.eventually("every queue to empty", stack.idle, lambda: "some step still has messages")
        self.after = self.calls()[len(self.before) :]
        self.statuses = self._statuses()

    def _statuses(self) -> dict[str, str]:
        return self.stack.statuses()

    def _unsettled(self, ids) -> list[str]:
        statuses = self._statuses()
        return [id for id in ids if statuses.get(id) not in ("succeeded", "failed")]

    def calls(self) -> list:
        return self._downstream.ledger.calls()

    # --- what the copy says ---

    @property
    def open(self) -> set[str]:
        """Tasks that the copy has and that are not settled in it."""
        return {id for id, task in self.tasks.items() if task["Status"] not in ("succeeded", "failed")}

    @property
    def recorded(self) -> set[str]:
        """Open tasks in a batch of the copy that has its outcome, by what they say themselves, or by what the batch
        says while its follow-up is not done: the copies are some milliseconds apart."""
        settled = {id: batch for id, batch in self.batches.items() if batch["Status"] == "settled"}
        members = {member for batch in settled.values() if "Open" in batch for member in batch["Members"]}
        return members & self.open | {id for id in self.open if self.tasks[id].get("BatchId") in settled}

    @property
    def again(self) -> set[str]:
        """Tasks of the copy that were called before its loss and once more after it."""
        called = [{member for call in calls for member in call.members} for calls in (self.before, self.after)]
        return called[0] & called[1] & set(self.tasks)

    def report(self) -> list[str]:
        late = {member for call in self.before for member in call.members} - set(self.tasks)
        return [
            f"restore drill: {TASKS} tasks sent, {len(self.before)} calls made before the loss",
            f"  in the copy: {len(self.tasks)} tasks, {len(self.tasks) - len(self.open)} of them settled, "
            f"{len(self.open)} open ({len(self.recorded)} with an outcome in their batch)",
            f"  called again: {len(self.again)} of the copy; {len(late)} that it did not know and that were sent again",
            f"  settled once: {sum(status == 'succeeded' for status in self.statuses.values())}, lost: "
            f"{TASKS - len(self.statuses)}",
            f"  tables restored in {self.restore_s:.1f} s; functions run {self.running_after_s:.0f} s after the loss, and "
            f"the copy is settled after {self.settled_after_s:.0f} s",
        ]
