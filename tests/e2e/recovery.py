"""Everything that can be lost, lost at once; then nobody does anything but the schedule, and each loss is timed."""

import json
import time
from dataclasses import dataclass

from downstream import HANGS, Call, Downstream
from processes import kill_caller
from stack import Stack


@dataclass
class Loss:
    """Something lost, and the tasks that depended on it."""

    what: str
    target: str
    """Their Target's value."""
    bound: str
    """How long recovery may take with the template's defaults, as docs/design/recovery.md states it."""
    tasks: list[str]
    lost_at: float = 0.0
    recovered_after_s: float | None = None


class Recovery:
    """A stack from which each kind of thing got lost, after it recovered. Messages are taken out of their queues, one
    handler is killed in the middle of its call, and the tables of settled work are set back to before its end, as a
    death between two writes would leave them."""

    def __init__(self, stack: Stack, downstream: Downstream):
        self.stack, self._downstream = stack, downstream
        self.losses: list[Loss] = []
        self._settle_first()
        self._lose_a_call()
        self._lose_a_leader()
        self._lose_an_election()
        self._kill_a_handler()
        self._lose_a_follow_up()
        self._lose_a_claim()
        stack.eventually("everything to recover", self._recovered, lambda: f"{self._unrecovered()} did not")
        self.hidden = int(stack.attributes("HandleQueue")["ApproximateNumberOfMessagesNotVisible"])
        self.notice_again = self._notice()
        self.sessions = stack.items("SessionTable")
        self.batches = {loss.target: self._batch(loss.target) for loss in self.losses}

    def loss(self, target: str) -> Loss:
        """The loss that the tasks for this Target had to bear."""
        [loss] = [loss for loss in self.losses if loss.target == target]
        return loss

    def calls(self, target: str) -> list[Call]:
        """The calls for this Target."""
        return [call for call in self._downstream.ledger.calls() if call.target == target]

    def report(self) -> list[str]:
        """What was lost, and how long recovery took and may take."""
        lines = [f"{'lost':<46} {'back after':>10}   at most, on AWS"]
        for loss in self.losses:
            lines.append(f"{loss.what:<46} {loss.recovered_after_s:>8.0f} s   {loss.bound}")
        return lines

    # --- losing ---

    def _settle_first(self) -> None:
        """Work whose end is undone later."""
        self._send("follow-up", 2, poisoned=True)
        self._send("claim", 3)
        for target in ("follow-up", "claim"):
            self.stack.eventually(f"{target} to settle", lambda: self._settled(target), lambda: self._batch(target))
        self.stack.eventually("every queue to empty", self.stack.idle, lambda: "some step still has messages")
        self.notice = self._notice()

    def _lose_a_call(self) -> None:
        loss = self._expect("the message of a frozen batch", "call", "window + 60 s + 60 s", 3)
        with self.stack.unread("HandleQueue"):
            self._send("call", 3)
            self._await_status("call", "frozen")
            assert len(self.stack.take("HandleQueue", 1)) == 1
        loss.lost_at = time.monotonic()

    def _lose_a_leader(self) -> None:
        loss = self._expect("the leader of an open batch", "leader", "window + 60 s + 60 s", 3)
        self._send("leader", 3, kind="crate")
        self._await_status("leader", "open")
        with self.stack.unread("GroupQueue"):
            # It comes when the window is over.
            assert len(self.stack.take("GroupQueue", 1)) == 1
        loss.lost_at = time.monotonic()

    def _lose_an_election(self) -> None:
        loss = self._expect("the election of waiting tasks", "election", "60 s + 60 s", 3)
        with self.stack.unread("ElectQueue"):
            self._send("election", 3)
            # One message, if they came in one event; whatever there is must be lost.
            lost = set()
            while not lost >= set(loss.tasks):
                for message in self.stack.take("ElectQueue", 1):
                    body = json.loads(message["Body"])
                    elections = body.get("several") or [body["waiting"]]
                    lost |= {task["id"] for election in elections for task in election["tasks"]}
        assert {self.stack.status(task) for task in loss.tasks} == {"created"}
        loss.lost_at = time.monotonic()

    def _kill_a_handler(self) -> None:
        loss = self._expect("a handler, killed during its call", "deadly", "expiry (5 s) + 60 s", 3)
        self._send("deadly", 3)
        self.stack.eventually("the deadly call", lambda: self.calls("deadly"), lambda: "nobody calls")
        [call] = self.calls("deadly")
        assert call.status == HANGS
        kill_caller(call.port, self._downstream.port)
        loss.lost_at = time.monotonic()
        [self.dead_session] = [s for s in self.stack.items("SessionTable") if call.key in s.get("Claims", ())]

    def _lose_a_follow_up(self) -> None:
        loss = self._expect("what follows from a recorded outcome", "follow-up", "window + 60 s + 60 s", 2)
        self._undo("follow-up", {})
        loss.lost_at = time.monotonic()

    def _lose_a_claim(self) -> None:
        loss = self._expect("the session behind a claim", "claim", "window + 60 s + 60 s", 3)
        self._undo("claim", {"Status": "in-progress", "Session": "#handlers-0/gone"}, "SettledAt", "Results")
        loss.lost_at = time.monotonic()

    def _undo(self, target: str, batch_as: dict, *without: str) -> None:
        """Sets a settled batch and its members back to before the members' statuses were written."""
        batch = self._batch(target)
        for task in batch["Members"]:
            self.stack.change("TaskTable", {"Id": task}, {"Status": "batched"}, ("SettledAt", "Reason", "Ttl"))
        route, part = batch["Target"].split(":")[0], batch["BatchId"][0]
        unfinished = {"Open": f"{route}#{part}", "Due": int(time.time() * 1000) - 1000}
        self.stack.change("BatchTable", {"BatchId": batch["BatchId"]}, unfinished | batch_as, ("Ttl", *without))

    # --- looking ---

    def _expect(self, what: str, target: str, bound: str, tasks: int) -> Loss:
        loss = Loss(what, target, bound, [f"{target}-{n}" for n in range(tasks)])
        self.losses.append(loss)
        return loss

    def _send(self, target: str, count: int, kind: str = "parcel", poisoned: bool = False) -> None:
        """Sends tasks for one Target, the last of them too heavy if `poisoned`."""
        weights = [1] * (count - 1) + [5000 if poisoned else 1]
        payloads = [{"type": kind, "truck": target, "weight": weight} for weight in weights]
        self.stack.send([json.dumps({"id": f"{target}-{n}", "payload": p}) for n, p in enumerate(payloads)])

    def _batch(self, target: str) -> dict:
        kind = "crates" if target == "leader" else "parcels"
        batches = self.stack.batches_of(f"{kind}:{target}")
        [batch] = [batch for batch in batches if batch["Status"] not in ("empty", "void")] or [{}]
        return batch

    def _await_status(self, target: str, status: str) -> None:
        self.stack.eventually(
            f"{target}'s batch to be {status}",
            lambda: self._batch(target).get("Status") == status,
            lambda: self._batch(target),
        )

    def _settled(self, target: str) -> bool:
        """Whether the batch is settled and nothing is left to do for it."""
        batch = self._batch(target)
        return batch.get("Status") == "settled" and "Open" not in batch

    def _recovered(self) -> bool:
        for loss in self.losses:
            if loss.recovered_after_s is None and self._settled(loss.target):
                loss.recovered_after_s = time.monotonic() - loss.lost_at
        # The queues as well, except the dead handler's message, which stays hidden for longer than this lasts.
        visible = sum(self.stack.waiting(queue) for queue in ("ElectQueue", "GroupQueue", "HandleQueue")) - 1
        return visible <= 0 and not self._unrecovered()

    def _unrecovered(self) -> list[str]:
        return [loss.what for loss in self.losses if loss.recovered_after_s is None]

    def _notice(self) -> dict:
        """The notification of the one task that fails, however often it came."""
        [body] = {message["Body"] for message in self.stack.take("NotificationQueue", 1)}
        return json.loads(body)
