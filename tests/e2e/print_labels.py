"""What `groupage work` runs for each batch of labels: a torn one fails for good, the others are printed."""

import json
import sys

batch = json.load(sys.stdin)
print(
    json.dumps(
        {
            "results": [
                {"id": item["id"], "status": "failed", "reason": "torn"}
                if item["payload"].get("torn")
                else {"id": item["id"], "status": "succeeded"}
                for item in batch["items"]
            ]
        }
    )
)
