import Foundation
internal import PigeonholeFFI

/// A conversation: direct, a group or a channel.
///
/// A function that returns a ``Sent`` uses the outbox: after it returns, a restart does not lose the request. The server
/// stores a conversation's requests in the order of the calls. All other functions return the server's reply.
public struct Conversation: Sendable {
    let pigeonhole: Pigeonhole
    /// A direct conversation has its id before its first message.
    public let id: String
    /// Where messages go: to the conversation, or to the user.
    let target: JSON

    /// Opens a view of the messages.
    public func messages(at: At = .newest) -> MessagesView {
        let view = MessagesView(pigeonhole.loop, target, at)
        pigeonhole.loop.open(view)
        return view
    }

    /// Opens a view of the members of this group or channel, with their roles and marks.
    public func roster() -> RosterView {
        let view = RosterView(pigeonhole.loop, id)
        pigeonhole.loop.open(view)
        return view
    }

    /// Sends a text. `mentions` are users of a group, or `*` for all; `data` is the app's own object.
    @discardableResult
    public func send(
        _ text: String, replyTo: Int? = nil, mentions: [String] = [], data: JSON? = nil
    ) async throws -> Sent<Stored> {
        try await pigeonhole.message(target, [
            "body": .string(text),
            "reply_to": replyTo.map(JSON.int),
            "mentions": mentions.isEmpty ? nil : .strings(mentions),
            "data": data,
        ])
    }

    /// Sends a message of the app's own `kind`: `x-NAME`, or `xs-NAME`, which is silent and has no text. Apps that do
    /// not know `x-NAME` show the text.
    @discardableResult
    public func sendOwn(
        _ kind: String, data: JSON, text: String = "", replyTo: Int? = nil
    ) async throws -> Sent<Stored> {
        try await pigeonhole.message(target, [
            "kind": .string(kind), "body": .string(text), "data": data, "reply_to": replyTo.map(JSON.int),
        ])
    }

    /// Sends a text as a reply to the message at `seq`.
    @discardableResult
    public func reply(to seq: Int, _ text: String) async throws -> Sent<Stored> {
        try await send(text, replyTo: seq)
    }

    /// Sends a file, a picture or a voice note. The client uploads it first, over restarts too.
    @discardableResult
    public func sendFile(_ file: Attachment) async throws -> Sent<Stored> {
        try await pigeonhole.message(target, ["body": .string(file.caption), "media": file.announced(encrypted: pigeonhole.isEncrypted)])
    }

    /// Returns the file of a message in a view, as ``Pigeonhole/attachment(_:)``.
    public func attachment(_ item: MessageItem) async throws -> URL {
        try await pigeonhole.attachment(id, item.seq, item.media, known: item.path)
    }

    /// Changes the text of an own message. `data` replaces its data; `.null` removes it; `nil` keeps it.
    @discardableResult
    public func edit(_ seq: Int, _ text: String, data: JSON? = nil) async throws -> Sent<Stored> {
        try await keep("edit", ["seq": .int(seq), "body": .string(text), "data": data])
    }

    /// Deletes an own message for all members.
    @discardableResult
    public func delete(_ seq: Int) async throws -> Sent<Stored> {
        try await keep("delete", ["seq": .int(seq)])
    }

    /// Reacts to a message, in place of an earlier reaction. `nil` takes it back.
    @discardableResult
    public func react(_ seq: Int, _ emoji: String?) async throws -> Sent<Stored> {
        try await keep("react", ["seq": .int(seq), "emoji": emoji.map(JSON.string) ?? .null])
    }

    /// Pins a message for all members, or takes the pin off. In a group or channel, for its owner and admins.
    @discardableResult
    public func pin(_ seq: Int, _ pinned: Bool) async throws -> Sent<Stored> {
        try await keep("pin", ["seq": .int(seq), "pinned": .bool(pinned)])
    }

    /// Adds members to a group or channel.
    @discardableResult
    public func add(_ members: [String]) async throws -> Sent<Added> {
        try await keep("add", ["members": .strings(members)])
    }

    /// Removes a member.
    @discardableResult
    public func remove(_ userID: String) async throws -> Sent<Stored> {
        try await keep("remove", ["user_id": .string(userID)])
    }

    /// Leaves the group or channel.
    @discardableResult
    public func leave() async throws -> Sent<Left> {
        try await keep("leave", [:])
    }

    /// Makes a member `owner`, `admin` or `member`.
    @discardableResult
    public func role(_ userID: String, _ role: String) async throws -> Sent<Stored> {
        try await keep("role", ["user_id": .string(userID), "role": .string(role)])
    }

    /// Lets a member only read until a time in RFC 3339, or `forever`. With `nil`, the restriction ends.
    @discardableResult
    public func restrict(_ userID: String, until: String?) async throws -> Sent<Stored> {
        try await keep("restrict", ["user_id": .string(userID), "until": until.map(JSON.string) ?? .null])
    }

    /// Changes the title or the rules.
    @discardableResult
    public func update(title: String? = nil, set: GroupSettings = GroupSettings()) async throws -> Sent<Stored> {
        try await keep("update", set.fields.merging(["title": title.map(JSON.string)]) { $1 })
    }

    /// A page of at most 100 entries: the newest, or those before or after a `seq`.
    public func history(before: Int? = nil, after: Int? = nil, limit: Int = 50) async throws -> History {
        try await ask("history", [
            "before_seq": before.map(JSON.int), "after_seq": after.map(JSON.int), "limit": .int(limit),
        ])
    }

    /// Opens an encrypted message for a notification, with the keys that the app's client has. The client opens the
    /// message itself later, since its keys stay as they are.
    ///
    /// Call this on a client of the extension's own, with `keep: .outbox`. `reader` has the app's store; `keys` and
    /// `deviceID` are the app's. `nil`: the message can't be opened, or the app has opened it.
    public func peek(_ seq: Int, reader: Reader, keys: Keys, deviceID: String) async throws -> Message? {
        let encrypted = Encrypted(seed: keys.export(), deviceId: deviceID)
        guard var after = try reader.position(encrypted, id) else { return nil }
        var pages: [String] = []
        while after < seq, pages.count < peekPagesMax {
            let page: JSON = try await ask("history", ["after_seq": .int(after), "limit": .int(peekPage)])
            guard let last = page["messages"]?.array?.last?["seq"]?.int else { break }
            after = last
            pages.append(page.text)
        }
        return try reader.opened(encrypted, pages).first { $0.seq == seq }
    }

    /// A page of the members.
    public func members(cursor: String? = nil, limit: Int = 100) async throws -> Members {
        try await ask("members", page(cursor, limit))
    }

    /// A page of how far the members of a group have received and read.
    public func receipts(cursor: String? = nil, limit: Int = 100) async throws -> AllMarks {
        try await ask("receipts", page(cursor, limit))
    }

    /// A page of who reacted to a message.
    public func reactions(_ seq: Int, cursor: String? = nil, limit: Int = 100) async throws -> Reactors {
        try await ask("reactions", page(cursor, limit).merging(["seq": .int(seq)]) { $1 })
    }

    /// The user has read everything up to `seq`. Calls within a second share one report.
    @discardableResult
    public func read(_ seq: Int) async throws -> Unread {
        try await PigeonholeKit.read(
            pigeonhole.loop.ask { .read(ask: $0, conversationId: id, seq: UInt64(clamping: seq)) }.value)
    }

    /// The user has read everything, although some of it may never have come to this device.
    public func readAll() {
        pigeonhole.loop.put(.readAll(conversationId: id))
    }

    /// The user is typing: call it at each key.
    public func typing() {
        pigeonhole.loop.put(.typing(conversationId: id))
    }

    /// Saves a text that the user has begun, 300 ms after a key. `nil`: it was sent or removed.
    public func draft(_ draft: Draft?) {
        let written = draft.map { draft in
            JSON([
                "body": .string(draft.body), "reply_to": draft.replyTo.map(JSON.int), "mentions": .strings(draft.mentions),
            ]).text
        }
        pigeonhole.loop.put(.draft(target: target.text, draft: written))
    }

    /// Subscribes to a channel, above `after` or its current last entry, until ``unwatch()`` or ``Event/unwatched(_:)``.
    public func watch(after: Int? = nil) async throws -> Watched {
        let after = after.map { UInt64(clamping: $0) }
        return try await PigeonholeKit.read(
            pigeonhole.loop.ask { .watch(ask: $0, conversationId: id, afterSeq: after) }.value)
    }

    /// Ends the subscription.
    public func unwatch() {
        pigeonhole.loop.put(.unwatch(conversationId: id))
    }

    /// No push until then. `nil`: not muted; `.distantFuture`: for ever.
    public func mute(until: Date?) async throws {
        try await set(["muted_until": until.map { .string($0 == .distantFuture ? "forever" : $0.written) } ?? .null])
    }

    /// Hides it in the chat list, until the next message.
    public func archive(_ archived: Bool) async throws {
        try await set(["archived": .bool(archived)])
    }

    /// Keeps it at the top of the chat list. Ten conversations can be there, and ten channels.
    public func pinToTop(_ pinned: Bool) async throws {
        try await set(["pinned": .bool(pinned)])
    }

    /// Shows it as unread, on all devices, until it is read. `ChatRow.unread` stays the number.
    public func markUnread(_ unread: Bool) async throws {
        try await set(["unread": .bool(unread)])
    }

    private func set(_ fields: JSON) async throws {
        _ = try await pigeonhole.call("settings", ["conversation_id": .string(id), "set": fields])
    }

    private func keep<Value>(_ action: String, _ fields: [String: JSON?]) async throws -> Sent<Value> {
        try await pigeonhole.keep(action, fields.merging(["conversation_id": .string(id)]) { $1 })
    }

    private func ask<Value: Decodable>(_ action: String, _ fields: [String: JSON?]) async throws -> Value {
        try await pigeonhole.ask(action, fields.merging(["conversation_id": .string(id)]) { $1 })
    }

    private func page(_ cursor: String?, _ limit: Int) -> [String: JSON?] {
        ["limit": .int(limit), "cursor": cursor.map(JSON.string)]
    }
}

/// A message or a change in the outbox. The client sends the request, whether the app waits or not.
public struct Sent<Value: Decodable & Sendable>: Sendable {
    /// The id of this request; the entry that it becomes has it too.
    public let clientMsgID: String
    let answer: Promise<String>

    /// Waits until the server has stored it, however long there is no connection. Throws if the server refuses it.
    @discardableResult
    public func stored() async throws -> Value {
        try await read(answer.value)
    }
}

/// The entries that a notification requests at a time, and how often.
private let (peekPage, peekPagesMax) = (100, 20)

extension JSON {
    static func strings(_ texts: [String]) -> JSON {
        .array(texts.map(JSON.string))
    }
}
