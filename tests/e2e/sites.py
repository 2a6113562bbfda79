"""A stack that runs somewhere, as those see it that send to it."""

import subprocess
import time
from pathlib import Path

import boto3

from stack import GROUPAGE, PATIENCE_S


class Site:
    """Its queues, its tables, and the command on it."""

    def __init__(self, sqs, dynamodb, tasks: str, rejected: str, table: str, environment: dict, arguments: tuple, logs):
        self._sqs, self._dynamodb, self._tasks, self._rejected, self._table = sqs, dynamodb, tasks, rejected, table
        self._environment, self._arguments, self.logs = environment, arguments, logs

    @classmethod
    def of_laptop(cls, folder: Path, environment: dict[str, str]) -> "Site":
        """That of `local_stack`."""
        keys = {
            "region_name": environment["AWS_REGION"], "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        }
        return cls(
            boto3.client("sqs", endpoint_url=environment["AWS_ENDPOINT_URL_SQS"], **keys),
            boto3.client("dynamodb", endpoint_url=environment["AWS_ENDPOINT_URL_DYNAMODB"], **keys),
            environment["GROUPAGE_TASK_QUEUE"], environment["GROUPAGE_REJECTED_QUEUE"], environment["GROUPAGE_TASK_TABLE"],
            {"PATH": "/usr/bin:/bin", **environment}, (), lambda: (folder / "output").read_text(),
        )

    def send(self, bodies: list[str]) -> None:
        """Sends messages, in as large requests as the bodies allow."""
        while bodies:
            size = next((n for n in range(1, min(10, len(bodies))) if sum(len(b.encode()) for b in bodies[: n + 1]) > 250_000), 10)
            entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[:size])]
            answered = self._sqs.send_message_batch(QueueUrl=self._tasks, Entries=entries)
            assert not answered.get("Failed"), answered["Failed"]
            bodies = bodies[size:]

    def rejected(self, number: int) -> dict[str, dict]:
        """Takes this many messages from the rejected queue: their attributes by body."""
        taken = {}
        for _ in self._patiently(lambda: f"{len(taken)} of {number} messages were rejected"):
            answered = self._sqs.receive_message(
                QueueUrl=self._rejected, MaxNumberOfMessages=10, MessageAttributeNames=["All"], WaitTimeSeconds=1
            )
            for message in answered.get("Messages", []):
                attributes = message["MessageAttributes"].items()
                taken[message["Body"]] = {name: value["StringValue"] for name, value in attributes}
                self._sqs.delete_message(QueueUrl=self._rejected, ReceiptHandle=message["ReceiptHandle"])
            if len(taken) >= number:
                return taken

    def ended(self, id: str) -> tuple[str, str | None] | None:
        """Status and reason of a task that is settled."""
        found = self._dynamodb.get_item(
            TableName=self._table, Key={"Id": {"S": id}}, ProjectionExpression="#status, Reason",
            ExpressionAttributeNames={"#status": "Status"},
        ).get("Item", {})
        status = found.get("Status", {}).get("S")
        return (status, found.get("Reason", {}).get("S")) if status in ("succeeded", "failed") else None

    def settled(self, ids: list[str]) -> dict[str, tuple[str, str | None]]:
        """Waits until these tasks are settled, for one after the other: status and reason of each."""
        settled, left = {}, list(ids)
        for _ in self._patiently(lambda: f"{left} do not settle"):
            while left and (ended := self.ended(left[0])):
                settled[left.pop(0)] = ended
            if not left:
                return settled

    @staticmethod
    def _patiently(seen):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            yield
            time.sleep(0.1)
        raise AssertionError(f"waited in vain: {seen()}")

    def groupage(self, *arguments) -> tuple[int, str]:
        """Runs the command on this stack: its exit code, and what it said."""
        done = subprocess.run(
            [GROUPAGE, *arguments, *self._arguments], env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout + done.stderr
