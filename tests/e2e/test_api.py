"""The HTTP API: what it answers is what its document says, and the deployed function answers it, too."""

import json
import os
import re
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from carrier import carrier
from door import Door
from local import local_stack
from stack import PATIENCE_S, ROOT

SCHEMATHESIS = ROOT / "target/tools/api/bin/schemathesis"

ANY_TASK = """
version: 1
routes:
  - name: broken
    when: "broken"
    target: "'all'"
    batch: { max_items: 1, wait_ms: 0 }
    downstream: { http: { url: "http://127.0.0.1:9/", body: "{{ missing }}" } }
  - name: any
    when: "type(@) == 'object'"
    target: "'all'"
    batch: { max_items: 10, max_bytes: 1000000, wait_ms: 100 }
    downstream: pull
"""
"""Every task is registered and reaches a batch, which nobody calls; but a broken one fails, since its body cannot be
made."""


def test_every_answer_is_as_the_document_says(tmp_path, report):
    """Requests made from the document, good and bad: none is answered by a server error, an undocumented status, media
    type or body; bad ones are refused, good ones are not, and every operation has answered well, too."""
    config, har = tmp_path / "schemathesis.toml", tmp_path / "requests.har"
    with carrier() as labels, local_stack(tmp_path, ANY_TASK.replace("\nroutes:", f"\nroutes:{labels}", 1)) as environment:
        url, token = environment["GROUPAGE_API_URL"], environment["GROUPAGE_API_TOKEN"]
        get = partial(ask, token)
        dictionaries = {
            "tasks": ["known"],
            "routes": ["any"],
            "targets": ["any:all"],
            "failed": [task_with(get, url, "failed", {"broken": True}, "failure")],
            "outputs": [task_with(get, url, "labelled", {"label": True}, "output")],
            "batches": [batch_of_a_task(get, url, "known")],
            "trackers": ["known"],
            "streams": ["known"],
            "lists": ["known"],
            "items": ["known:0:0", "known:0:7167", "known:1:0-99"],
        }
        for stream in ["known", "orders", "returns", "given-up"]:
            get(f"{url}/streams", {"id": stream})
        get(f"{url}/lists/known/tasks", {"key": "all", "tasks": [{"payload": {}}] * 20})
        get(f"{url}/trackers", {"id": "known"})
        get(f"{url}/trackers/known/items", {"key": "all", "count": 8000})
        settings = Path(__file__).with_name("schemathesis.toml").read_text()
        if os.environ.get("GROUPAGE_TESTS") == "long":
            settings = settings.replace("max-examples = 15", "max-examples = 60")
        config.write_text(
            settings
            + "[dictionaries]\n"
            + "".join(f"{name} = {{ values = {json.dumps(values)} }}\n" for name, values in dictionaries.items())
        )
        document = get(f"{url}/openapi.json")
        done = subprocess.run(
            [
                SCHEMATHESIS, "--config-file", config, "run", f"{url}/openapi.json", "--continue-on-failure",
                "--no-color", "--header", f"Authorization: Bearer {token}", "--report", "har", "--report-har-path", har,
            ],
            # A proxy of the machine's must not see requests to itself.
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NO_PROXY": "*"},
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr}"
    statuses = answers(document, har)
    for operation, counts in statuses.items():
        assert any(200 <= status < 300 for status in counts), f"{operation} only answered {counts}"
    total = sum(sum(counts.values()) for counts in statuses.values())
    report.append(f"HTTP API: {total} requests made from its document, all answered as it says")
    report += [f"  {operation:<30} {dict(sorted(counts.items()))}" for operation, counts in sorted(statuses.items())]


def ask(token: str, url: str, body: dict | None = None) -> dict:
    """What a GET, or a POST of this body, is answered. A proxy of the machine's must not see requests to itself."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = Request(url, json.dumps(body).encode() if body else None, headers)
    with build_opener(ProxyHandler({})).open(request) as response:
        return json.load(response)


def batch_of_a_task(get, url: str, task: str) -> str:
    """Sends a task and waits until it is in a batch."""
    get(f"{url}/tasks", {"tasks": [{"id": task, "payload": {}}]})
    deadline = time.monotonic() + PATIENCE_S
    shown = {}
    while "batch" not in shown:
        assert time.monotonic() < deadline, shown
        time.sleep(0.1)
        try:
            shown = get(f"{url}/tasks/{task}")
        except HTTPError as error:
            assert error.code == 404, error
    return shown["batch"]


def task_with(get, url: str, task: str, payload: dict, what: str) -> str:
    """Sends a task, and waits until it has this."""
    get(f"{url}/tasks", {"tasks": [{"id": task, "payload": payload}]})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            get(f"{url}/tasks/{task}/{what}")
            return task
        except HTTPError as error:
            assert error.code in (404, 409) and time.monotonic() < deadline, error
            time.sleep(0.1)


def answers(document: dict, har: Path) -> dict[str, Counter]:
    """How often each operation of the document gave which status."""
    counts, patterns = {}, []
    for path, operations in document["paths"].items():
        if path == "/openapi.json":
            continue  # read once, and left out by schemathesis for that
        for method in operations:
            counts[f"{method.upper()} {path}"] = Counter()
        patterns.append((path, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))))
    for entry in json.loads(har.read_text())["log"]["entries"]:
        called = urlsplit(entry["request"]["url"]).path
        for path, pattern in patterns:
            operation = f"{entry['request']['method']} {path}"
            if operation in counts and pattern.fullmatch(called):
                counts[operation][entry["response"]["status"]] += 1
    return counts


@pytest.fixture(scope="module")
def api(run) -> Door:
    """For a program that may call all of it; after the run, for what these tests send is none of its work."""
    return Door(run.stack, run.stack.user("caller", "Api"))


def test_the_deployed_function_completes_a_tracker(api, stack):
    tracker = {"id": "over-http", "notify": stack.success_queue}
    assert api.call("POST", "/trackers", tracker)[0] == 201
    assert api.call("POST", "/trackers", tracker)[0] == 200
    status, added = api.call("POST", "/trackers/over-http/items", {"key": "all", "count": 8000})
    assert (status, [group["size"] for group in added["groups"]]) == (200, [7168, 832])
    assert api.call("POST", "/trackers/over-http/seal")[1]["state"] == "sealed"
    acks = {"succeeded": ["over-http:0:0-7167", "over-http:1:0-830"]}
    assert api.call("POST", "/trackers/over-http/acks", acks)[1]["state"] == "sealed"
    query = "outcome=missing&limit=10"
    assert api.call("GET", "/trackers/over-http/items", query=query)[1]["items"] == ["over-http:1:831"]
    last = {"failed": ["over-http:1:831"]}
    assert api.call("POST", "/trackers/over-http/acks", last)[1] == {"acked": 1, "repeated": 0, "state": "completed"}
    shown = api.call("GET", "/trackers/over-http")[1]
    assert (shown["succeeded"], shown["failed"], shown["missing"]) == (7999, 1, 0)
    assert shown["notice_sent"]
    assert api.call("POST", "/trackers/given-up/abandon")[0] == 404


def test_a_task_sent_over_http_is_registered_and_settled(api, stack):
    task = {"id": "sent-over-http", "payload": {"type": "stamp", "country": "FI"}}
    assert api.call("POST", "/tasks", {"tasks": [task]}) == (202, {"ids": ["sent-over-http"]})
    shown = {}

    def settled() -> bool:
        shown.update(api.call("GET", "/tasks/sent-over-http")[1])
        return shown.get("status") == "succeeded"

    stack.eventually("a task sent over HTTP", settled, lambda: shown)
    status, batch = api.call("GET", f"/batches/{shown['batch']}")
    assert (status, batch["status"], batch["members"]) == (200, "settled", ["sent-over-http"])


def test_the_deployed_function_names_the_field_at_fault(api):
    status, problem = api.call("POST", "/tasks", {"tasks": [{"id": "no-payload"}]})
    assert (status, problem["field"]) == (422, "tasks[0].payload")


def test_only_signed_requests_reach_the_function(api):
    assert api.call_unsigned("GET", "/tasks/calm-0") == 403
    assert api.call("GET", "/tasks/calm-0")[0] == 200


def test_the_door_knows_the_operations_and_nothing_else(api):
    """Neither another path nor another method reaches the function, whatever the caller may do."""
    assert api.call("GET", "/")[0] == 404
    assert api.call("DELETE", "/tasks/calm-0")[0] == 404
    assert "openapi" in api.call("GET", "/openapi.json")[1]
