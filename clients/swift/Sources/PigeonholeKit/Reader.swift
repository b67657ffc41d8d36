import Foundation
internal import PigeonholeFFI

/// The store in a client's folder, for another process that shows notifications. The app can have the client open at the
/// same time.
///
/// A reader changes nothing. Each call blocks for one read of what the client has committed. Any task may call any
/// function.
public final class Reader: Sendable {
    private let reader: PigeonholeFFI.Reader

    /// Opens the store of this user in the folder of ``Config``.
    ///
    /// The code of the error is `wrong_user`; `newer`: a later version of the app wrote the store; `store`: no store exists,
    /// or the store can't be read.
    public init(folder: URL, userID: String) throws {
        reader = try PigeonholeError.from { try PigeonholeFFI.Reader.open(folder: folder.path(percentEncoded: false), userId: userID) }
    }

    /// Returns what a notification shows of a message. `nil`: show nothing, because the user has read the message, its
    /// author has deleted it, or the user has blocked the author.
    public func notice(_ conversationID: String, _ seq: Int) throws -> Notice? {
        let found = try PigeonholeError.from { try reader.notice(conversationId: conversationID, seq: UInt64(clamping: seq)) }
        return found.map { Notice(title: $0.title, senderID: $0.senderId, body: $0.body) }
    }

    /// Returns the number of unread messages in all conversations that are not archived.
    public func unread() throws -> Int {
        Int(clamping: try PigeonholeError.from { try reader.unread() })
    }

    /// Returns the rows of the chat list, the newest first.
    public func chats() throws -> [Row] {
        try read(PigeonholeError.from { try reader.chats() })
    }

    /// Returns the newest `limit` messages of a conversation below `before`, oldest first. `nil`: the newest of all.
    public func messages(_ conversationID: String, before: Int? = nil, limit: Int = 50) throws -> [Message] {
        let before = before.map { UInt64(clamping: $0) }
        return try read(PigeonholeError.from {
            try reader.messages(conversationId: conversationID, before: before, limit: UInt32(clamping: limit))
        })
    }

    func position(_ encrypted: Encrypted, _ conversationID: String) throws -> Int? {
        try PigeonholeError.from { try reader.position(encrypted: encrypted, conversationId: conversationID) }
            .map { Int(clamping: $0) }
    }

    func opened(_ encrypted: Encrypted, _ pages: [String]) throws -> [Message] {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        return try read(PigeonholeError.from { try reader.opened(encrypted: encrypted, pages: pages, nowMs: now) })
    }
}

/// The part of a message that a notification shows.
public struct Notice: Sendable, Hashable {
    /// The title of the group or channel, or the other user of a direct conversation. `nil`: the conversation is new.
    public let title: String?
    /// The author. `nil`: the message is not stored yet.
    public let senderID: String?
    /// The text. `nil`: the message is not stored yet, or has no text.
    public let body: String?
}
