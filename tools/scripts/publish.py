"""Has a service write to a user of the local server: `just publish bob "text"`."""

import json
import sys
import uuid

from local_server import get, pages


def main():
    to, body, *rest = sys.argv[1:]
    message_id = str(uuid.uuid4())
    service = rest[0] if rest else "@shop"
    message = {"to": to, "from": service, "client_msg_id": message_id, "kind": "text", "body": body}
    url = pages()["queue_url"]
    if not url:
        sys.exit("the server has no queue: it was started with BackendMessages=off")
    request = {
        "QueueUrl": url,
        "MessageGroupId": to,
        "MessageDeduplicationId": message_id,
        "MessageBody": json.dumps(message),
    }
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
    print(json.loads(get(url, json.dumps(request), headers))["MessageId"])


if __name__ == "__main__":
    main()
