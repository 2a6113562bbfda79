"""`groupage doctor` on a stack whose queues are LocalStack's: well at first, and then each planted fault is found by
the name of its check. Functions, mappings and alarms are AWS's, so faults of those make no sense here; a lock that was
left is handed on by `groupage steps` within a second."""

import pytest

from localstack import mixed_stack
from test_doctor import TASK, ended, start

ROUTES = """\
version: 1
routes:
  - { name: labels, target: printer, downstream: pull }
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    with mixed_stack(tmp_path_factory.mktemp("mixed"), ROUTES) as mixed:
        yield mixed


def look(mixed):
    """What the doctor finds: its exit code, and what is not well, by check."""
    code, report = ended(start(mixed.environment))
    return code, {finding["check"]: finding for finding in report["findings"] if finding["verdict"] != "well"}


def send(mixed, queue):
    mixed.sqs.send_message(QueueUrl=mixed.urls[queue], MessageBody="{}")


def empty(mixed, queue):
    mixed.sqs.purge_queue(QueueUrl=mixed.urls[queue])


def put(mixed, table, item):
    mixed.dynamodb().put_item(TableName=mixed.tables[f"GROUPAGE_{table}_TABLE"], Item=item)


def remove(mixed, table, item, key):
    mixed.dynamodb().delete_item(TableName=mixed.tables[f"GROUPAGE_{table}_TABLE"], Key={key: item[key]})


def expire(mixed, is_on):
    mixed.dynamodb().update_time_to_live(
        TableName=mixed.tables["GROUPAGE_BATCH_TABLE"],
        TimeToLiveSpecification={"AttributeName": "Ttl", "Enabled": is_on},
    )


def spoil_routes(mixed):
    table = mixed.tables["GROUPAGE_ROUTE_TABLE"]
    key = {"Name": {"S": "routes"}}
    mixed.kept = mixed.dynamodb().get_item(TableName=table, Key=key)["Item"]
    put(mixed, "ROUTE", mixed.kept | {"Yaml": {"S": "version: 1\nroutes: 7\n"}, "Digest": {"S": "other"}})


FAULTS = {
    "a visibility that is too short": (
        "visibility", "handle", lambda m: m.set("handle", VisibilityTimeout="30"),
        lambda m: m.set("handle", VisibilityTimeout="80"),
    ),
    "a queue without a dead-letter queue": (
        "redrive", "elect", lambda m: m.set("elect", RedrivePolicy=""),
        lambda m: m.set("elect", RedrivePolicy=m.redrive("elect")),
    ),
    "a dead letter": (
        "dead-letters", "elect-dlq", lambda m: send(m, "elect-dead"), lambda m: empty(m, "elect-dead"),
    ),
    "a rejected message": (
        "dead-letters", "rejected", lambda m: send(m, "rejected"), lambda m: empty(m, "rejected"),
    ),
    "a table without time to live": ("expiry", "batches", lambda m: expire(m, False), lambda m: expire(m, True)),
    "routes that cannot be read": ("routes", None, spoil_routes, lambda m: put(m, "ROUTE", m.kept)),
    "a task of a route that is gone": (
        "waiting", None, lambda m: put(m, "TASK", TASK), lambda m: remove(m, "TASK", TASK, "Id"),
    ),
}
"""By what is planted: the check that finds it, of what, how it is planted, and how it is mended."""


def test_a_stack_with_localstacks_queues_is_found_well(mixed):
    assert look(mixed) == (0, {})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_name_of_its_check(mixed, fault):
    check, of, plant, mend = FAULTS[fault]
    plant(mixed)
    try:
        code, ill = look(mixed)
    finally:
        mend(mixed)
    assert code == 1
    assert ill[check]["verdict"] == "wrong", ill
    assert of is None or of in ill[check]["of"], ill[check]


def test_a_stack_is_well_again_when_its_faults_are_mended(mixed):
    assert look(mixed) == (0, {})
