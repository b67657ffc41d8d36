"""Sends a user a message from your own server: `python backend.py bob "Your parcel is on its way"`.

QUEUE_URL is the stack's output BackendQueueUrl. docs/backend.md has the environment for `cargo run`."""

import json
import os
import sys

import boto3
from botocore.exceptions import EndpointConnectionError

sqs = boto3.client("sqs")


def tell(user: str, message_id: str, text: str, service: str = "@orders") -> None:
    """Sends a message. After a crash or a lost reply, call it again: the same `message_id` is the same message."""
    message = {
        "to": user,
        "from": service,
        "client_msg_id": message_id,
        "kind": "text",
        "body": text,
    }
    sqs.send_message(
        QueueUrl=os.environ["QUEUE_URL"],
        MessageGroupId=user,
        MessageDeduplicationId=message_id,
        MessageBody=json.dumps(message),
    )


def tell_many(
    messages: list[tuple[str, str, str]], service: str = "@orders"
) -> list[tuple[str, str, str]]:
    """Sends ten messages per call, for a tenth of the price. Returns the rejected messages: call it again with these."""
    left = []
    for start in range(0, len(messages), 10):
        part = messages[start : start + 10]
        entries = [
            {
                "Id": str(place),
                "MessageGroupId": user,
                "MessageDeduplicationId": message_id,
                "MessageBody": json.dumps(
                    {
                        "to": user,
                        "from": service,
                        "client_msg_id": message_id,
                        "kind": "text",
                        "body": text,
                    }
                ),
            }
            for place, (user, message_id, text) in enumerate(part)
        ]
        answer = sqs.send_message_batch(
            QueueUrl=os.environ["QUEUE_URL"], Entries=entries
        )
        left += [part[int(failed["Id"])] for failed in answer.get("Failed", [])]
    return left


if __name__ == "__main__":
    to, body = sys.argv[1:]
    try:
        tell(to, "order-1234-shipped", body)
    except EndpointConnectionError:
        sys.exit(f"no server at {sqs.meta.endpoint_url}")
    left = tell_many(
        [
            (to, f"order-{number}-shipped", f"{body} ({number})")
            for number in range(1, 13)
        ]
    )
    assert not left, left
