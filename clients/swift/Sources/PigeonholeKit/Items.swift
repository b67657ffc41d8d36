// The things that an interface draws: the items of a conversation, and the rows of the chat list.

import Foundation

/// One thing to draw in a conversation. Its id stays the same wherever the item moves, and each item has another one.
public enum Item: Sendable, Hashable, Identifiable {
    /// A new day, in the Gregorian calendar.
    case day(id: String, DateComponents)
    /// The unread separator. The first unread message follows; `count` is the number when the view was opened.
    case unread(id: String, count: Int)
    /// Entries between these two are missing. The view has requested them.
    case gap(id: String, afterSeq: Int, beforeSeq: Int)
    /// An event of the group.
    case system(SystemItem)
    /// A message, stored or not.
    case message(MessageItem)
    /// An encrypted message that this device can't read.
    case unreadable(Unreadable)
    /// An entry of a kind that this version does not know. `message`: an app may know it, or show its body.
    case other(id: String, message: Message?)

    public var id: String {
        switch self {
        case .day(let id, _), .unread(let id, _), .gap(let id, _, _), .other(let id, _): id
        case .system(let item): item.key
        case .message(let item): item.key
        case .unreadable(let item): item.key
        }
    }

    /// The place of an encrypted message that this device can't read.
    public struct Unreadable: Decodable, Sendable, Hashable {
        public let key: String
        public let seq: Int
        public let senderID: String
        public let at: Date
        /// `before_join`, `forged`, `broken`, `plain_behind_birth`, `later` (it opens once all before it has come) or
        /// `not_encrypted` (this client has no ``Config/encrypted``).
        public let why: String
    }

    /// How far an own message has come.
    public enum Progress: Sendable, Hashable {
        /// The message waits for the server.
        case waiting
        /// Its file is being uploaded: `done` bytes of `of`. `done` can fall when the client repeats a part.
        case uploading(done: Int, of: Int)
        /// The server has it.
        case stored
        /// A device of each other member has it.
        case delivered
        /// Each other member has read it.
        case read
        /// The server refused it for good. ``Pigeonhole/again(_:)`` can succeed if `canHelp`; otherwise only another text
        /// helps.
        case failed(code: String, canHelp: Bool)
        /// A state that this version does not know.
        case other(String)
    }
}

/// An event of the group, which `senderID` caused.
public struct SystemItem: Decodable, Sendable, Hashable {
    public let key: String
    public let seq: Int
    public let senderID: String
    public let at: Date
    public let event: SystemEntry
}

/// A message, stored or not.
public struct MessageItem: Decodable, Sendable, Hashable {
    public let key: String
    /// `nil` until the server has stored it.
    public let seq: Int?
    /// The id of an own message's request.
    public let clientMsgID: String?
    public let senderID: String
    /// When the server stored it; until then, when the user wrote it.
    public let at: Date
    /// `text`, `image`, `file`, `voice` or `x-NAME`. An app that does not know an own kind shows the text.
    public let kind: String
    /// The text, with the user's latest edit. Empty if the message is deleted.
    public let body: String
    /// The app's own data.
    public let data: JSON?
    /// The silent entries of own kinds that reply to the message, oldest first, as far as the view has them. `nil`: none.
    public let signals: [Signal]?
    /// The file of a stored message.
    public let media: Media?
    /// The file on this device, after ``Conversation/attachment(_:)``.
    public let path: URL?
    /// The file of a message that is not stored.
    public let upload: Upload?
    public let mentions: [String]
    /// The message that this one replies to.
    public let reply: Reply?
    public let editedAt: Date?
    /// The user who deleted it. Text, file and reactions are gone.
    public let deletedBy: String?
    /// The most frequent first.
    public let reactions: [Reaction]
    /// The message came encrypted. `nil`: it did not.
    public let isSealed: Bool?
    /// How far an own message has come. `nil`: another user wrote it.
    public let progress: Item.Progress?
    /// Own changes of it have no reply yet. The item shows them already.
    public let isChanging: Bool
    /// The last own change that the server refused for good, until it is dismissed. The item does not show it.
    public let refused: Refused?
    /// The place among consecutive messages of one user.
    public let run: Run

    /// A silent entry of an app's own kind (`xs-NAME`) that replies to a message, such as a vote.
    public struct Signal: Decodable, Sendable, Hashable {
        public let seq: Int
        public let senderID: String
        public let kind: String
        public let data: JSON?
    }

    /// The target of a reply. `message` is its current state, perhaps deleted. `nil`: it has not come.
    public struct Reply: Decodable, Sendable, Hashable {
        public let seq: Int
        public let message: Message?
    }

    /// A change that the server refused for good. As ``Item/Progress/failed(code:canHelp:)``.
    public struct Refused: Decodable, Sendable, Hashable {
        public let clientMsgID: String
        public let code: String
        public let canHelp: Bool
    }

    /// Write the name at the first message of a run, and draw the picture at the last.
    public struct Run: Decodable, Sendable, Hashable {
        public let isFirst: Bool
        public let isLast: Bool
    }

    public struct Upload: Decodable, Sendable, Hashable {
        public let source: Source
        public let mime: String
        public let bytes: Int
        public let name: String?
        public let width: Int?
        public let height: Int?
        public let durationMs: Int?
        public let thumbhash: String?
        public let waveform: String?
        /// Base64.
        public let thumbnail: String?

        public struct Source: Decodable, Sendable, Hashable {
            /// The path on this device.
            public let file: String?
        }
    }
}

/// One conversation of the chat list.
public struct ChatRow: Decodable, Sendable, Hashable, Identifiable {
    /// Names the conversation for as long as the view is open, before and after it has an id.
    public let key: String
    /// `nil` until the server has stored the first message or the new group.
    public let conversationID: String?
    /// `direct`, `note`, `group` or `channel`.
    public let kind: String
    public let peerID: String?
    public let title: String?
    /// `owner`, `admin`, `member` or `none`.
    public let role: String?
    /// Until then, or `forever`, the user may only read in the group or channel.
    public let restrictedUntil: String?
    /// The user was removed or has left, and can't write.
    public let isClosed: Bool
    /// The server refused to create the group, with this code.
    public let failed: String?
    /// The last message.
    public let line: Line?
    public let unread: Int
    /// The unread messages that mention the user.
    public let mentions: Int
    public let isMuted: Bool
    public let isPinned: Bool
    public let isArchived: Bool
    /// The user has marked it as unread, and has read nothing since.
    public let isMarkedUnread: Bool
    public let isBlocked: Bool
    /// The text that the user has begun.
    public let draft: Draft?
    /// The other users who are typing.
    public let typing: [String]
    /// The texts that services are writing, as far as they are, by the service's id.
    public let texts: [String: String]
    /// Whether the peer is online, in an open conversation.
    public let presence: Presence?
    /// `sealed`, `joining`, or `changed`: the keys of a verified user changed, and messages wait. `nil`: not encrypted.
    public let lock: String?

    public var id: String { key }

    /// The last message of a conversation.
    public struct Line: Decodable, Sendable, Hashable {
        /// `nil`: the message is not stored.
        public let seq: Int?
        public let senderID: String
        public let at: Date
        public let kind: String
        /// The first characters of the text.
        public let text: String
        public let isDeleted: Bool
        /// The event of a system entry.
        public let event: SystemEntry?
        /// How far an own message has come.
        public let progress: Item.Progress?
    }
}

/// A member of a group or channel.
public struct MemberRow: Decodable, Sendable, Hashable, Identifiable {
    public let userID: String
    /// `owner`, `admin` or `member`.
    public let role: String
    /// The entry with which the member joined.
    public let joinedSeq: Int
    /// A device of the member has received every entry up to this one.
    public let deliveredSeq: Int
    /// The member has read every entry up to this one.
    public let readSeq: Int

    public var id: String { userID }
}

/// A text that the user has begun.
public struct Draft: Decodable, Sendable, Hashable {
    public var body: String
    public var replyTo: Int?
    public var mentions: [String]

    public init(_ body: String, replyTo: Int? = nil, mentions: [String] = []) {
        (self.body, self.replyTo, self.mentions) = (body, replyTo, mentions)
    }
}

extension Item: Decodable {
    private struct Fields: Decodable {
        let key: String
        let type: String
        let day: String?
        let count: Int?
        let afterSeq: Int?
        let beforeSeq: Int?
    }

    /// An item that this version can't read is an `other`.
    public init(from decoder: any Decoder) throws {
        let fields = try Fields(from: decoder)
        let read: Item? = switch fields.type {
        case "day": fields.day.flatMap(DateComponents.init(day:)).map { .day(id: fields.key, $0) }
        case "unread": fields.count.map { .unread(id: fields.key, count: $0) }
        case "gap": fields.afterSeq.flatMap { after in
            fields.beforeSeq.map { .gap(id: fields.key, afterSeq: after, beforeSeq: $0) }
        }
        case "system": (try? SystemItem(from: decoder)).map(Item.system)
        case "message": (try? MessageItem(from: decoder)).map(Item.message)
        case "unreadable": (try? Unreadable(from: decoder)).map(Item.unreadable)
        case "other": .other(id: fields.key, message: try? Message(from: decoder))
        default: nil
        }
        self = read ?? .other(id: fields.key, message: nil)
    }
}

extension Item.Progress: Decodable {
    private struct Fields: Decodable {
        let state: String
        let done: Int?
        let of: Int?
        let code: String?
        let canHelp: Bool
    }

    public init(from decoder: any Decoder) throws {
        let fields = try Fields(from: decoder)
        self = switch fields.state {
        case "waiting": .waiting
        case "uploading": .uploading(done: fields.done ?? 0, of: fields.of ?? 0)
        case "stored": .stored
        case "delivered": .delivered
        case "read": .read
        case "failed": .failed(code: fields.code ?? "", canHelp: fields.canHelp)
        default: .other(fields.state)
        }
    }
}

extension DateComponents {
    /// Reads a day such as `2026-11-25`.
    fileprivate init?(day: String) {
        let parts = day.split(separator: "-").compactMap { Int($0) }
        guard parts.count == 3 else { return nil }
        self.init(year: parts[0], month: parts[1], day: parts[2])
    }
}
