// The data that the server sends. `docs/protocol.md` explains each field; a field of a later version is skipped.

import Foundation

/// An entry of a conversation: a message, a system entry, or a change entry, which changes the message `targetSeq`.
public struct Message: Codable, Sendable, Hashable {
    public let conversationID: String
    public let seq: Int
    public let messageID: String
    public let senderID: String
    /// `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `x-NAME`, `xs-NAME`, or a later one.
    public let kind: String
    public let body: String
    public let sentAt: Date
    public let clientMsgID: String?
    public let media: Media?
    /// The app's own data.
    public let data: JSON?
    public let replyTo: Int?
    public let mentions: [String]
    public let version: Int?
    public let editedAt: Date?
    public let deletedAt: Date?
    public let deletedBy: String?
    public let reactions: [Reaction]
    public let reactionsSeq: Int?
    public let targetSeq: Int?
    /// An edit of this device that leaves the message's data as it is.
    public let keepsData: Bool?
    public let emoji: String?
    public let emojiBefore: String?
    /// Pins only: `false` takes the pin off.
    public let pinned: Bool?
    public let system: SystemEntry?

    /// False for system entries, change entries and kinds of a later version.
    public var isMessage: Bool { ["text", "image", "file", "voice"].contains(kind) || kind.hasPrefix("x-") }
}

public struct Reaction: Codable, Sendable, Hashable {
    public let emoji: String
    public let count: Int
    public let mine: Bool
}

/// An event of a group: `created`, `members.added`, `member.left` …
public struct SystemEntry: Codable, Sendable, Hashable {
    public let event: String?
    public let title: String?
    public let members: [String]?
    public let userID: String?
    public let role: String?
    public let history: String?
    public let post: String?
    public let add: String?
    public let join: String?
    public let rings: String?
    /// The end of a restriction, or `forever`.
    public let until: String?
}

/// The file of a message.
public struct Media: Codable, Sendable, Hashable {
    public let mediaID: String
    /// `nil`, as is the digest, in an encrypted message that this client can't open.
    public let mime: String?
    public let bytes: Int
    public let sha256: String?
    public let name: String?
    public let width: Int?
    public let height: Int?
    public let durationMs: Int?
    public let thumbhash: String?
    public let waveform: String?
    /// The key of an encrypted file, for ``Pigeonhole/download(_:to:)``.
    public let key: String?
    /// A small image, in base64.
    public let thumbnail: String?
}

/// A row of the chat list, or of the list of channels.
public struct Row: Codable, Sendable, Hashable {
    public let conversationID: String
    /// `direct`, `note`, `group` or `channel`.
    public let kind: String
    public let peerID: String?
    public let title: String?
    /// `owner`, `admin`, `member` or `none`.
    public let role: String?
    public let memberCount: Int?
    public let firstSeq: Int?
    public let history: String?
    public let post: String?
    public let add: String?
    public let join: String?
    public let rings: String?
    /// In a channel: the last message that mentions the user, until it is read.
    public let mentionedSeq: Int?
    public let lastMessage: LastMessage?
    public let unread: Int
    public let mentions: Int?
    public let deliveredSeq: Int?
    public let readSeq: Int
    public let lastSeq: Int
    /// A time, or `forever`.
    public let mutedUntil: String?
    public let muteMentions: Bool
    public let archived: Bool
    public let blocked: Bool
}

public struct LastMessage: Codable, Sendable, Hashable {
    public let seq: Int
    public let senderID: String
    public let kind: String
    public let preview: String
    public let sentAt: Date
    public let deleted: Bool
    public let system: SystemEntry?
}

/// A page of the chat list, or of channels. The next one begins at `nextCursor`, if there is one.
public struct Rows: Codable, Sendable, Hashable {
    public let conversations: [Row]
    public let nextCursor: String?
}

/// A page of a conversation.
public struct History: Codable, Sendable, Hashable {
    public let messages: [Message]
    public let more: Bool
    public let lastSeq: Int
    public let firstSeq: Int?
    public let members: [Marks]
}

/// How far a member has received and read.
public struct Marks: Codable, Sendable, Hashable {
    public let userID: String
    public let deliveredSeq: Int
    public let readSeq: Int
}

/// A page of a group's marks.
public struct AllMarks: Codable, Sendable, Hashable {
    public let deliveredSeq: Int
    public let readSeq: Int
    public let members: [Marks]
    public let nextCursor: String?
}

public struct Members: Codable, Sendable, Hashable {
    public let members: [Member]
    public let nextCursor: String?
}

public struct Member: Codable, Sendable, Hashable {
    public let userID: String
    public let role: String
    public let joinedSeq: Int
}

public struct Reactors: Codable, Sendable, Hashable {
    public let reactions: [Reactor]
    public let nextCursor: String?
}

public struct Reactor: Codable, Sendable, Hashable {
    public let userID: String
    public let emoji: String
}

public struct Presence: Codable, Sendable, Hashable {
    public let userID: String
    public let online: Bool
    public let lastSeenAt: Date?
}

/// The name and the data of a user. `version` rises with each change.
public struct Profile: Codable, Sendable, Hashable {
    public let userID: String
    public let name: String?
    public let data: JSON?
    public let version: Int
}

public struct Unread: Codable, Sendable, Hashable {
    public let unread: Int
    public let mentions: Int?
}

/// The entry of a stored message or change.
public struct Stored: Codable, Sendable, Hashable {
    public let conversationID: String
    public let seq: Int
    public let messageID: String
    public let sentAt: Date
    /// An earlier try had stored it.
    public let duplicate: Bool
    public let version: Int?
}

/// The result of an addition of members.
public struct Added: Codable, Sendable, Hashable {
    public let added: [String]
    public let already: [String]
    public let notAdded: [NotAdded]
}

/// Hours of each day, also past midnight, in minutes of the device's day.
public struct Quiet: Sendable, Hashable {
    public let fromMin: Int
    public let toMin: Int
    /// The offset of the device's zone from UTC. Register again when it changes.
    public let offsetMin: Int

    public init(fromMin: Int, toMin: Int, offsetMin: Int) {
        (self.fromMin, self.toMin, self.offsetMin) = (fromMin, toMin, offsetMin)
    }
}

public struct NotAdded: Codable, Sendable, Hashable {
    public let userID: String
    public let reason: String
}

/// The result of ``Conversation/leave()``. A channel has no entry about it, so `seq` is left out.
public struct Left: Codable, Sendable, Hashable {
    public let seq: Int?
}

/// `live`: entries come as events. Else, and beside them, request the history every `pollMs`.
public struct Watched: Codable, Sendable, Hashable {
    public let live: Bool
    public let lastSeq: Int
    public let pollMs: Int
}

/// A changed setting of a conversation, or of a user. `set` has only what changed: `muted_until`, `mute_mentions`,
/// `archived`, `unread`, `blocked`.
public struct ChangedSettings: Codable, Sendable, Hashable {
    public let conversationID: String?
    public let userID: String?
    public let set: JSON
}

/// The rules of a new group or channel. A missing rule has the protocol's default.
public struct GroupSettings: Sendable, Hashable {
    /// The entries that a new member sees: those since the user `joined`, or `all`.
    public var history: String?
    /// The members who write: `all` or `admins`.
    public var post: String?
    /// The members who add others: `all` or `admins`.
    public var add: String?
    /// In a channel: who may join, `open` or `admins`.
    public var join: String?
    /// In a channel: whether its messages send push notifications, `off` or `mentions`.
    public var rings: String?

    public init(
        history: String? = nil, post: String? = nil, add: String? = nil, join: String? = nil, rings: String? = nil
    ) {
        (self.history, self.post, self.add, self.join, self.rings) = (history, post, add, join, rings)
    }

    var fields: [String: JSON?] {
        [
            "history": history.map(JSON.string), "post": post.map(JSON.string),
            "add": add.map(JSON.string), "join": join.map(JSON.string),
            "rings": rings.map(JSON.string),
        ]
    }
}
