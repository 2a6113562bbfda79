"""Routes that compute as much as they may, on a running stack of a laptop, beside one that computes next to nothing.

Each task of a greedy route ends within its budget or by it. The neighbour's tasks are called meanwhile.
"""

import json
import time
from dataclasses import dataclass

from local import local_process
from sites import Site
from stack import PATIENCE_S

MOST_BYTES = 600_000_000
"""What the process may take at most."""

NUMBERS = {"n": [1] * 80_000}
TEXT = {"text": "x" * 240_000}
"""Payloads near the size limit of a message."""


@dataclass(frozen=True)
class Greedy:
    """A route that passes `check`, and what becomes of its tasks."""

    when: str
    body: str | None
    payload: dict
    tasks: int
    ends: tuple[str, str | None]


OVER_BUDGET = ("failed", "template_error:1:over_budget")
GREEDY = {
    "loops": Greedy(
        "`true`",
        "{% for i in items %}{% for a in i.payload.n %}{% for b in i.payload.n %}{% endfor %}{% endfor %}{% endfor %}",
        NUMBERS, 12, OVER_BUDGET,
    ),
    "doubled": Greedy(
        "`true`", "{% set x = items[0].payload.text %}" + "{% set x = x ~ x %}" * 8 + "{{ x }}", TEXT, 3, OVER_BUDGET
    ),
    "objects": Greedy("n[*].{a: {a: @}} | [-1].a.a == `1`", None, NUMBERS, 3, ("succeeded", None)),
    "sorted": Greedy("sort_by(n, &@)[0] == `1`", None, NUMBERS, 3, ("succeeded", None)),
}
"""By route."""


def routes(url: str) -> str:
    """The greedy ones, and last the neighbour: all conditions are tried on its tasks."""
    every = {name: (greedy.when, greedy.body) for name, greedy in GREEDY.items()} | {"neighbour": ("`true`", None)}
    return "version: 1\nroutes:\n" + "".join(
        f"""
  - name: {name}
    when: {json.dumps(f"type == '{name}' && {when}")}
    target: to
    batch: {{ max_items: 1, wait_ms: 0 }}
    downstream: {{ http: {{ url: "{url}/good", body: {json.dumps(body)} }} }}
    notify: {{ failure: none, success: none }}
"""
        for name, (when, body) in every.items()
    )


def message(id: str, route: str, payload: dict) -> str:
    return json.dumps({"id": id, "payload": {"type": route, "to": id, **payload}}, separators=(",", ":"))


def slowest_neighbour(site: Site, came: dict, beside: str) -> float:
    """Sends ten tasks of the neighbour, and waits until all are called: for how long."""
    ids = [f"neighbour-{beside}-{n}" for n in range(10)]
    began = time.monotonic()
    site.send([message(id, "neighbour", {}) for id in ids])
    while not came.keys() >= set(ids):
        assert time.monotonic() - began < PATIENCE_S, f"called: {came.keys() & set(ids)}"
        time.sleep(0.01)
    return time.monotonic() - began


def test_greedy_tasks_end_by_their_budget_and_the_neighbours_are_called_meanwhile(hostile, tmp_path, report):
    tasks = {f"{name}-{n}": greedy for name, greedy in GREEDY.items() for n in range(greedy.tasks)}
    bodies = [message(id, id.partition("-")[0], greedy.payload) for id, greedy in tasks.items()]
    with local_process(tmp_path, routes(hostile.url)) as (process, environment):
        site = Site.of_laptop(tmp_path, environment)
        alone = slowest_neighbour(site, hostile.came, "alone")
        site.send(bodies)
        began = time.monotonic()
        beside = slowest_neighbour(site, hostile.came, "beside")
        unsettled = [id for id in tasks if site.ended(id) is None]
        settled = site.settled(list(tasks))
        worked_off = time.monotonic() - began
        peak = process.peak_bytes()
    assert {id: settled[id] for id in tasks} == {id: greedy.ends for id, greedy in tasks.items()}
    assert peak < MOST_BYTES
    # By count: on a busy machine all take longer. One that has worked off everything by then is fast enough.
    assert unsettled or beside < 10 * alone, f"{beside} s, {alone} s alone"
    report.append(
        f"greedy routes: 10 tasks of their neighbour are called within {beside:.1f} s, {alone:.1f} s alone "
        f"({beside / alone:.1f} times), while {len(unsettled)} of {len(tasks)} greedy ones were left, which took "
        f"{worked_off:.0f} s; {peak / 1e6:.0f} MB at most"
    )
