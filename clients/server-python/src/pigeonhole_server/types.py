"""Generated from docs/contract/frames.schema.json by `just server-types`."""

from typing import Any, Literal, NotRequired, TypedDict

BODY_BYTES_MAX = 16384
CLIENT_MSG_ID_CHARS_MAX = 64
FRAME_BYTES_MAX = 32768

# The idempotency key of a `send`, unique per sender and conversation.
ClientMsgId = str

# The id of an upload, made by the server.
MediaId = str

# A SHA-256 digest in base64, with its padding.
Digest = str


class Carried1(TypedDict):
    # Left out of a request.
    bytes: NotRequired[int]
    media_id: MediaId
    # Left out of a request.
    sha256: NotRequired[Digest]

# Bytes in a frame, or in an uploaded file of kind `sealed`.
Carried = str | Carried1

# The id of a conversation. Only its prefix has a meaning.
ConversationId = str

# An object of the app's own. Numbers are doubles, and keys have no order, so that two objects of one meaning are equal.
Data = dict[str, Any]

# A moment: RFC 3339, UTC, three decimals of a second.
Timestamp = str

# Who: the `sub` of the token, as any issuer writes it.
UserId = str

# The emoji of a reaction. Each version of Unicode adds emoji, so the server accepts any short visible text. Clients show it as it is. `❤` and `❤️` are one emoji, written as the second.
Emoji = str

# A media type such as `image/jpeg`, in lower case and without parameters.
MimeType = str

# The name of a file: a name that can be saved, and no path to another folder. Characters that override the direction of a text would show `exe.jpg` for a name that ends in `gpj.exe`.
FileName = str

# A thumbhash in base64.
Thumbhash = str

# The bars of a voice note in base64.
Waveform = str

# The media of a message. A message never contains a URL: `download` returns one.
class Media(TypedDict):
    bytes: int
    # The length of a recording.
    duration_ms: NotRequired[int]
    height: NotRequired[int]
    # The id of the upload. Clients use it as the key of a downloaded file.
    media_id: MediaId
    mime: MimeType
    # The name of a file.
    name: NotRequired[FileName]
    # SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
    sha256: Digest
    # The placeholder of an image until it is loaded: <https://evanw.github.io/thumbhash/>.
    thumbhash: NotRequired[Thumbhash]
    # The waveform of a voice note: 100 bars of 5 bits, packed from the first bit on.
    waveform: NotRequired[Waveform]
    # In pixels. An image has both.
    width: NotRequired[int]

# An upload that only devices of the members can open.
class SealedMedia(TypedDict):
    # The length of the ciphertext. Left out of a request.
    bytes: NotRequired[int]
    media_id: MediaId

# The part of a message's media that the server sees.
Attached = Media | SealedMedia

# A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does.
MessageId = str

# How many members reacted with the same.
class Reaction(TypedDict):
    count: int
    emoji: Emoji
    # The viewer is among them.
    mine: bool

# The description of a group or a channel. A description of a stored entry is not checked.
About = str

# The title of a group. A title of a stored entry is not checked: an earlier version accepted characters that are forbidden now.
Title = str

# The creator is the first of the members.
class SystemCreated(TypedDict):
    # The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
    about: NotRequired[About | None]
    # An object of the app's own, with at most 2,048 bytes without spaces.
    data: NotRequired[Data | None]
    event: Literal["created"]
    members: list[UserId]
    title: Title


class SystemMembersAdded(TypedDict):
    event: Literal["members.added"]
    members: list[UserId]


class SystemMembersRemoved(TypedDict):
    event: Literal["members.removed"]
    members: list[UserId]


class SystemMemberLeft(TypedDict):
    event: Literal["member.left"]

# The role of `user_id` changed. If `role` is `owner`, the former owner is an admin from then on.
class SystemRoleChanged(TypedDict):
    event: Literal["role.changed"]
    # The role of a member, which decides what the member may do.
    role: Literal["owner", "admin", "member", "none"]
    user_id: UserId

# How long a conversation is muted, or a member restricted.
MutedUntil = Timestamp | Literal["forever"]

# `user_id` may only read until then. Without `until` the restriction ended.
class SystemMemberRestricted(TypedDict):
    event: Literal["member.restricted"]
    until: NotRequired[MutedUntil]
    user_id: UserId

# The new values of the changed properties.
class SystemInfoChanged(TypedDict):
    # The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
    about: NotRequired[About | None]
    # The members of a group who may do something.
    add: NotRequired[Literal["all", "admins"]]
    # An object of the app's own, with at most 2,048 bytes without spaces.
    data: NotRequired[Data | None]
    event: Literal["info.changed"]
    # The entries that a new member sees: those from the join on, or all.
    history: NotRequired[Literal["joined", "all"]]
    # In a channel only.
    join: NotRequired[Literal["open", "admins"]]
    # The members of a group who may do something.
    post: NotRequired[Literal["all", "admins"]]
    # In a channel only.
    rings: NotRequired[Literal["off", "mentions"]]
    title: NotRequired[Title]

# The event of a system entry, whose `sender_id` caused it.
System = SystemCreated | SystemMembersAdded | SystemMembersRemoved | SystemMemberLeft | SystemRoleChanged | SystemMemberRestricted | SystemInfoChanged

# An entry of a conversation, as one of its members sees it: a message, or a change of one.
class Message(TypedDict):
    # The text of a message, or the caption of an image, a file or a voice note. An edit has the current text of its target. A sealed entry has its bytes in base64. Empty if there is no text, or none any more.
    body: str
    # Only in what the sender's own devices receive.
    client_msg_id: NotRequired[ClientMsgId]
    # The bytes of a commit. Left out of a birth.
    commit: NotRequired[Carried]
    conversation_id: ConversationId
    # The app's own object. A deleted message has none. An edit has the data of its target.
    data: NotRequired[Data]
    # The `sent_at` of the entry that deleted the message. A deleted message has an empty body and no reactions.
    deleted_at: NotRequired[Timestamp]
    deleted_by: NotRequired[UserId]
    # The `sent_at` of the edit that made this version.
    edited_at: NotRequired[Timestamp]
    # The emoji of a reaction. Left out: the reaction was removed.
    emoji: NotRequired[Emoji]
    # The user's emoji before this reaction. Left out: the user had none.
    emoji_before: NotRequired[Emoji]
    # The epoch of a sealed entry, or the one that a commit begins.
    epoch: NotRequired[int]
    # With this digest of a sealed message, 32 bytes, a member can prove what its sender wrote.
    frank: NotRequired[str]
    # `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `sealed`, `commit`, `erased`, an app's own `x-NAME` or `xs-NAME`, or one that came later: a client shows nothing for a kind that it does not know.
    kind: str
    # The image, file or voice note of a message that is not deleted. A sealed message has only its id and length.
    media: NotRequired[Attached]
    # The mentioned users, or `*` for all members.
    mentions: NotRequired[list[UserId]]
    message_id: MessageId
    # Pins only: whether the message at `target_seq` is pinned from now on.
    pinned: NotRequired[bool]
    # The most frequent ones.
    reactions: NotRequired[list[Reaction]]
    # The last reaction entry that is in `reactions`, or was, if that took one back.
    reactions_seq: NotRequired[int]
    # The users who left and whom a commit removes.
    removes: NotRequired[list[UserId]]
    # The message that this one answers.
    reply_to: NotRequired[int]
    sender_id: UserId
    # Never goes back within a conversation.
    sent_at: Timestamp
    # A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
    seq: int
    # Erasures only: the entries of that user, as ranges from the first to the last of each. Perhaps none.
    seqs: NotRequired[list[list[int]]]
    # A sealed entry that does not count: no unread message, no push, no last message. A commit is always silent.
    silent: NotRequired[bool]
    # The event of a system entry.
    system: NotRequired[System]
    # The message that an edit, a delete, a reaction or a pin is about.
    target_seq: NotRequired[int]
    # The tree of the epoch that a commit begins, if the commit has a welcome.
    tree: NotRequired[Carried]
    # Erasures only: the id that the erased user has from now on. No request can name it.
    user_id: NotRequired[UserId]
    # The version of the text, from 2 on. An edit has the version of its target.
    version: NotRequired[int]
    # The welcome of the devices that a commit adds.
    welcome: NotRequired[Carried]

# The message is stored: in the history, in the recipient's inbox, and pending.
class SendResult(TypedDict):
    conversation_id: ConversationId
    # The message had been stored before, under the same `client_msg_id`.
    duplicate: bool
    # The message as it is stored, if the team's filter rewrote it.
    message: NotRequired[Message]
    message_id: MessageId
    # Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
    read_seq: NotRequired[int]
    sent_at: Timestamp
    # A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
    seq: int
    # Only of an edit: which version of the text it made.
    version: NotRequired[int]

# A user who could not be added, and why.
class NotAdded(TypedDict):
    # `left`: they left the group by themselves, and only they can come back, by `join`; after a first leave an admin can add them. `removed`: an admin removed them from the channel, and only an admin can add them. `limit_reached`: others have added them to as many channels as they may. Other reasons will come.
    reason: str
    user_id: UserId

# The group is there, and its first entry says so.
class CreateResult(TypedDict):
    conversation_id: ConversationId
    # The message had been stored before, under the same `client_msg_id`.
    duplicate: bool
    # The message as it is stored, if the team's filter rewrote it.
    message: NotRequired[Message]
    message_id: MessageId
    # The users who could not be added to a channel. Left out if there is none.
    not_added: NotRequired[list[NotAdded]]
    # Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
    read_seq: NotRequired[int]
    sent_at: Timestamp
    # A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
    seq: int
    # Only of an edit: which version of the text it made.
    version: NotRequired[int]

# The outcome for each requested user.
class AddResult(TypedDict):
    added: list[UserId]
    # The users who were members before.
    already: list[UserId]
    conversation_id: NotRequired[ConversationId]
    # The message had been stored before, under the same `client_msg_id`.
    duplicate: NotRequired[bool]
    # The message as it is stored, if the team's filter rewrote it.
    message: NotRequired[Message]
    message_id: NotRequired[MessageId]
    # The users who could not be added. Left out if there is none.
    not_added: NotRequired[list[NotAdded]]
    # Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
    read_seq: NotRequired[int]
    sent_at: NotRequired[Timestamp]
    # A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
    seq: NotRequired[int]
    # Only of an edit: which version of the text it made.
    version: NotRequired[int]

# At least one field. A field that is left out stays as it is; `null` removes it.
class ProfileChange(TypedDict):
    # At most 1,024 bytes without spaces.
    data: NotRequired[Data | None]
    name: NotRequired[Title | None]


class ProfileResult(TypedDict):
    version: int

# Every reason, with a stable code. The texts are for the client's developer: they name the field and the limit, and carry nothing of the request's content and no internal details.
ErrorCode = str

# Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer.
class Send(TypedDict):
    to: NotRequired[UserId]
    # The idempotency key: unique per sender and conversation.
    client_msg_id: ClientMsgId
    # Or a kind of the app's own, `x-NAME`; `xs-NAME` if it does not count. NAME: 1 to 29 of `a-z0-9.-`.
    kind: NotRequired[str]
    # At most 16 KiB of UTF-8, and at most 24 KiB as JSON. The caption of an image, a file or a voice note may be empty. A sealed message has up to 12,288 bytes in base64.
    body: str
    # An object of the app's own, at most 2,048 bytes without spaces. An own kind needs it.
    data: NotRequired[Data]
    # In a group: whom it names, or `*` for all members, which admins and the owner may.
    mentions: NotRequired[list[UserId]]
    # The message that this one answers: one of the conversation that there is.
    reply_to: NotRequired[int]
    conversation_id: NotRequired[ConversationId]

# Makes a group or a channel.
class CreateGroup(TypedDict):
    # The idempotency key: unique per user.
    client_msg_id: ClientMsgId
    # At most 192 bytes of UTF-8.
    title: Title
    # The other members from the first entry on.
    members: list[UserId]
    # A channel has any number of members, who read it on demand.
    kind: NotRequired[Literal["group", "channel"]]
    # The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
    about: NotRequired[About | None]
    # An object of the app's own, with at most 2,048 bytes without spaces.
    data: NotRequired[Data | None]
    # The members who may write messages. Default: all in a group, admins in a channel.
    post: NotRequired[Literal["all", "admins"]]
    # The members who may add others. Default: as for `post`.
    add: NotRequired[Literal["all", "admins"]]
    # The entries that a new member sees: those from the join on, or all.
    history: NotRequired[Literal["joined", "all"]]
    # In a channel only: the users who may join by themselves. Default: no user.
    join: NotRequired[Literal["open", "admins"]]

# Changes what a group is called, and what its members may do.
class Update(TypedDict):
    conversation_id: ConversationId
    # The idempotency key: unique per sender and conversation, across all actions.
    client_msg_id: ClientMsgId
    title: NotRequired[Title]
    # The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
    about: NotRequired[About | None]
    # An object of the app's own, with at most 2,048 bytes without spaces.
    data: NotRequired[Data | None]
    # The members who may write messages.
    post: NotRequired[Literal["all", "admins"]]
    # The members who may add others.
    add: NotRequired[Literal["all", "admins"]]
    # For those who join from now on.
    history: NotRequired[Literal["joined", "all"]]
    # In a channel only: the users who may join by themselves.
    join: NotRequired[Literal["open", "admins"]]

# Adds members to a group.
class Add(TypedDict):
    conversation_id: ConversationId
    # The idempotency key: unique per sender and conversation, across all actions.
    client_msg_id: ClientMsgId
    members: list[UserId]

# Removes a member from a group.
class Remove(TypedDict):
    conversation_id: ConversationId
    # The idempotency key: unique per sender and conversation, across all actions.
    client_msg_id: ClientMsgId
    user_id: UserId

# Lets a member of a group or a channel only read until a time, or ends that.
class Restrict(TypedDict):
    # A group or a channel.
    conversation_id: ConversationId
    # The idempotency key: unique per sender and conversation, across all actions.
    client_msg_id: ClientMsgId
    user_id: UserId
    # Until then the member only reads. `null` ends the restriction.
    until: MutedUntil | None

# `user_id` is writing, for a few seconds from now on.
class Typing(TypedDict):
    to: NotRequired[UserId]
    # The text so far, of a service alone. Shown until the service's next entry, and not stored.
    text: str
    conversation_id: NotRequired[ConversationId]
