"""Events of the server: their check, batches of SQS, and what lacks."""

import json
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# An event: `type` is "entry", "report" or "job". docs/backend.md has their fields.
Event = dict[str, Any]

_log = logging.getLogger("pigeonhole_server")


class NotAnEventError(ValueError):
    """A text that is no event of this version."""


def parse_event(got: Any) -> Event | None:
    """Returns the event in what your function or worker got: a body of SQS, as text or parsed, or EventBridge's object.

    Returns None for a type that this version does not know: a later server may send it."""
    if isinstance(got, str | bytes):
        try:
            got = json.loads(got)
        except ValueError as error:
            raise NotAnEventError("the event is no JSON") from error
    event = _object(got, "the event")
    if "detail" in event:
        event = _object(event["detail"], "detail")
    _check(event.get("v") == 1, "v", "1")
    for name in ("id", "stack", "type"):
        _check_text(event, name)
    match event["type"]:
        case "entry":
            conversation = _object(event.get("conversation"), "conversation")
            message = _object(event.get("message"), "message")
            for name in ("conversation_id", "kind"):
                _check_text(conversation, name, "conversation.")
            is_same = message.get("conversation_id") == conversation["conversation_id"]
            _check(is_same, "message.conversation_id", "the conversation's")
            seq = message.get("seq")
            _check(type(seq) is int and seq > 0, "message.seq", "a number from 1 on")
            # An entry that the server can't read has its place alone.
            for name in ("sender_id", "kind", "sent_at") if "kind" in message else ():
                _check_text(message, name, "message.")
        case "report":
            _check_text(event, "report_id")
            _check_text(event, "reporter_id")
        case "job":
            _check_text(event, "job_id")
            _check_text(event, "state")
        case _:
            return None
    return event


def each_of_batch(batch: dict[str, Any], take: Callable[[Event], object]) -> dict[str, list[dict[str, str]]]:
    """Calls `take` for each event of a batch of SQS, in order.

    Returns the failed records, as Lambda wants them of a function. After a failure `take` gets no further entry of that
    conversation. The event source mapping needs `ReportBatchItemFailures`."""
    failed, stopped = [], set()
    for record in batch["Records"]:
        key = record["messageId"]
        try:
            event = parse_event(record["body"])
            if event is None:
                continue
            key = event["message"]["conversation_id"] if event["type"] == "entry" else event["id"]
            if key not in stopped:
                take(event)
                continue
        except Exception:
            _log.exception("the event of %s failed", record["messageId"])
        stopped.add(key)
        failed.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failed}


class Hole(NamedTuple):
    """Entries that have not come."""

    conversation_id: str
    from_seq: int
    to_seq: int


class _Followed:
    def __init__(self, begin: int, last: int):
        # Below `begin` nothing is known. All entries from there up to `last` have come, and those of `above`, each with
        # the time at which it came.
        self.begin, self.last = begin, last
        self.above: dict[int, float] = {}


class Follower:
    """Knows which entries have come, by their dense `seq`: entries can come twice, late, or never.

    A conversation begins with its first entry here, or behind `lasts`."""

    def __init__(self, lasts: dict[str, int] | None = None):
        self._followed = {conversation: _Followed(0, last) for conversation, last in (lasts or {}).items()}

    def has(self, event: Event) -> bool:
        """Reports whether the entry has come before. An entry from before the beginning has not."""
        conversation, seq = _place(event)
        followed = self._followed.get(conversation)
        return followed is not None and seq > followed.begin and (seq <= followed.last or seq in followed.above)

    def add(self, event: Event, now: float | None = None) -> None:
        """Notes an entry that you have finished with."""
        conversation, seq = _place(event)
        followed = self._followed.setdefault(conversation, _Followed(seq - 1, seq - 1))
        if seq <= followed.last:
            return
        followed.above.setdefault(seq, time.time() if now is None else now)
        while followed.last + 1 in followed.above:
            followed.last += 1
            del followed.above[followed.last]

    def holes(self, since: float | None = None) -> list[Hole]:
        """Returns the holes below entries that came before `since`, by default a minute ago.

        Pass them to the operators' request `replay`: `admin.ask("replay", **hole._asdict())`."""
        since = time.time() - 60 if since is None else since
        holes = []
        for conversation, followed in self._followed.items():
            below = followed.last
            for seq, came in sorted(followed.above.items()):
                if seq > below + 1 and came <= since:
                    holes.append(Hole(conversation, below + 1, seq - 1))
                below = seq
        return holes

    def lasts(self) -> dict[str, int]:
        """Returns the `seq` of each conversation up to which no entry lacks: store them, and begin there again."""
        return {conversation: followed.last for conversation, followed in self._followed.items()}


def _place(event: Event) -> tuple[str, int]:
    return event["message"]["conversation_id"], event["message"]["seq"]


def _object(value: Any, name: str) -> dict[str, Any]:
    _check(isinstance(value, dict), name, "an object")
    return value


def _check_text(fields: dict[str, Any], name: str, prefix: str = "") -> None:
    _check(isinstance(fields.get(name), str) and fields[name] != "", prefix + name, "a text")


def _check(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise NotAnEventError(f"{name} must be {what}")
