"""What batches are handed to on the emulator: queues, a bus, a state machine, and a function that nobody waits for; and
an HTTP API with a URL for each tenant."""

import gzip
import io
import json
import zipfile
from email.message import Message
from http.server import BaseHTTPRequestHandler

from emulator import Emulator
from serving import Served
from stack import client

KINDS = ("standard", "fifo", "bus", "machine", "later", "tenant")
"""What a task's `to` may be."""

FUNCTION = """
import json

def handler(event, _context):
    print("TOOK " + json.dumps(event))
    raise ValueError("nobody waits for this")
"""


class Handed(Served):
    """Everything that batches are handed to."""

    def __init__(self, emulator: Emulator):
        sqs, iam = client(emulator, "sqs"), client(emulator, "iam")
        role = iam.create_role(RoleName="handed", AssumeRolePolicyDocument='{"Statement": []}')["Role"]["Arn"]

        def queue(name: str, **attributes) -> tuple[str, str]:
            url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            return url, found["Attributes"]["QueueArn"]

        self.standard, standard = queue("handed")
        self.fifo, fifo = queue("handed.fifo", FifoQueue="true")
        self.events, events = queue("handed-events")
        self.forbidden, self.forbidden_arn = queue("handed-forbidden")
        bus = client(emulator, "events")
        self.bus = bus.create_event_bus(Name="handed")["EventBusArn"]
        bus.put_rule(Name="all", EventBusName="handed", EventPattern='{"detail-type": ["Scans"]}')
        bus.put_targets(Rule="all", EventBusName="handed", Targets=[{"Id": "queue", "Arn": events}])
        wait = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}
        self.machine = client(emulator, "stepfunctions").create_state_machine(
            name="handed", definition=json.dumps(wait), roleArn=role
        )["stateMachineArn"]
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("later.py", FUNCTION)
        self.later = client(emulator, "lambda").create_function(
            FunctionName="later", Runtime="python3.12", Handler="later.handler", Role=role,
            Code={"ZipFile": code.getvalue()},
        )["FunctionArn"]
        self.queue_arns = [standard, fifo]
        self.calls: list[tuple[str, Message, dict]] = []
        handler = type("Handler", (_Tenants,), {"calls": self.calls})
        self.serve(handler)

    def parameters(self) -> dict[str, str]:
        return {
            "DownstreamQueueArns": ",".join(self.queue_arns),
            "DownstreamBusArns": self.bus,
            "DownstreamStateMachineArns": self.machine,
        }

    def routes(self) -> str:
        """As text of a routes file, which is YAML, of which JSON is a part."""
        url = f"http://127.0.0.1:{self.port}/t/{{target}}/load?key={{batch}}"
        kinds = {
            "standard": {"sqs": {"queue": self.standard}},
            "fifo": {"sqs": {"queue": self.fifo}},
            "bus": {"eventbridge": {"bus": self.bus, "source": "depot", "detail_type": "Scans"}},
            "machine": {"step_functions": {"state_machine": self.machine}},
            "later": {"lambda": {"function": self.later, "mode": "async"}},
            "tenant": {"http": {"url": url, "headers": {"X-Tenant": "{target}"}, "compress": "gzip"}},
            # The stack's parameters do not name it.
            "forbidden": {"sqs": {"queue": self.forbidden}},
        }
        routes = [
            {
                "name": f"handed-{kind}",
                "when": f"type == 'handed' && to == '{kind}'",
                "target": "depot",
                "batch": {"wait_ms": 500},
                "retry": {"base_ms": 500, "cap_ms": 1000},
                "downstream": downstream,
            }
            for kind, downstream in kinds.items()
        ]
        return "".join(f"\n  - {json.dumps(route)}\n" for route in routes)


class _Tenants(BaseHTTPRequestHandler):
    calls: list
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Encoding"] == "gzip"
        self.calls.append((self.path, self.headers, json.loads(gzip.decompress(body))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass
