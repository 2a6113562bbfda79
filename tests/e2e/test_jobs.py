"""A downstream that answers later: its jobs are looked at until they end, a restart of the stack loses none of them,
and the commands say what is under way."""

import json
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from local import local_stack
from serving import Served
from sites import Site

ROUTE = """
version: 1
routes:
  - name: imports
    target: to
    batch: {{ max_items: 3, wait_ms: 200 }}
    limits: {{ in_flight_per_target: 1 }}
    notify: {{ success: none, failure: none }}
    downstream:
      http:
        url: "{url}/imports"
        headers: {{ Authorization: "Bearer {{secrets.key}}" }}
        secrets: {{ key: {{ env: GROUPAGE_SECRET_OF_TESTS }} }}
        job:
          url: headers.location
          ended: "body.state == 'ended'"
          results: body.results
          every_s: 2
"""
SECRET = "of-the-tests"


class Importer(Served):
    """Begins a job for each call, and ends jobs when the test says so. It counts what it gets."""

    def __init__(self):
        self.jobs: dict[str, list[str]] = {}
        """The items of each job, by the call's key."""
        self.begun: list[str] = []
        self.looks: list[str] = []
        self.ended = False
        self.foreign: list[str] = []
        """The headers of requests without the secret."""

    def post(self, headers, body: dict) -> tuple[int, dict, dict]:
        key = headers["Idempotency-Key"]
        self.begun.append(key)
        self.jobs[key] = [item["id"] for item in body["items"]]
        return 202, {}, {"Location": f"/imports/{key}"}

    def get(self, path: str) -> tuple[int, dict, dict]:
        self.looks.append(path)
        _, _, key, *rest = path.split("/")
        if key not in self.jobs:
            return 404, {}, {}
        if rest:
            return 200, {"results": [self._result(id) for id in self.jobs[key]]}, {}
        if not self.ended:
            return 200, {"state": "running"}, {}
        return 200, {"state": "ended", "results": f"{self.url}{path}/results"}, {}

    @staticmethod
    def _result(id: str) -> dict:
        if id == "bad":
            return {"id": id, "status": "failed", "reason": "no_such_object"}
        return {"id": id, "status": "succeeded", "output": f"row of {id}"}


@contextmanager
def importer():
    outer = Importer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*outer.post(self.headers, body))

        def do_GET(self):
            self._answer(*outer.get(self.path))

        def _answer(self, status, body, headers):
            if self.headers["Authorization"] != f"Bearer {SECRET}":
                outer.foreign.append(str(self.headers))
            sent = json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_):
            pass

    outer.serve(Handler)
    try:
        yield outer
    finally:
        outer.stop()


def wait_until(holds, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.1)


def body(id: str) -> str:
    return json.dumps({"id": id, "payload": {"to": "crm"}})


def test_a_job_outlives_its_stack_and_settles_each_task_by_its_results(tmp_path):
    ids, variables = ["a", "bad", "b"], {"GROUPAGE_SECRET_OF_TESTS": SECRET}
    with importer() as api:
        routes = ROUTE.format(url=api.url)
        with local_stack(tmp_path, routes, variables) as environment:
            site = Site.of_laptop(tmp_path, environment)
            site.send([body(id) for id in ids])
            wait_until(lambda: api.looks)
            code, said = site.groupage("status", "task", "a")
            assert code == 0 and "its job at the downstream, under way since" in said, said
            assert len(api.begun) == 1
        seen = len(api.looks)
        # Nothing runs meanwhile; the job goes on at its API.
        with local_stack(tmp_path, routes, variables) as environment:
            site = Site.of_laptop(tmp_path, environment)
            wait_until(lambda: len(api.looks) > seen)
            site.send([body("late")])
            time.sleep(3)
            assert len(api.begun) == 1, "the permit of the Target is the job's"
            api.ended = True
            settled = site.settled([*ids, "late"])
            assert settled == {
                "a": ("succeeded", None),
                "b": ("succeeded", None),
                "bad": ("failed", "no_such_object"),
                "late": ("succeeded", None),
            }
            assert json.loads(site.groupage("--json", "status", "task", "a")[1])["output"] == "row of a"
            assert SECRET not in site.logs()
        assert len(api.begun) == 2, "each batch is called once"
        results = [look for look in api.looks if look.endswith("/results")]
        assert len(results) == 2 and api.foreign == []


def test_a_job_that_is_forgotten_fails_its_tasks_and_is_not_begun_again(tmp_path):
    with importer() as api:
        with local_stack(tmp_path, ROUTE.format(url=api.url), {"GROUPAGE_SECRET_OF_TESTS": SECRET}) as environment:
            site = Site.of_laptop(tmp_path, environment)
            site.send([body("a")])
            wait_until(lambda: api.looks)
            api.jobs.clear()
            assert site.settled(["a"]) == {"a": ("failed", "job_not_found")}
        assert len(api.begun) == 1
