"""A Target with shards on the deployed stack: a shard gets a leader of its own while the home's has too much to do."""

import json
import time

EVENTS, EACH, MAX_ITEMS = 6, 40, 5
LEASE_MS = 30_000
"""How long the home's leader, who is dead, keeps its lock."""


def test_a_shard_gets_a_leader_while_the_homes_is_busy(run):
    stack, now = run.stack, int(time.time() * 1_000)
    led = {"LockHolder": "dead", "WaitsSince": now, "LeaseUntil": now + LEASE_MS, "Fence": now, "Seq": 2, "Signals": 0}
    stack.change("BatchLockTable", {"Target": "searches:products"}, led, ())
    searches = []
    # Each event's tasks go into one shard of 64: that all events choose the home's does not happen.
    for event in range(EVENTS):
        some = [f"search-{event}-{n}" for n in range(EACH)]
        payload = {"type": "search", "index": "products", "weight": 1}
        stack.send([json.dumps({"id": id, "payload": payload}) for id in some])
        stack.eventually(
            "searches to be registered",
            lambda some=some: all(stack.status(id) for id in some),
            lambda some=some: [id for id in some if not stack.status(id)],
        )
        searches += some
    stack.eventually(
        "all searches to settle",
        lambda: all(stack.status(id) == "succeeded" for id in searches),
        lambda: [id for id in searches if stack.status(id) != "succeeded"],
    )
    of_shards = [batch for batch in stack.items("BatchTable") if batch["Target"].startswith("searches/")]
    assert MAX_ITEMS in {len(batch.get("Members", ())) for batch in of_shards}, "no leader of a shard made a full batch"
    assert not [line for line in stack.logs("elect-leader") if "AccessDenied" in line]
