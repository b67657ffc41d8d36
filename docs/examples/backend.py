"""Tells a user something, from a server of your own: `python backend.py bob "Your parcel is on its way"`.

QUEUE_URL is the stack's output BackendQueueUrl. For `cargo run` it is the queue_url of GET http://127.0.0.1:3001/local, and
AWS_ENDPOINT_URL_SQS is http://127.0.0.1:3001/sqs."""

import json
import os
import sys

import boto3

sqs = boto3.client("sqs")


def tell(user: str, message_id: str, text: str, service: str = "@orders") -> None:
    """The same `message_id` again is the same message: so whoever dies in between, or gets no answer, just calls it again."""
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
    """Ten at once, for a tenth of the price. What it gives back was not taken: call it again with that."""
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
    tell(to, "order-1234-shipped", body)
    left = tell_many(
        [
            (to, f"order-{number}-shipped", f"{body} ({number})")
            for number in range(1, 13)
        ]
    )
    assert not left, left
