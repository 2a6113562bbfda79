"""Work that nothing moves before its time, or before a person does, is shown wherever one looks for it."""

import json
import subprocess
import time
import urllib.request
from http.cookiejar import CookieJar

import pytest

from local import local_stack
from stack import GROUPAGE, PATIENCE_S
from test_console import Downstream, served, send, task

ROUTE = """
  - name: {name}
    when: "type == '{kind}'"
    target: truck
    batch: {{ max_items: 10, wait_ms: {wait_ms} }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }}
    {more}
"""


def routes(port: int, **names: str) -> str:
    of = {"parcel": "parcels", "slow": "slow", "account": "accounts", "entry": "entries"} | names
    # The number of an entry is the length of its key.
    numbered = "ordered_by: truck\n    order: { sequence: length(truck) }"
    more = {"accounts": "ordered_by: truck", "entries": numbered, "ledgers": numbered}
    waits = {"slow": 250_000}
    each = [
        ROUTE.format(name=name, kind=kind, wait_ms=waits.get(kind, 0), port=port, more=more.get(name, ""))
        for kind, name in of.items()
    ]
    return "version: 1\nroutes:" + "".join(each)


class Stack:
    def __init__(self, environment: dict, port: int, folder):
        self.environment, self.port, self.folder = environment, port, folder

    def run(self, *words) -> subprocess.CompletedProcess:
        return subprocess.run([GROUPAGE, *map(str, words)], env=self.environment, capture_output=True, text=True)

    def groupage(self, *words) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def eventually(self, what: str, is_so):
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)

    def says(self, *words, text: str):
        self.eventually(f"{words} to say {text}", lambda: text in self.run(*words).stdout)

    def push(self, **names) -> subprocess.CompletedProcess:
        file = self.folder / "pushed.yaml"
        file.write_text(routes(self.port, **names))
        return self.run("push", file)

    def overview(self) -> str:
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )
        return opener.open(self.environment["GROUPAGE_CONSOLE_URL"]).read().decode()


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hidden")
    with served(Downstream) as port, local_stack(folder, routes(port)) as environment:
        yield Stack(environment, port, folder)


def test_scheduled_tasks_are_shown(stack):
    assert "Nothing waits" in stack.groupage("status")
    send(stack.environment, *[task(f"later-{n}", "parcel", truck="t1") | {"not_before": 3_600} for n in range(3)])
    stack.says("status", "task", "later-2", text="waits for its time")
    [row] = [line for line in stack.groupage("status").splitlines() if "parcels:t1" in line]
    assert row.split()[1] == "3" and "its time: not before" in row, row
    assert ["scheduled", "3"] in [line.split() for line in stack.groupage("status", "target", "parcels:t1").splitlines()]
    assert "its time: not before" in stack.overview()
    stack.groupage("cancel", "later-0", "later-1", "later-2")


def test_a_held_batch_says_so_and_its_target_how_many_tasks_are_in_it(stack):
    stack.groupage("pause", "--route", "parcels")
    send(stack.environment, *[task(f"held-{n}", "parcel", truck="t2") for n in range(10)])
    stack.says("status", "target", "parcels:t2", text="held: a person holds its calls back")
    shown = stack.groupage("status", "target", "parcels:t2")
    assert "its call failed" not in shown and "after 0 calls" not in shown
    [row] = [line for line in shown.splitlines() if line.startswith("in batches")]
    assert row.split()[-1] == "10", shown


def test_tasks_of_a_route_that_was_renamed_are_shown_until_they_are_cancelled_or_it_is_back(stack):
    pushed = stack.push(parcel="packets")
    assert pushed.returncode == 0 and "10 tasks wait for the route parcels" in pushed.stdout, pushed.stdout
    [row] = [line for line in stack.groupage("status").splitlines() if "parcels:t2" in line]
    assert "its route, which the routes file does not have" in row
    told = stack.run("doctor")
    assert told.returncode == 1 and "10 tasks wait for this route" in told.stdout, told.stdout
    # The console reads the file anew once a minute.
    stack.eventually("the overview to say so", lambda: "tasks wait for the route" in stack.overview())
    # Another push does not forget them.
    assert "10 tasks wait for the route parcels" in stack.push(parcel="packets", slow="slower").stdout
    back = stack.push()
    assert back.returncode == 0 and "wait for the route" not in back.stdout
    stack.groupage("cancel", *[f"held-{n}" for n in range(10)])
    stack.groupage("resume", "--route", "parcels")
    stack.says("doctor", text="✗ 0  ? 0")
    assert "wait for the route" not in stack.push(parcel="packets").stdout
    stack.push()


def test_a_task_is_cancelled_while_its_batchs_window_is_open(stack):
    send(stack.environment, *[task(f"open-{n}", "slow", truck="t3") for n in range(3)])
    stack.says("status", "task", "open-2", text="its batch's window is open")
    stack.groupage("cancel", "open-1")
    stack.says("status", "task", "open-1", text="cancelled")
    stack.says("status", "task", "open-0", text="in a batch")
    told = json.loads(stack.groupage("--json", "cancel", "--target", "slow:t3"))
    assert told == {"tasks": 3, "done": 3, "refused": []}


def test_an_order_key_that_stopped_is_shown(stack):
    send(stack.environment, *[task(f"account-{n}", "account", truck="key-1") for n in range(3)])
    stack.says("status", text="a person: `groupage lane show`")
    assert "key-1" in stack.groupage("status")
    overview = stack.overview()
    assert "stands still" in overview and "tasks of route" in overview
    # Each that has its turn then fails, and stops the key once more, the last one for nobody.
    stack.eventually("all of them to fail", lambda: resumed(stack, "account-2"))


def test_a_number_that_never_comes_is_named_and_given_up(stack):
    send(stack.environment, task("entry-5", "entry", truck="key-2"))
    stack.says("lane", "show", "entries", "key-2", text="the number that it waits for has not come")
    stack.says("lane", "stopped", "entries", text="key-2")
    assert "key-2" in stack.groupage("status") and "stands still" in stack.overview()
    wrong = stack.run("lane", "skip", "entries", "key-2", 4)
    assert wrong.returncode == 0 and "does not wait for number 4: nothing was given up" in wrong.stderr, wrong
    assert "queued" in stack.groupage("status", "task", "entry-5"), "that number is not the one that is missing"
    for _ in range(2):
        stack.groupage("lane", "skip", "entries", "key-2", 1)
    stack.says("status", "task", "entry-5", text="failed")
    renamed = stack.push(entry="ledgers").stdout
    assert "the order keys of the route entries go by the numbers of their tasks" in renamed, renamed
    stack.push()


def resumed(stack, last: str) -> bool:
    stack.run("lane", "resume", "accounts", "key-1")
    return "failed" in stack.run("status", "task", last).stdout


def test_status_waits_for_a_task_and_says_when_it_gives_up(stack):
    send(stack.environment, task("never", "parcel", truck="t4") | {"not_before": 3_600})
    stack.says("status", "task", "never", text="waits for its time")
    late = stack.run("status", "task", "never", "--wait", "--timeout", "1")
    assert late.returncode == 1 and "waits for its time" in late.stdout and "not settled after 1 s" in late.stderr
    stack.groupage("cancel", "never")
    assert "cancelled" in stack.groupage("status", "task", "never", "--wait")
    send(stack.environment, task("sent", "parcel", truck="t5"))
    assert "failed" in stack.groupage("status", "task", "sent", "--wait"), "it need not be known at once"


def test_a_rejected_message_is_deleted_once_it_is_confirmed(stack):
    send(stack.environment, *[task(f"nowhere-{n}", "nothing") for n in range(3)])
    stack.eventually("them to be rejected", lambda: "3" in stack.groupage("redrive").split())
    asks = stack.run("redrive", "drop", "rejected", "nowhere-1")
    assert asks.returncode == 1 and "for ever: say --yes" in asks.stderr
    assert "1 deleted from rejected" in stack.groupage("redrive", "drop", "rejected", "nowhere-1", "--yes")
    gone = stack.run("redrive", "drop", "rejected", "nowhere-1", "--yes")
    assert gone.returncode == 1 and "no message of it was found" in gone.stdout
    left = json.loads(stack.groupage("--json", "redrive", "show", "rejected"))
    assert sorted(message["tasks"][0] for message in left) == ["nowhere-0", "nowhere-2"]
    asks = stack.run("redrive", "drop", "rejected")
    assert asks.returncode == 1 and "this deletes 2 messages" in asks.stderr
    assert "2 deleted from rejected" in stack.groupage("redrive", "drop", "rejected", "--yes")
    assert "✗ 0  ? 0" in (told := stack.run("doctor").stdout), told
