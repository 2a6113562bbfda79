"""What no step can ever handle ends in a dead-letter queue, and its neighbours go on."""

import json


def test_a_message_that_no_step_understands_ends_in_its_dead_letter_queue(run):
    stack, sqs = run.stack, run.stack.client("sqs")
    url = stack.queue("ElectQueue")
    seconds = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    # Ten deliveries, one visibility timeout apart, would take a quarter of an hour.
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
    poison = json.dumps({"not": "an election"})
    stack.send([poison], queue="ElectQueue")
    [dead] = stack.take("ElectDeadLetterQueue", 1)
    sqs.set_queue_attributes(QueueUrl=url, Attributes=seconds)
    assert dead["Body"] == poison

    neighbour = {"id": "after-poison", "payload": {"type": "parcel", "truck": "calm", "weight": 1}}
    stack.send([json.dumps(neighbour)])
    stack.eventually("the next task to succeed", lambda: stack.status("after-poison") == "succeeded", lambda: "")


def test_a_message_that_is_sent_again_keeps_its_tenant(run):
    """Its message group, on queues that keep no order."""
    stack, sqs = run.stack, run.stack.client("sqs")
    body = json.dumps({"of": "a tenant"})
    with stack.unread("ElectQueue"):
        sqs.send_message(QueueUrl=stack.queue("ElectDeadLetterQueue"), MessageBody=body, MessageGroupId="tenant-1")
        stack.groupage("redrive", "send", "elect-dlq")
        came = []

        def comes():
            answer = sqs.receive_message(
                QueueUrl=stack.queue("ElectQueue"), MaxNumberOfMessages=10, WaitTimeSeconds=1, AttributeNames=["All"],
            )
            came.extend(message for message in answer.get("Messages", []) if message["Body"] == body)
            return came

        stack.eventually("the message to be in its queue again", comes, lambda: "it did not come")
        sqs.delete_message(QueueUrl=stack.queue("ElectQueue"), ReceiptHandle=came[0]["ReceiptHandle"])
    assert came[0]["Attributes"]["MessageGroupId"] == "tenant-1"
