"""Data at rest, in transit, and how long it stays: what the template says of tables, queues and logs."""

import json
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError
from ministack.core.iam_evaluator import EvalContext, evaluate_resource_policy

import retention
from stack import client
from template import ACCOUNT, REGION, ROOT, Template, functions, people

KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0"


def kept(kind: str, **parameters) -> dict[str, dict]:
    """Tables, queues or log groups, those of the API's door included, with what they are made with."""
    template, door = Template(**parameters), Template("infra/api.yaml", StackName="s", FunctionArn="f", **parameters)
    found = {}
    for source in (template, door):
        found |= {name: source.properties(name) for name in source.of_type(kind)}
    return found


def test_one_parameter_puts_tables_queues_and_logs_under_a_key():
    tables, queues = kept("AWS::DynamoDB::Table", KmsKeyArn=KEY), kept("AWS::SQS::Queue", KmsKeyArn=KEY)
    logs = kept("AWS::Logs::LogGroup", KmsKeyArn=KEY)
    assert (len(tables), len(queues), len(logs)) == (9, 14, 8)
    assert {table["SSESpecification"]["KMSMasterKeyId"] for table in tables.values()} == {KEY}
    assert {queue["KmsMasterKeyId"] for queue in queues.values()} == {KEY}
    assert not any("SqsManagedSseEnabled" in queue for queue in queues.values()), "SQS takes one of the two"
    assert {log["KmsKeyId"] for log in logs.values()} == {KEY}


def test_without_a_key_all_is_encrypted_all_the_same():
    for table in kept("AWS::DynamoDB::Table").values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    for queue in kept("AWS::SQS::Queue").values():
        assert (queue["SqsManagedSseEnabled"], "KmsMasterKeyId" in queue) == (True, False)
    assert not any("KmsKeyId" in log for log in kept("AWS::Logs::LogGroup").values())


def test_the_doors_log_gets_the_stacks_key():
    parameters = Template(KmsKeyArn=KEY, LogRetentionDays=7).properties("ApiDoor")["Parameters"]
    assert (parameters["KmsKeyArn"], parameters["LogRetentionDays"]) == (KEY, 7)


def test_with_a_key_every_function_may_use_it_by_way_of_tables_and_queues_only():
    template = Template(KmsKeyArn=KEY)
    for name in functions(template):
        assert template.properties(f"{name}Role")["ManagedPolicyArns"] == ["KeyPolicy"], name
    key = people(template)["Key"]
    for service, may in [("dynamodb", True), ("sqs", True), ("s3", False)]:
        via = f"{service}.{REGION}.amazonaws.com"
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            assert key.may(action, KEY, kms_ViaService=via) == may, via
    assert not key.may("kms:Decrypt", KEY), "not by the key's own API"
    assert not key.may("kms:ScheduleKeyDeletion", KEY, kms_ViaService=f"sqs.{REGION}.amazonaws.com")


def test_without_a_key_there_is_no_policy_for_one():
    template = Template()
    assert "Key" not in people(template)
    assert not any("ManagedPolicyArns" in template.properties(f"{name}Role") for name in functions(template))


def decision(secure: bool, account: str | None, service: bool = False) -> str:
    """What the queues' policy alone says of a message that is sent."""
    document = Template().properties("QueuePolicy")["PolicyDocument"]
    context = EvalContext(
        principal_arn=f"arn:aws:iam::{account}:role/somebody", principal_type="AssumedRole", principal_account=account,
        action="sqs:SendMessage", resource_arn=f"arn:aws:sqs:{REGION}:{ACCOUNT}:groupage-task", region=REGION,
        secure_transport=secure, service_context={"aws:principalisawsservice": str(service).lower()},
    )
    return evaluate_resource_policy(document, context, service="sqs").decision


def test_queues_refuse_what_is_not_encrypted_on_its_way_and_other_accounts():
    assert decision(secure=True, account=ACCOUNT) == "ImplicitDeny", "it is left to the sender's own policy"
    assert decision(secure=False, account=ACCOUNT) == "Deny"
    assert decision(secure=True, account="444455556666") == "Deny"
    assert decision(secure=True, account=None, service=True) == "ImplicitDeny", "a service that somebody lets in"


def test_the_policy_refuses_a_request_over_plain_http(emulator):
    """On a queue of its own: under that policy nobody gets through to the emulator, which speaks no TLS, any more."""
    sqs = client(emulator, "sqs")
    queue = sqs.create_queue(QueueName="only-with-tls")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="{}")
    document = Template().properties("QueuePolicy")["PolicyDocument"]
    document["Statement"] = [statement for statement in document["Statement"] if statement["Sid"] == "OnlyWithTls"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(document)})
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.send_message(QueueUrl=queue, MessageBody="{}")


def test_the_stacks_queues_have_the_policy(stack):
    for queue in stack.queues():
        [statement] = json.loads(stack.attributes(queue)["Policy"])["Statement"]
        assert (statement["Sid"], statement["Effect"]) == ("OnlyThisAccount", "Deny"), queue


def test_the_queues_policy_is_on_every_queue():
    template = Template()
    assert set(template.properties("QueuePolicy")["Queues"]) == set(template.of_type("AWS::SQS::Queue"))


@pytest.mark.parametrize("said", [{}, {"DeletionProtection": "on"}, {"DeletionProtection": "off"}])
def test_tables_that_outlive_the_stack_are_protected_unless_somebody_says_no(said):
    template = Template(**said)
    for name, resource in template.of_type("AWS::DynamoDB::Table").items():
        outlives = resource.get("DeletionPolicy") == "RetainExceptOnCreate"
        protected = template.properties(name).get("DeletionProtectionEnabled", False)
        assert outlives == (name not in ("SessionTable", "RouteTable")), name
        assert protected == (outlives and said.get("DeletionProtection") != "off"), name
        assert not outlives or resource["UpdateReplacePolicy"] == "Retain", name


def test_a_dead_letter_outlives_what_sent_it_by_ten_days():
    queues = kept("AWS::SQS::Queue")
    for name, queue in queues.items():
        if "RedrivePolicy" in queue:
            dead = queues[name.replace("Queue", "DeadLetterQueue")]
            longer = timedelta(seconds=dead["MessageRetentionPeriod"] - queue["MessageRetentionPeriod"])
            assert longer == timedelta(days=10), name


def test_the_reference_says_how_long_each_thing_lives():
    written = (ROOT / "docs/reference/retention.md").read_text()
    assert written == retention.page(), (
        "write it anew: target/tools/stack/bin/python tests/e2e/retention.py > docs/reference/retention.md"
    )


def test_what_the_reference_says_of_tables_is_what_expires_in_them():
    """Tables without an expiry are those whose removal is sweep's, or a person's."""
    template = Template()
    expiring = {
        name for name in template.of_type("AWS::DynamoDB::Table") if "TimeToLiveSpecification" in template.properties(name)
    }
    assert set(template.of_type("AWS::DynamoDB::Table")) - expiring == {"TrackerTable", "StreamTable", "RouteTable"}
    assert "IDLE_MS: u64 = 7 * DAY_MS" in (ROOT / "shared/core/src/domain/time.rs").read_text()
    sessions = (ROOT / "shared/aws/src/tables/sessions.rs").read_text()
    assert "FORGOTTEN_MS: u64 = 24 * 60 * 60 * 1000" in sessions
