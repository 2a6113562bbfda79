"""How long each thing lives, from the template, as a page of the reference.

`python tests/e2e/retention.py > docs/reference/retention.md` writes the page anew.
"""

from template import Template, parsed

TABLES = {
    "TaskTable": (
        "a task with its payload; a tombstone without, once it is erased",
        "until it is settled, then {RetentionDays} days",
        "`RetentionDays`",
    ),
    "BatchTable": (
        "a batch: ids of its members, its outcome, their outputs",
        "until all is done, then {RetentionDays} days; outputs 90 days longer",
        "`RetentionDays`",
    ),
    "BatchLockTable": ("a Target's lock, a gate", "7 days after its last use", ""),
    "SessionTable": ("a worker's session", "until it ends, at most a day after it expired", "`SessionExpiryMs`"),
    "TrackerTable": (
        "a tracker and its bits",
        "until it ends, then {RetentionDays} days; it ends by itself {AbandonOpenDays} days after the last call while it is open, {AbandonSealedDays} days after the last ack once it is sealed",
        "`RetentionDays`, `AbandonOpenDays`, `AbandonSealedDays`",
    ),
    "ListTable": (
        "a list; the tasks on it with their payloads",
        "a task until it is released or discarded; an empty list {RetentionDays} days; a list with a time to live until nobody used it for so long",
        "`RetentionDays`, and `--ttl` of the list",
    ),
    "LaneTable": ("an order key, and who waits in it", "{RetentionDays} days after the last task left it", "`RetentionDays`"),
    "StreamTable": (
        "a stream, its bits, offsets of unsettled events",
        "while it is open; {RetentionDays} days after it is over",
        "`RetentionDays`",
    ),
    "RouteTable": ("each version of the routes", "as long as the stack", ""),
}
"""What a table holds, how long, and the parameter that says so."""

DAY_S = 24 * 60 * 60


def rows() -> list[tuple[str, str, str, str]]:
    """What, where, how long, and the parameter."""
    template = Template()
    said = {name: parameter.get("Default") for name, parameter in parsed()["Parameters"].items()}
    found = [
        (what, name, how_long.format(**said), parameter)
        for name in template.of_type("AWS::DynamoDB::Table")
        for what, how_long, parameter in [TABLES[name]]
    ]
    for name in template.of_type("AWS::SQS::Queue"):
        days = template.properties(name)["MessageRetentionPeriod"] // DAY_S
        what = {"RejectedQueue": "a rejected message with its payload", "NotificationQueue": "a notice, without a payload"}
        holds_payload = name in ("TaskQueue", "TaskDeadLetterQueue", "InOrderQueue", "InOrderDeadLetterQueue")
        other = "a task message with its payload" if holds_payload else "a message between steps: ids only"
        found.append((what.get(name, other), name, f"until it is handled, at most {days} days", ""))
    for name in [*template.of_type("AWS::Logs::LogGroup"), *Template("infra/api.yaml").of_type("AWS::Logs::LogGroup")]:
        found.append(("log lines, without payloads", name, f"{said['LogRetentionDays']} days", "`LogRetentionDays`"))
    return found


def page() -> str:
    """The whole page."""
    return "\n".join([
        "# How long things live",
        "",
        "With the parameters' defaults. A test compares this page with `template.yaml`; `python tests/e2e/retention.py >",
        "docs/reference/retention.md` writes it anew, with the Python of `target/tools/stack`. DynamoDB removes an item within",
        "days after it has expired. Backups for point-in-time recovery reach back 35 days, so a removed item is gone from them",
        "35 days later. Metrics are CloudWatch's: it keeps them for 15 months. `groupage erase` takes what a task said before",
        "its time: see [Data](../guides/data.md#what-is-held-about-a-task-and-erasing-it).",
        "",
        "| what | where | how long | parameter |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows()),
        "",
    ])


if __name__ == "__main__":
    print(page(), end="")
