"""A sender that is no user."""

from typing import Any, Unpack

from pigeonhole_server.calls import Transport, result
from pigeonhole_server.types import (
    Add,
    AddResult,
    CreateGroup,
    CreateResult,
    ProfileChange,
    ProfileResult,
    Remove,
    Restrict,
    Send,
    SendResult,
    Typing,
    Update,
)


class Service:
    """A service such as `@orders`. Each method returns when the server has stored the change."""

    def __init__(self, id: str, transport: Transport):  # noqa: A002
        self.id = id
        self._transport = transport

    def send(self, **message: Unpack[Send]) -> SendResult:
        return self._ask("send", {"kind": "text", **message})

    def create_group(self, **group: Unpack[CreateGroup]) -> CreateResult:
        return self._ask("create_group", {**group})

    def add(self, **members: Unpack[Add]) -> AddResult:
        return self._ask("add", {**members})

    def remove(self, **member: Unpack[Remove]) -> SendResult:
        return self._ask("remove", {**member})

    def restrict(self, **member: Unpack[Restrict]) -> SendResult:
        """Lets a member only read until a time. The service must be an admin of the group."""
        return self._ask("restrict", {**member})

    def update(self, **group: Unpack[Update]) -> SendResult:
        """Changes the title, the look and the rules of a group. The service must be an admin of the group."""
        return self._ask("update", {**group})

    def typing(self, **text: Unpack[Typing]) -> None:
        """Shows the text that the service is writing, as far as it is, until the service sends it or for 6 s."""
        self._ask("typing", {**text})

    def profile(self, user_id: str, changes: ProfileChange) -> ProfileResult:
        """Changes the profile of a user or a service."""
        return result(self._transport, {"op": "profile", "user_id": user_id, "set": changes})

    def _ask(self, op: str, fields: dict[str, Any]) -> Any:
        return result(self._transport, {"op": op, "as": self.id, **fields})
