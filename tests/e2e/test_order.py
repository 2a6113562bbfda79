"""Ordered routes on the deployed stack: by a FIFO queue, and by numbers that the tasks bring along."""

import json
import random
from collections import defaultdict

import pytest

from stack import Stack

ACCOUNTS, EACH = 12, 10
DECLINED = "account-3"
"""Whose fifth payment fails."""


def account_of(body: str) -> str:
    return json.loads(body)["payload"]["account"]


class Bookings:
    """Tasks of one ordered route: `EACH` of every account."""

    def __init__(self, stack: Stack, kind: str):
        self.stack, self.kind = stack, kind
        self.ids = {
            f"account-{a}": [f"{kind}-{a}-{n}" for n in range(1, EACH + 1)] for a in range(ACCOUNTS)
        }
        self.bodies = [self._body(f"account-{a}", n) for n in range(1, EACH + 1) for a in range(ACCOUNTS)]

    def _body(self, account: str, n: int) -> str:
        payload = {
            "type": self.kind, "bank": "b", "account": account, "n": n,
            "slow": n % 3 == 0 and self.kind == "payment", "declined": account == DECLINED and n == 5,
        }
        return json.dumps({"id": self.ids[account][n - 1], "payload": payload})

    def statuses(self, account: str) -> list[str | None]:
        return [self.stack.status(id) for id in self.ids[account]]

    def settled(self, but: tuple[str, ...] = ()) -> bool:
        return all(
            status in ("succeeded", "failed")
            for account in self.ids if account not in but for status in self.statuses(account)
        )

    def calls(self, ledger) -> dict[str, list[str]]:
        """For each account, its tasks in the order in which the downstream saw them first."""
        seen = defaultdict(dict)
        account = {id: account for account, ids in self.ids.items() for id in ids}
        for call in ledger.calls("/pay"):
            of_call = [account[id] for id in call.members if id in account]
            assert len(set(of_call)) == len(of_call), f"two of one account in a call: {call}"
            for id in call.members:
                if id in account:
                    seen[account[id]].setdefault(id)
        return {account: list(ids) for account, ids in seen.items()}


@pytest.fixture(scope="module")
def payments(run, downstream) -> Bookings:
    """Payments by the FIFO queue; one account is held. Some are sent again by the other queue."""
    payments = Bookings(run.stack, "payment")
    run.stack.send(payments.bodies, "InOrderQueue", account_of)
    run.stack.eventually(
        "all payments but the held ones to settle",
        lambda: payments.settled(but=(DECLINED,)) and payments.statuses(DECLINED)[4] == "failed",
        lambda: {account: payments.statuses(account) for account in payments.ids},
    )
    run.stack.send(payments.bodies[::3])
    run.stack.eventually("every queue to empty", run.stack.idle, lambda: "some step still has messages")
    return payments


def test_payments_reach_the_downstream_in_the_order_of_their_queue(payments, downstream):
    calls = payments.calls(downstream.ledger)
    assert {a: calls[a] for a in calls if a != DECLINED} == {a: ids for a, ids in payments.ids.items() if a != DECLINED}
    assert len(downstream.ledger.calls("/pay")) < ACCOUNTS * EACH, "accounts share calls"


def test_a_declined_payment_holds_its_account_until_a_person_lets_it_go_on(payments, downstream):
    stack = payments.stack
    expected = ["succeeded"] * 4 + ["failed"] + ["queued"] * 5
    assert payments.statuses(DECLINED) == expected
    assert json.loads(stack.groupage("lane", "stopped", "payments", "--json"))["keys"] == [DECLINED]
    shown = json.loads(stack.groupage("lane", "show", "payments", DECLINED, "--json"))
    assert (shown["state"], shown["failed"]) == ("held", payments.ids[DECLINED][4])
    assert [waiting["task"] for waiting in shown["waiting"]] == payments.ids[DECLINED][5:]
    stack.groupage("lane", "resume", "payments", DECLINED)
    stack.eventually("the held payments to settle", payments.settled, lambda: payments.statuses(DECLINED))
    assert payments.statuses(DECLINED) == ["succeeded"] * 4 + ["failed"] + ["succeeded"] * 5
    assert payments.calls(downstream.ledger)[DECLINED] == payments.ids[DECLINED]
    assert json.loads(stack.groupage("lane", "stopped", "payments", "--json"))["keys"] == []


def test_entries_reach_the_downstream_in_the_order_of_their_numbers(run, downstream):
    entries = Bookings(run.stack, "entry")
    shuffled = [*entries.bodies, *entries.bodies[::4]]
    random.Random(11).shuffle(shuffled)
    run.stack.send(shuffled)
    run.stack.eventually(
        "all entries to settle", entries.settled, lambda: {a: entries.statuses(a) for a in entries.ids}
    )
    calls = entries.calls(downstream.ledger)
    assert calls.pop(DECLINED) == entries.ids[DECLINED][:5], "nobody is called behind a failure"
    assert calls == {a: ids for a, ids in entries.ids.items() if a != DECLINED}
    assert entries.statuses(DECLINED) == ["succeeded"] * 4 + ["failed"] * 6


def test_nobody_is_left_in_a_lane(run, payments):
    run.stack.eventually("every queue to empty", run.stack.idle, lambda: "some step still has messages")
    turns = [item for item in run.stack.items("LaneTable") if item["Turn"] != "lane"]
    assert turns == []
