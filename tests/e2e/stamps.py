"""A downstream that is a Lambda function: it accepts stamps, but not torn ones."""


def handler(event, _context):
    return {
        "results": [
            {"id": item["id"], "status": "failed", "reason": "torn"}
            if item["payload"].get("torn")
            else {"id": item["id"], "status": "succeeded"}
            for item in event["items"]
        ]
    }
