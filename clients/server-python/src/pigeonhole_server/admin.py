"""The operators' requests, which docs/operating.md explains."""

from collections.abc import Iterator
from typing import Any, Literal

from pigeonhole_server.calls import Transport, result

Op = Literal[
    "connections",
    "pending",
    "conversation",
    "find",
    "logged_as",
    "kick",
    "suspend",
    "unsuspend",
    "delete_message",
    "profile",
    "reports",
    "report_close",
    "replay",
    "erase",
    "erase_again",
    "hold",
    "job",
    "repair",
]


class Admin:
    """Makes operators' requests."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def ask(self, op: Op, **fields: Any) -> dict[str, Any]:
        """Returns the result of a request: `admin.ask("suspend", user_id="bob", until="2026-12-24T08:00:00Z")`."""
        return result(self._transport, {"op": op, **fields})

    def reports(self, month: str) -> Iterator[dict[str, Any]]:
        """Yields the open reports of a month such as `2026-11`, of all pages."""
        cursor: dict[str, Any] = {}
        while True:
            page = self.ask("reports", month=month, **cursor)
            yield from page["reports"]
            if page["next_cursor"] is None:
                return
            cursor = {"cursor": page["next_cursor"]}
