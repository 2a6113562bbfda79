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
