"""LocalStack's SQS: one process on a free loopback port, and a stack of Groupage whose queues are there."""

import json
import os
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import boto3

from emulator import REGION, free_port
from local import local_stack
from processes import Process
from stack import GROUPAGE, ROOT

PYTHON = ROOT / "target/tools/localstack/bin/python"


@contextmanager
def localstack(home: Path):
    """Runs it, and gives its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "FILESYSTEM_ROOT": str(home), "SERVICES": "sqs",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}", "DISABLE_EVENTS": "1", "SKIP_SSL_CERT_DOWNLOAD": "1",
        # No DNS server, which would ask others about a name of its maker.
        "DNS_ADDRESS": "0",
        # Queues say where they are; a name of the network would have to be looked up.
        "SQS_ENDPOINT_STRATEGY": "off", "LOCALSTACK_HOST": f"127.0.0.1:{port}",
    }
    log = home / "localstack.log"
    process = Process([PYTHON, "-m", "localstack.runtime.main"], log, env=environment, cwd=home)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{address}/_localstack/health", timeout=5).close()
                break
            except OSError:
                process.check()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
        yield address
        process.check()
    finally:
        process.end()


VISIBLE_S = {"task": 35, "in-order": 35, "elect": 20, "group": 65, "handle": 80, "long-handle": 905}
"""How long a received message of each step's queue stays hidden: longer than its step takes, as on a laptop."""


class Mixed:
    """The tables of `groupage local`, LocalStack's queues, and the steps of `groupage steps`."""

    def __init__(self, address: str, environment: dict[str, str]):
        self.sqs = boto3.client(
            "sqs", endpoint_url=address, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
        )
        self.urls = {}
        for name, hidden_s in VISIBLE_S.items():
            suffix = ".fifo" if name == "in-order" else ""
            fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if suffix else {}
            self.urls[f"{name}-dead"] = self._create(f"groupage-{name}-dead{suffix}", fifo)
            hidden = {"VisibilityTimeout": str(hidden_s), "RedrivePolicy": self.redrive(name)}
            self.urls[name] = self._create(f"groupage-{name}{suffix}", fifo | hidden)
        for name in ("rejected", "notification"):
            self.urls[name] = self._create(f"groupage-{name}", {})
        queues = {
            f"GROUPAGE_{name.upper().replace('-', '_')}_QUEUE": url
            for name, url in self.urls.items() if not name.endswith("-dead")
        }
        self.tables = environment
        self.environment = environment | queues | {"AWS_ENDPOINT_URL_SQS": address}

    def _create(self, name: str, attributes: dict[str, str]) -> str:
        return self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def redrive(self, name: str) -> str:
        """The redrive policy of a step's queue."""
        dead = self.sqs.get_queue_attributes(QueueUrl=self.urls[f"{name}-dead"], AttributeNames=["QueueArn"])
        return json.dumps({"deadLetterTargetArn": dead["Attributes"]["QueueArn"], "maxReceiveCount": 10})

    def set(self, queue: str, **attributes: str) -> None:
        self.sqs.set_queue_attributes(QueueUrl=self.urls[queue], Attributes=attributes)

    def dynamodb(self):
        """A client of the tables' engine, which knows its own key only."""
        return boto3.client(
            "dynamodb", endpoint_url=self.tables["AWS_ENDPOINT_URL_DYNAMODB"], region_name=REGION,
            aws_access_key_id=self.tables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.tables["AWS_SECRET_ACCESS_KEY"],
        )


@contextmanager
def mixed_stack(home: Path, routes: str):
    """Runs LocalStack, the tables, and the steps."""
    file = home / "mixed.yaml"
    file.write_text(routes)
    (home / "tables").mkdir()
    with localstack(home) as address, local_stack(home / "tables") as environment:
        mixed = Mixed(address, environment)
        subprocess.run([GROUPAGE, "push", file], env=mixed.environment, check=True, capture_output=True)
        steps = Process([GROUPAGE, "steps"], home / "steps.log", env=mixed.environment)
        try:
            yield mixed
            steps.check()
        finally:
            steps.end()
