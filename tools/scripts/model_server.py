"""A small model of the server, as one user sees it, and of the faults between the user's app and the server."""

import asyncio
import base64
import hashlib
import json
import random
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

ACK_ENTRIES_MAX = 25
# Messages in a page: few, so that a drain takes many pages.
PAGE = 4
# The outcomes of a request, and the weight of each.
FAULTS = (["none", "lost", "unavailable", "token_expired", "gateway"], [80, 10, 5, 1, 4])
# The opcodes of a frame, and the markers of its two longer lengths (RFC 6455, section 5.2).
TEXT, CLOSE = 1, 8
TWO_BYTES, EIGHT_BYTES = 126, 127


@dataclass
class Conversation:
    peer: str
    messages: list = field(default_factory=list)
    delivered: int = 0
    read: int = 0

    def last(self):
        return len(self.messages)


class World:
    """One user, six peers, and the faults between the user's app and the server."""

    PEERS = ("bob", "carol", "dave", "erin", "frank", "grace")

    def __init__(self, user, seed, command):
        self.user = user
        self.random = random.Random(f"{seed} {user}")
        self.command = command
        self.conversations = {}
        self.connection = None
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.broken = True
        self.shown = {}
        self.sent = {}
        self.answers = {}
        self.wrong = []
        for peer in self.random.sample(self.PEERS, 5):
            for _ in range(self.random.randint(1, 8)):
                self.append(peer, peer, "before")
            # Messages that another device has acknowledged are not drained. This device gets them by events, or by
            # the chat list.
            self.of(peer).delivered = self.random.choice([0, 1, *[self.of(peer).last()] * 4])

    def of(self, peer):
        return self.conversations.setdefault(f"dm_{self.user}_{peer}", Conversation(peer))

    def append(self, peer, sender, body, client_msg_id=None):
        # More than a minute lies between two messages, so that `since` matters.
        self.now += timedelta(seconds=self.random.randint(61, 600))
        conversation, stamp = self.of(peer), self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        at_the_end = [mark == conversation.last() for mark in (conversation.delivered, conversation.read)]
        kind = "text" if sender == self.user else self.random.choice(["text", "text", "text", "from a later version"])
        message = {
            "conversation_id": f"dm_{self.user}_{peer}",
            "seq": conversation.last() + 1,
            "message_id": f"id {stamp}",
            "sender_id": sender,
            "kind": kind,
            "body": body,
            "sent_at": stamp,
        }
        if client_msg_id:
            message["client_msg_id"] = client_msg_id
        conversation.messages.append(message)
        if sender == self.user:
            conversation.delivered = message["seq"] if at_the_end[0] else conversation.delivered
            conversation.read = message["seq"] if at_the_end[1] else conversation.read
        return message

    # Steps that no request of the app causes.

    def step(self):
        peer = self.random.choice(self.PEERS)
        conversation = self.of(peer)
        match self.random.randint(0, 11):
            case 0 | 1 | 2:
                self.event([self.append(peer, peer, "hi") for _ in range(self.random.choice([1, 1, 1, 3]))])
            case 3:
                self.event([self.append(peer, self.user, "from another device")])
            case 4 | 5:
                conversation.delivered = conversation.last()
            case 6 | 7 | 8:
                body = f"{self.user} to {peer}, {len(self.sent.setdefault(peer, []))}"
                self.sent[peer].append(body)
                self.command(f"{self.user}\tsend\t{peer}\t{body}")
            case 9 if self.shown.get(f"dm_{self.user}_{peer}"):
                self.command(f"{self.user}\tread\tdm_{self.user}_{peer}\t{self.shown[f'dm_{self.user}_{peer}'][-1]}")
            case 10 if self.connection:
                self.random.choice([self.connection.cut, *[lambda: None] * 2])()
            case 11:
                self.say({"type": "from.a.later.version", "conversation_id": "dm"})
                self.say({"message": "Internal server error", "connectionId": "c", "requestId": "r"})

    def overtake(self):
        """Lets another device acknowledge a message that this device never gets.

        Then sends this device a later message of another conversation, and returns that conversation.
        """
        missed, heard = self.random.sample(self.PEERS, 2)
        self.append(missed, missed, "only another device knows")
        self.of(missed).delivered = self.of(missed).last()
        self.event([self.append(heard, heard, "younger")])
        return f"dm_{self.user}_{heard}"

    def is_shown(self, name):
        return self.conversations[name].last() in self.shown.get(name, [])

    def event(self, messages):
        self.say({"type": "messages.new", "conversation_id": messages[0]["conversation_id"], "messages": messages})

    def say(self, frame):
        """Sends a frame to the app: late, twice or never while the connection is broken."""
        if not self.connection:
            return
        for _ in range(self.random.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 2]) if self.broken else 1):
            asyncio.get_running_loop().call_later(self.random.random() * 0.4, self.connection.send, json.dumps(frame))

    # Requests of the app, and the messages that it shows.

    def asked(self, text):
        request = json.loads(text)
        answer = {"action": request["action"], "id": request["id"]}
        match self.random.choices(*FAULTS)[0] if self.broken else "none":
            case "none":
                result = getattr(self, request["action"])(request)
                self.say({"type": "reply", **answer, "result": result})
            case "unavailable":
                error = {"code": "unavailable", "message": "a service failed", "retryable": True}
                self.say({"type": "error", **answer, "error": error})
            case "token_expired":
                error = {"code": "token_expired", "message": "reconnect with a fresh token", "retryable": False}
                self.say({"type": "error", **answer, "error": error})
            case "gateway":
                self.say({"message": "Internal server error", "connectionId": "c", "requestId": "r"})

    def send(self, request):
        key = (request["to"], request["client_msg_id"])
        duplicate = key in self.answers
        if not duplicate:
            message = self.append(request["to"], self.user, request["body"], request["client_msg_id"])
            self.answers[key] = {name: message[name] for name in ("conversation_id", "seq", "message_id", "sent_at")}
        return {**self.answers[key], "duplicate": duplicate}

    def ack(self, request):
        self.acknowledge(request["up_to"])
        return {}

    def acknowledge(self, marks):
        if len(marks) > ACK_ENTRIES_MAX:
            self.wrong.append(f"{len(marks)} marks in one ack")
        for mark in marks:
            conversation = self.conversations[mark["conversation_id"]]
            conversation.delivered = max(conversation.delivered, min(mark["seq"], conversation.last()))

    def drain(self, request):
        self.acknowledge(request.get("ack", []))
        pending = [message for one in self.conversations.values() for message in one.messages[one.delivered :]]
        pending.sort(key=lambda message: message["sent_at"])
        return {"messages": pending[:PAGE], "more": len(pending) > PAGE}

    def read(self, request):
        conversation = self.conversations[request["conversation_id"]]
        conversation.read = max(conversation.read, min(request["seq"], conversation.last()))
        conversation.delivered = max(conversation.delivered, conversation.read)
        unread = [one for one in conversation.messages[conversation.read :] if one["sender_id"] != self.user]
        return {"unread": len(unread)}

    def inbox(self, request):
        rows = [self.row(name, one) for name, one in self.conversations.items() if one.messages]
        rows.sort(key=lambda row: row["last_message"]["sent_at"], reverse=True)
        if since := request.get("since"):
            moment = datetime.fromisoformat(since)
            rows = [row for row in rows if datetime.fromisoformat(row["last_message"]["sent_at"]) >= moment]
        if cursor := request.get("cursor"):
            rows = [row for row in rows if row["last_message"]["sent_at"] < cursor]
        page = rows[:1]
        cursor = page[-1]["last_message"]["sent_at"] if len(rows) > len(page) else None
        return {"conversations": page, "next_cursor": cursor}

    def row(self, name, conversation):
        last = conversation.messages[-1]
        shown = {key: last[key] for key in ("seq", "sender_id", "kind", "sent_at")}
        return {
            "conversation_id": name,
            "kind": "direct",
            "peer_id": conversation.peer,
            "unread": 0,
            "last_message": {**shown, "preview": last["body"]},
            "delivered_seq": conversation.delivered,
            "read_seq": conversation.read,
            "last_seq": conversation.last(),
        }

    def history(self, request):
        conversation = self.conversations[request["conversation_id"]]
        messages, limit = conversation.messages, min(request["limit"], PAGE)
        part = messages[request["after_seq"] :][:limit] if "after_seq" in request else messages[-limit:]
        members = [
            {"user_id": self.user, "delivered_seq": conversation.delivered, "read_seq": conversation.read},
            {"user_id": conversation.peer, "delivered_seq": 0, "read_seq": 0},
        ]
        return {"messages": part, "more": False, "last_seq": conversation.last(), "members": members}

    def ping(self, _):
        pending = any(one.delivered < one.last() for one in self.conversations.values())
        return {"pending": pending, "server_time": self.now.isoformat(timespec="milliseconds")}

    def on_shown(self, name, seq):
        shown = self.shown.setdefault(name, [])
        if shown and seq != shown[-1] + 1:
            self.wrong.append(f"{name}: {seq} is shown after {shown[-1]}")
        if not shown and seq - 1 > self.conversations[name].delivered:
            self.wrong.append(f"{name} begins at {seq}, and no device holds what is before it")
        shown.append(seq)

    def missing(self):
        """Yields each fault that remains after the connection has worked for a while."""
        for name, conversation in self.conversations.items():
            shown = self.shown.get(name)
            if shown and shown[-1] != conversation.last():
                yield f"{name}: shown up to {shown[-1]} of {conversation.last()}"
            if conversation.delivered != conversation.last():
                yield f"{name}: acknowledged up to {conversation.delivered} of {conversation.last()}"
        for peer, sent in self.sent.items():
            own = [one for one in self.of(peer).messages if "client_msg_id" in one]
            stored = [one["body"] for one in own]
            if stored != sent:
                yield f"{self.user} to {peer}: sent {sent}, stored {stored}"
            shown = self.shown.get(f"dm_{self.user}_{peer}", [])
            yield from (f"not shown to its sender: {one}" for one in own if one["seq"] not in shown)


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def accept(self):
        """Replies to the upgrade, and returns the user."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(
            line.lower().split(": ", 1)
            if line.lower().startswith("sec-websocket-protocol")
            else (line.split(": ", 1)[0].lower(), line.split(": ", 1)[1])
            for line in head.split("\r\n")[1:]
            if ": " in line
        )
        digest = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
        )
        return headers["authorization"].removeprefix("Bearer ")

    async def texts(self):
        """Yields each text frame, until the connection closes. Frames as short as these are not fragmented."""
        try:
            while True:
                first, second = await self.reader.readexactly(2)
                length = second & 0x7F
                if length == TWO_BYTES:
                    (length,) = struct.unpack(">H", await self.reader.readexactly(2))
                elif length == EIGHT_BYTES:
                    (length,) = struct.unpack(">Q", await self.reader.readexactly(8))
                mask = await self.reader.readexactly(4)
                body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await self.reader.readexactly(length)))
                if first & 0x0F == CLOSE:
                    return
                if first & 0x0F == TEXT:
                    yield body.decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def send(self, text):
        if not self.writer.is_closing():
            body = text.encode()
            self.writer.write(struct.pack(">BBH", 0x80 | TEXT, TWO_BYTES, len(body)) + body)

    def cut(self):
        self.writer.transport.abort()
