"""Messages of a service to any users, by the queue."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict

from pigeonhole_server.types import (
    BODY_BYTES_MAX,
    CLIENT_MSG_ID_CHARS_MAX,
    FRAME_BYTES_MAX,
    Data,
    ProfileChange,
)

# SQS's maximum of entries in a batch.
BATCH_ENTRIES_MAX = 10
# 10 messages of the maximal size would be above SQS's former limit of 256 KiB.
BATCH_BYTES_MAX = 256 * 1024


class QueueMessage(TypedDict):
    to: str
    client_msg_id: str
    body: str
    kind: NotRequired[str]
    data: NotRequired[Data]


class NotQueued(TypedDict):
    """A message that SQS did not take, with SQS's reason."""

    message: QueueMessage
    reason: str


class Queue:
    """Queues messages by boto3's client of SQS. `url` is the stack's output `BackendQueueUrl`."""

    def __init__(self, sqs: Any, url: str, service: str):
        self._sqs, self._url, self._service = sqs, url, service

    def publish(self, *messages: QueueMessage) -> list[NotQueued]:
        """Queues messages, and returns those that SQS did not take.

        Call it again with these: the same `client_msg_id` is the same message. Raises a ValueError, before it queues
        any, if the server would refuse one."""
        entries = [self._entry(place, message) for place, message in enumerate(messages)]
        left: list[NotQueued] = []
        for batch in _batches(entries):
            reply = self._sqs.send_message_batch(QueueUrl=self._url, Entries=batch)
            for failed in reply.get("Failed", []):
                reason = f"{failed['Code']}: {failed.get('Message', '')}"
                left.append({"message": messages[int(failed["Id"])], "reason": reason})
        return left

    def profile(self, user: str, changes: ProfileChange) -> None:
        """Queues a change of a profile. The change that is sent later stays."""
        self._sqs.send_message(
            QueueUrl=self._url,
            MessageGroupId=user,
            MessageDeduplicationId=str(uuid.uuid4()),
            MessageBody=_json({"profile": user, "set": changes}),
        )

    def _entry(self, place: int, message: QueueMessage) -> dict[str, str]:
        to, key = message["to"], message["client_msg_id"]
        body = _json({"kind": "text", **message, "from": self._service})
        _check(to != "" and not to.startswith("@"), "to: must be a user")
        _check(re.fullmatch("[!-~]+", key) is not None, "client_msg_id: must have visible ASCII characters only")
        _check(len(key) <= CLIENT_MSG_ID_CHARS_MAX, "client_msg_id: is too long")
        _check(not key.startswith("operator:"), "client_msg_id: must not begin with operator:")
        _check(len(message["body"].encode()) <= BODY_BYTES_MAX, f"body: has more than {BODY_BYTES_MAX} bytes")
        _check(len(body.encode()) <= FRAME_BYTES_MAX, f"body: as JSON, is above {FRAME_BYTES_MAX} bytes")
        return {"Id": str(place), "MessageGroupId": to, "MessageDeduplicationId": key, "MessageBody": body}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _batches(entries: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    batch: list[dict[str, str]] = []
    size = 0
    for entry in entries:
        length = len(entry["MessageBody"].encode())
        if batch and (len(batch) == BATCH_ENTRIES_MAX or size + length > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch
