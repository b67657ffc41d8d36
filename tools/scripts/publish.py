"""Has a service write to a user of the local server: `just publish bob "text"`. PIGEONHOLE_LOCAL is its address, if it
has another."""

import json
import os
import sys
import urllib.request
import uuid

LOCAL = os.environ.get("PIGEONHOLE_LOCAL", "http://127.0.0.1:3001")


def main():
    to, body, *rest = sys.argv[1:]
    message_id = str(uuid.uuid4())
    service = rest[0] if rest else "@shop"
    message = {"to": to, "from": service, "client_msg_id": message_id, "kind": "text", "body": body}
    with urllib.request.urlopen(f"{LOCAL}/local", timeout=60) as answer:
        url = json.load(answer)["queue_url"]
    request = {
        "QueueUrl": url,
        "MessageGroupId": to,
        "MessageDeduplicationId": message_id,
        "MessageBody": json.dumps(message),
    }
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(request).encode(), headers), timeout=60
    ) as answer:
        print(json.load(answer)["MessageId"])


if __name__ == "__main__":
    main()
