"""Sends a user a message from your own server: `python backend.py bob "Your parcel is on its way"`.

QUEUE_URL is the stack's output BackendQueueUrl. docs/backend.md has the environment for `cargo run`."""

import os
import sys

import boto3
from botocore.exceptions import EndpointConnectionError
from pigeonhole_server import Queue

sqs = boto3.client("sqs")
queue = Queue(sqs, os.environ["QUEUE_URL"], "@orders")


def main() -> None:
    to, body = sys.argv[1:]
    # Ten messages per call, for a tenth of the price.
    left = queue.publish(
        {"to": to, "client_msg_id": "order-1234-shipped", "body": body},
        *(
            {"to": to, "client_msg_id": f"order-{number}-shipped", "body": f"{body} ({number})"}
            for number in range(1, 13)
        ),
    )
    assert not left, left


if __name__ == "__main__":
    try:
        main()
    except EndpointConnectionError:
        sys.exit(f"no server at {sqs.meta.endpoint_url}")
