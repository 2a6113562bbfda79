"""Secrets in bodies, on a laptop's stack: they reach the API as its format writes them, and no log, notice or
person."""

import json
from http.server import BaseHTTPRequestHandler

import pytest
import yaml

from local import local_stack
from serving import Served
from sites import Site

VARIABLE = "GROUPAGE_SECRET_OF_BODIES"
SECRET = 'canary "&= of-the-bodies'
WRITTEN = (SECRET, "of-the-bodies", 'canary \\"', "canary%20%22")
"""What of it, in any of the forms in which it is sent, would give it away."""
BODIES = {
    "json": '{"key": {{ secrets.key | tojson }}, "text": {{ items[0].payload.text | tojson }}}',
    "form": "key={{ secrets.key | urlencode }}&text={{ items[0].payload.text | urlencode }}",
}
SENT = {
    "json": lambda text: json.dumps({"key": SECRET, "text": text}, separators=(", ", ": ")),
    "form": lambda text: f"key=canary%20%22%26%3D%20of-the-bodies&text={text}",
}


class Echo(Served):
    """An API that refuses each call, and repeats what it was sent."""

    def __init__(self):
        self.came: dict[str, str] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.came[self.path.strip("/")] = body.decode()
                self.send_response(422)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.serve(Handler)

    def route(self, name: str) -> dict:
        http = {"url": f"{self.url}/{name}", "secrets": {"key": {"env": VARIABLE}}, "body": BODIES[name]}
        return {"name": name, "when": f"format == '{name}'", "target": "'t'", "downstream": {"http": http}}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The API after a task of each format, each of which quotes what a template would fill in."""
    folder, echo = tmp_path_factory.mktemp("bodies"), Echo()
    try:
        routes = {"version": 1, "routes": [echo.route(name) for name in BODIES]}
        variables = {VARIABLE: SECRET, "GROUPAGE_LOG": "trace"}
        with local_stack(folder, yaml.safe_dump(routes), variables) as environment:
            site = Site.of_laptop(folder, environment)
            texts = {"json": "{{ secrets.key }}", "form": "secrets.key"}
            site.send([json.dumps({"id": name, "payload": {"format": name, "text": texts[name]}}) for name in BODIES])
            assert site.settled(list(BODIES)) == {name: ("failed", "http_422") for name in BODIES}
            yield site, echo.came, texts
    finally:
        echo.stop()


@pytest.mark.parametrize("name", BODIES)
def test_the_api_gets_the_secret_as_its_format_writes_it_and_the_payload_as_it_is(refused, name):
    _, came, texts = refused
    assert came[name] == SENT[name](texts[name])


def test_no_excerpt_status_notice_or_log_shows_it(refused):
    site, _, _ = refused
    commands = [("--json", "notices", "--take"), ("status", "routes")]
    for name in BODIES:
        commands += [("--json", "status", "task", name), ("failed", "show", name)]
    shown = {command: site.groupage(*command) for command in commands}
    assert all(code == 0 and said for code, said in shown.values()), shown
    assert "***" in shown["failed", "show", "json"][1] and "***" in shown["failed", "show", "form"][1]
    told = {" ".join(command): said for command, (_, said) in shown.items()} | {"log": site.logs()}
    assert {where for where, said in told.items() if any(form in said for form in WRITTEN)} == set()
