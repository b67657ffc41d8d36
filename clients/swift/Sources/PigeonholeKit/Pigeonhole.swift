import Foundation
internal import PigeonholeFFI

/// A user's client. The client connects by itself, and sends each request as soon as it has a connection.
///
/// Any task may call any function. A task that is cancelled takes no request back. The end of the object closes the
/// client as ``close()`` does.
public final class Pigeonhole: Sendable {
    private static let pageMax = 50

    let loop: Loop
    private let me: String
    let isEncrypted: Bool
    /// The folder of a client that keeps messages.
    private let folder: URL?
    /// New groups are encrypted.
    private let encrypts: Bool
    private let running: Task<Void, Never>
    /// The events, in their order, for one consumer.
    public let events: Events
    #if canImport(Network)
    private let network: NetworkMonitor
    #endif

    /// Continues from the folder, and connects in the background. Without a network, the client waits for one.
    ///
    /// The client calls `token` before each connection; its `sub` must be the user's id. An error of it counts as no
    /// token.
    public init(_ config: Config, token: @escaping @Sendable (TokenNeed) async throws -> String) async throws {
        guard ["ws", "wss"].contains(config.url.scheme), config.url.host() != nil else {
            throw PigeonholeError(code: "config", reason: "\(config.url) is no WebSocket address, such as wss://…")
        }
        try config.folder.map(Self.prepare)
        let deviceID = try config.deviceID ?? config.folder.map(Self.device) ?? UUID().uuidString
        guard deviceID.wholeMatch(of: /[A-Za-z0-9_-]{1,64}/) != nil else {
            throw PigeonholeError(code: "config", reason: "the device id has 1 to 64 of A-Za-z0-9_-")
        }
        let loop = Loop(config, deviceID: deviceID, token: token)
        try await loop.open()
        (self.loop, me, events) = (loop, config.userID, Events(queue: loop.events))
        isEncrypted = config.encrypted != nil
        folder = config.keep == .messages ? config.folder : nil
        encrypts = config.encrypted != nil
        running = Task.detached { await loop.run() }
        #if canImport(Network)
            // Not `wake()`, which would end a suspension.
            network = NetworkMonitor { loop.put(.wake) }
        #endif
    }

    deinit {
        loop.inbox.call(.close)
    }

    /// The state of the connection.
    public var state: ConnectionState { loop.states.current }

    /// The current state and, until ``close()``, each new one. A slow consumer gets the newest.
    public var states: AsyncStream<ConnectionState> { loop.states.stream { $0 } }

    /// Opens a view of the chat list.
    public func conversations(_ filter: Filter = Filter()) -> ChatList {
        let view = ChatList(loop, filter)
        loop.open(view)
        return view
    }

    /// The direct conversation with a user, which need not exist yet. Throws if no user can have this id.
    public func direct(_ userID: String) throws -> Conversation {
        let id = try PigeonholeError.from { try directConversationId(one: me, other: userID) }
        return Conversation(pigeonhole: self, id: id, target: ["to": .string(userID)])
    }

    /// A conversation by its id, from a message or a row of the chat list.
    public func conversation(_ id: String) -> Conversation {
        Conversation(pigeonhole: self, id: id, target: ["conversation_id": .string(id)])
    }

    /// The newest `limit` messages of the store that have all words, the newest first. The last word may be incomplete.
    public func search(_ text: String, limit: Int = 50) async throws -> [Message] {
        try await read(loop.search(text, limit))
    }

    /// Tries a message or a change again that the server refused for good, and that a view shows as failed.
    @discardableResult
    public func again(_ clientMsgID: String) async throws -> Sent<Stored> {
        try await queue(clientMsgID) { .again(ask: $0, clientMsgId: clientMsgID) }
    }

    /// Discards a message or a change that the server refused for good.
    public func dismiss(_ clientMsgID: String) {
        loop.put(.dismiss(clientMsgId: clientMsgID))
    }

    /// Downloads a message's file to `file`, which appears only when all of it has come, and its digest is the message's.
    /// The client tries a broken download again, up to five times.
    ///
    /// The code of the error is `gone` if the message is deleted. `file`: the file can't be fetched or written, or is
    /// another one.
    public func download(_ media: Media, to file: URL) async throws {
        struct Found: Decodable {
            struct Item: Decodable {
                let url: String?
            }
            let items: [Item]
        }
        try await Download(media: media, file: file).run {
            let found: Found = try await self.ask("download", ["media_ids": .strings([media.mediaID])])
            guard let url = found.items.first?.url.flatMap(URL.init(string:)) else {
                throw PigeonholeError(code: "gone", reason: "the message is deleted")
            }
            return url
        }
    }

    /// Returns the file of a message's attachment in the client's folder, and downloads it first if it is not there. Then
    /// items of views have its path. The client removes the file when the message is deleted or no longer stored. A system
    /// that moves the app's folder, as iOS at an update, changes the path: the next call returns the new one.
    ///
    /// The codes of the error are those of ``download(_:to:)``; `bad_request`: the message has no attachment; `config`: the
    /// client has no folder, or keeps no messages.
    public func attachment(_ message: Message) async throws -> URL {
        try await attachment(message.conversationID, message.seq, message.media, known: nil)
    }

    /// `known`: the engine has this path already.
    func attachment(_ id: String, _ seq: Int?, _ media: Media?, known: URL?) async throws -> URL {
        guard let folder else {
            throw PigeonholeError(code: "config", reason: "attachments need a folder and Keep.messages")
        }
        guard let seq, let media else {
            throw PigeonholeError(code: "bad_request", reason: "the message has no attachment")
        }
        // A conversation's id can have any character that is printed.
        let name = id.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") }
        let file = folder.appending(path: "media/\(name)-\(seq)")
        // A copy from another volume can have stopped in the middle.
        let isHere = try? file.resourceValues(forKeys: [.fileSizeKey]).fileSize == media.bytes
        if isHere != true {
            try Self.usable {
                try FileManager.default.createDirectory(
                    at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
            }
            try await download(media, to: file)
        }
        if isHere != true || file.path(percentEncoded: false) != known?.path(percentEncoded: false) {
            loop.put(.place(conversationId: id, seq: UInt64(clamping: seq), path: file.path(percentEncoded: false)))
        }
        return file
    }

    /// Creates a group through the outbox; the user is its owner. The result has its id.
    @discardableResult
    public func createGroup(
        _ title: String, members: [String], set: GroupSettings = GroupSettings(), encrypted: Bool? = nil
    ) async throws -> Sent<Stored> {
        try await create(nil, title, members, set, encrypted: encrypted ?? encrypts)
    }

    /// Creates a channel, which any number of users read, and its admins write.
    @discardableResult
    public func createChannel(
        _ title: String, members: [String] = [], set: GroupSettings = GroupSettings()
    ) async throws -> Sent<Stored> {
        try await create("channel", title, members, set)
    }

    private func create(
        _ kind: String?, _ title: String, _ members: [String], _ set: GroupSettings, encrypted: Bool = false
    ) async throws -> Sent<Stored> {
        let fields: [String: JSON?] = [
            "kind": kind.map(JSON.string), "title": .string(title), "members": .strings(members),
            "encrypted": encrypted ? .bool(true) : nil,
        ]
        return try await keep("create", fields.merging(set.fields) { $1 })
    }

    /// A page of the chat list, the first one or the one at a `nextCursor`. Channels are in ``channels(cursor:)``.
    public func chats(cursor: String? = nil) async throws -> Rows {
        try await ask("inbox", ["limit": .int(Self.pageMax), "cursor": cursor.map(JSON.string)])
    }

    /// A page of the user's channels.
    public func channels(cursor: String? = nil) async throws -> Rows {
        try await ask("channels", ["cursor": cursor.map(JSON.string)])
    }

    /// Makes the user a member of an open channel, or of a group that the user has left.
    @discardableResult
    public func join(_ conversationID: String) async throws -> Conversation {
        _ = try await call("join", ["conversation_id": .string(conversationID)])
        return conversation(conversationID)
    }

    /// Returns which users are online, of those with whom the user has a direct conversation.
    public func presence(_ userIDs: [String]) async throws -> [Presence] {
        struct Present: Decodable {
            let users: [Presence]
        }
        let present: Present = try await ask("presence", ["user_ids": .strings(userIDs)])
        return present.users
    }

    /// Returns the profiles of these users and services, at most 50, that have one.
    public func profiles(_ userIDs: [String]) async throws -> [Profile] {
        struct Page: Decodable {
            let profiles: [Profile]
            let left: [String]
        }
        var all: [Profile] = []
        var left = userIDs
        while !left.isEmpty {
            let page: Page = try await ask("profiles", ["user_ids": .strings(left)])
            all += page.profiles
            left = page.left
        }
        return all
    }

    /// Changes the user's own profile: `name` and `data`. A field that is left out stays, and `null` removes it.
    public func setProfile(_ set: [String: JSON]) async throws {
        _ = try await call("profile", ["set": .object(set)])
    }

    /// Neither of the two can write to the other.
    public func block(_ userID: String, _ blocked: Bool) async throws {
        _ = try await call("settings", ["user_id": .string(userID), "set": ["blocked": .bool(blocked)]])
    }

    /// Reports messages, a conversation or a user to the operator: `spam`, `abuse`, `sexual`, `violence`, `illegal` or
    /// `other`. `claimed` is the text of an encrypted message. Returns the report's id, which is the same for the same
    /// report.
    public func report(
        _ reason: String, conversationID: String? = nil, seqs: [Int] = [], userID: String? = nil, note: String? = nil,
        claimed: String? = nil
    ) async throws -> String {
        struct Reported: Decodable {
            let reportId: String
        }
        let fields: [String: JSON?] = [
            "reason": .string(reason), "conversation_id": conversationID.map(JSON.string),
            "seqs": seqs.isEmpty ? nil : .array(seqs.map(JSON.int)), "user_id": userID.map(JSON.string),
            "note": note.map(JSON.string), "claimed": claimed.map(JSON.string),
        ]
        let reported: Reported = try await ask("report", fields)
        return reported.reportId
    }

    /// Registers this device for push notifications by APNs, after each start and at each new token. `nil`, at a logout,
    /// ends that. `sandbox`: the app was installed from Xcode. With `unread`, messages that another device has received
    /// push too. Nothing rings in the hours of `quiet`.
    public func registerDevice(
        _ token: Data?, sandbox: Bool = false, preview: Bool = true, unread: Bool = false, quiet: Quiet? = nil
    ) async throws {
        guard let token else {
            _ = try await call("device", ["token": .null])
            return
        }
        _ = try await call("device", [
            "platform": sandbox ? "apns_sandbox" : "apns",
            "token": .string(token.map { String(format: "%02x", $0) }.joined()),
            "preview": .bool(preview),
            "when": unread ? "unread" : "pending",
            "quiet": quiet.map {
                ["from_min": .int($0.fromMin), "to_min": .int($0.toMin), "offset_min": .int($0.offsetMin)]
            } ?? .null,
        ])
    }

    /// The safety number of the user and this one, the same for both. `nil`: the other's keys are not known yet. Two users
    /// whose numbers are equal have no other reader.
    public func safetyNumber(_ userID: String) async throws -> String? {
        try await loop.safetyNumber(userID)
    }

    /// The user has compared the numbers. From now on, a change of the other's keys holds messages until ``accept(_:)``.
    public func verify(_ userID: String) {
        trust("verify", userID)
    }

    /// The user knows of the other's new keys, and the messages that waited leave.
    public func accept(_ userID: String) {
        trust("accept", userID)
    }

    /// Begins the encryption of the conversation with this user anew.
    public func reset(_ userID: String) {
        trust("reset", userID)
    }

    /// Begins the encryption of this group anew.
    public func resetGroup(_ conversationID: String) {
        trust("reset_group", conversationID)
    }

    /// The user's devices that have keys, as the server listed them after the last connect.
    public func ownDevices() async throws -> [OwnDevice] {
        try await read(loop.devices())
    }

    /// The user no longer has this device. The client removes it from each conversation.
    public func removeDevice(_ deviceID: String) {
        trust("remove", deviceID)
    }

    private func trust(_ what: String, _ whom: String) {
        loop.put(.trust(trust: JSON([what: .string(whom)]).text))
    }

    /// The requests that have no reply, oldest first, as the outbox has them.
    public func outbox() async throws -> [JSON] {
        try await loop.outbox().map(JSON.init(parsing:))
    }

    /// The app is in the foreground, or the network or the time zone has changed: reconnects wait no longer.
    public func wake() {
        loop.inbox.call(.wake)
    }

    /// Reports what waits to be reported, closes the connection, and writes all of the store to the disk: before iOS
    /// suspends the app. From then on the client does nothing, until ``wake()``. A request of that time waits for it.
    public func suspend() async {
        let done = Promise<Void>()
        if loop.inbox.call(.suspend(done: done)) { try? await done.value }
    }

    /// Stops the upload of a message's file. `false`: it is uploaded already.
    public func cancel(_ clientMsgID: String) async throws -> Bool {
        try await loop.ask { .cancel(ask: $0, clientMsgId: clientMsgID) }.value == "true"
    }

    /// Acknowledges what the app has finished with, and closes the connection. The outbox keeps its content.
    public func close() async {
        loop.inbox.call(.close)
        await running.value
    }

    func call(_ action: String, _ fields: [String: JSON?]) async throws -> String {
        let request = JSON(fields.merging(["action": .string(action)]) { $1 }).text
        return try await loop.ask { .ask(ask: $0, request: request) }.value
    }

    func ask<Value: Decodable>(_ action: String, _ fields: [String: JSON?]) async throws -> Value {
        try await read(call(action, fields))
    }

    /// Puts a message into the outbox.
    func message(_ target: JSON, _ fields: [String: JSON?]) async throws -> Sent<Stored> {
        try await outboxed(fields.merging(["target": target]) { $1 })
    }

    /// Puts another request that the server stores into the outbox.
    func keep<Value>(_ action: String, _ fields: [String: JSON?]) async throws -> Sent<Value> {
        try await outboxed([action: JSON(fields)])
    }

    private func outboxed<Value>(_ fields: [String: JSON?]) async throws -> Sent<Value> {
        let id = UUID().uuidString.lowercased()
        let request = JSON(fields.merging(["client_msg_id": .string(id)]) { $1 }).text
        return try await queue(id) { .keep(ask: $0, request: request) }
    }

    private func queue<Value>(_ clientMsgID: String, _ input: (UInt64) -> EdgeInput) async throws -> Sent<Value> {
        let taken = Promise<Void>()
        let answer = loop.ask(taken: taken, input)
        try await taken.value
        return Sent(clientMsgID: clientMsgID, answer: answer)
    }

    private static func prepare(_ folder: URL) throws {
        try usable {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            #if canImport(Darwin)
                // A backup on another device would be two devices of one name, which take each other's messages.
                var values = URLResourceValues()
                values.isExcludedFromBackup = true
                var folder = folder
                try folder.setResourceValues(values)
            #endif
        }
    }

    /// Returns the name of this installation.
    private static func device(of folder: URL) throws -> String {
        try usable {
            let file = folder.appending(path: "device")
            if let known = try? String(contentsOf: file, encoding: .utf8) { return known }
            let name = UUID().uuidString
            try Data(name.utf8).write(to: file, options: .atomic)
            return name
        }
    }

    private static func usable<Result>(_ call: () throws -> Result) throws -> Result {
        do {
            return try call()
        } catch {
            throw PigeonholeError(code: "config", reason: "the folder can't be used: \(error.localizedDescription)")
        }
    }
}
