// Views over real sockets, against the local server.

import ChatApp
import Foundation
import Observation
import Testing

@testable import PigeonholeKit

extension AsyncStream where Element: Sendable {
    /// Waits for a state in which this is so.
    fileprivate func until(_ matches: @Sendable (Element) -> Bool) async throws -> Element {
        for await shown in self where matches(shown) { return shown }
        throw Problem("the view has ended")
    }
}

extension Screen {
    fileprivate var messages: [MessageItem] {
        items.compactMap { if case .message(let message) = $0 { message } else { nil } }
    }

    fileprivate var bodies: [String] { messages.map(\.body) }
}

extension [Item] {
    fileprivate var kinds: [String] {
        map { item in
            switch item {
            case .day: "day"
            case .unread: "unread"
            case .gap: "gap"
            case .system: "system"
            case .message: "message"
            case .unreadable: "unreadable"
            case .other: "other"
            }
        }
    }
}

/// Waits until the model is so.
@MainActor
private func shown(_ condition: @escaping @MainActor () -> Bool) async -> Bool {
    while !condition() {
        await withCheckedContinuation { continuation in
            _ = withObservationTracking(condition) { continuation.resume() }
        }
        await Task.yield()
    }
    return true
}

@Suite(.timeLimit(.minutes(2)))
struct ViewsTests {
    let server: LocalServer

    init() throws {
        server = try LocalServer()
    }

    @Test("an own message keeps its key over restart and storing, and is read when the other user has seen it")
    func ticks() async throws {
        let offline = try await server.open("alice", .messages, address: nowhere)
        let chat = try offline.direct("bob")
        #expect(chat.id == "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs")
        let id = try await chat.send("hi").clientMsgID
        let waiting = try await chat.messages().screens.until { !$0.items.isEmpty }
        #expect(waiting.items.kinds == ["day", "message"])
        #expect(waiting.items.last?.id == "c\(id)")
        #expect(waiting.messages.map(\.progress) == [.waiting])
        #expect(waiting.messages.map(\.seq) == [nil])
        #expect(try await offline.conversations().rows.until { !$0.isEmpty }.map(\.peerID) == ["bob"])
        await offline.close()

        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob", .messages)
        let view = try alice.direct("bob").messages()
        let list = bob.conversations()
        #expect(try await list.snapshots.until { $0.unread > 0 }.rows.map(\.unread) == [1])
        #expect(try await view.screens.until { $0.messages.last?.progress == .delivered }.items.last?.id == "c\(id)")
        let other = try bob.direct("alice").messages(at: .firstUnread)
        // The separator comes with the row.
        let unread = try await other.items.until { $0.count == 3 }
        #expect(unread.kinds == ["day", "unread", "message"])
        other.seen(unread[2])
        _ = try await view.screens.until { $0.messages.last?.progress == .read }
        _ = try await list.snapshots.until { $0.unread == 0 && $0.rows.map(\.unread) == [0] }
        try await bob.direct("alice").reply(to: 1, "hello").stored()
        let both = try await view.screens.until { $0.messages.count == 2 }
        #expect(both.messages[1].reply?.message?.body == "hi")
        #expect(both.unread == 1)
        try alice.direct("bob").readAll()
        #expect(try await view.screens.until { $0.unread == 0 }.chat?.unread == 0)
        await alice.close()
        await bob.close()
        #expect(await alice.conversations().rows.first { _ in true } == nil)
    }

    @Test("views have the names of users once the app wants them")
    func names() async throws {
        let alice = try await server.open("alice", .messages)
        var config = server.config("bob", .messages)
        config.names = true
        let bob = try await Pigeonhole(config) { [server] _ in try await server.token("bob") }
        try await alice.setProfile(["name": "Alice"])
        try await alice.direct("bob").send("hi").stored()
        let list = bob.conversations()
        _ = try await list.snapshots.until { $0.names == ["alice": "Alice"] }
        let messages = try bob.direct("alice").messages()
        _ = try await messages.screens.until { $0.names?["alice"] == "Alice" }
        let own = alice.conversations()
        #expect(try await own.snapshots.until { !$0.rows.isEmpty }.names == nil)
        await alice.close()
        await bob.close()
    }

    @Test("without a network, list, conversations, drafts and search come from the store")
    func offline() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob")
        try await bob.direct("alice").send("tickets to the sea?").stored()
        try await bob.direct("alice").send("or mountains").stored()
        let group = try await bob.createGroup("Trip", members: ["alice"]).stored().conversationID
        _ = try await alice.conversations().snapshots.until { list in
            list.rows.contains { $0.conversationID == group } && list.unread == 2
        }
        await bob.close()
        await alice.close()

        let offline = try await server.open("alice", .messages, address: nowhere)
        let list = offline.conversations()
        let rows = try await list.rows.until { $0.count == 2 }
        #expect(rows.map { $0.title ?? $0.peerID } == ["Trip", "bob"])
        #expect(rows[1].line?.text == "or mountains")
        list.select(Filter(words: "tri"))
        #expect(try await list.rows.until { $0.count == 1 }[0].conversationID == group)
        list.select(Filter(kinds: ["direct"]))
        try offline.direct("bob").draft(Draft("the s"))
        #expect(try await list.rows.until { $0.first?.draft != nil }.map(\.draft) == [Draft("the s")])
        let view = try offline.conversation(offline.direct("bob").id).messages()
        #expect(try await view.screens.until { $0.messages.count == 2 }.bodies == ["tickets to the sea?", "or mountains"])
        #expect(try await offline.search("SEA tick").map(\.body) == ["tickets to the sea?"])
        view.close()
        try await offline.direct("bob").send("the sea")
        _ = try await list.rows.until { $0.first?.line?.text == "the sea" }
        #expect(view.shown?.messages.count == 2)
        await offline.close()
    }

    @Test("older messages come from the server on demand, and a view jumps and follows")
    func pages() async throws {
        let bob = try await server.open("bob")
        var last: Sent<Stored>?
        for number in 1...60 { last = try await bob.direct("alice").send("message \(number)") }
        #expect(try await last?.stored().seq == 60)
        await bob.close()
        // Another device of bob's, which keeps nothing.
        let device = try await Pigeonhole(Config(url: server.url, userID: "bob")) { [server] _ in
            try await server.token("bob")
        }
        let view = try device.direct("alice").messages()
        #expect(try await view.screens.until { $0.messages.count == 50 && $0.hasOlder }.bodies.first == "message 11")
        view.older()
        #expect(try await view.screens.until { $0.messages.count == 60 && !$0.hasOlder }.bodies.first == "message 1")
        view.jump(to: .seq(5))
        let around = try await view.screens.until(\.hasNewer)
        #expect(around.bodies.contains("message 5") && !around.bodies.contains("message 60"))
        view.newer()
        #expect(try await view.screens.until { !$0.hasNewer }.bodies.last == "message 60")
        await device.close()
    }

    @Test("a refused message stays until it is dismissed or sent again")
    func refused() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob")
        let chat = try alice.direct("bob")
        try await chat.send("hi").stored()
        try await bob.block("alice", true)
        let refused = try await chat.send("are you there?")
        let reason = await code { try await refused.stored() }
        let other = try await chat.send("hello?")
        _ = await code { try await other.stored() }
        let view = chat.messages()
        let isFailed: Item.Progress = .failed(code: reason ?? "", canHelp: true)
        let failed = try await view.screens.until { $0.messages.filter { $0.progress == isFailed }.count == 2 }
        #expect(failed.messages.map(\.key).suffix(2) == [refused, other].map { "c\($0.clientMsgID)" })
        alice.dismiss(other.clientMsgID)
        _ = try await view.screens.until { $0.messages.count == 2 }
        try await bob.block("alice", false)
        #expect(try await alice.again(refused.clientMsgID).stored().seq == 2)
        #expect(await code { try await alice.again(other.clientMsgID).stored() } == "bad_request")
        await alice.close()
        await bob.close()
    }

    @Test("a file, who is typing and who is online")
    func file() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob", .messages)
        let plan = server.folder.appending(path: "plan.txt")
        try Data("Sea, then mountains".utf8).write(to: plan)
        try await alice.direct("bob").sendFile(Attachment(plan, mime: "text/plain", caption: "the plan"))
        let view = try bob.direct("alice").messages()
        let media = try #require(try await view.screens.until { !$0.messages.isEmpty }.messages[0].media)
        let copy = server.folder.appending(path: "copy.txt")
        try await bob.download(media, to: copy)
        #expect(try String(contentsOf: copy, encoding: .utf8) == "Sea, then mountains")
        try Data("Sea, then valleys".utf8).write(to: plan)
        #expect(try Digest(of: plan).whole != media.sha256)
        #expect(try Digest(of: copy).whole == media.sha256)
        _ = try await view.screens.until { $0.chat?.presence?.online == true }
        try alice.direct("bob").typing()
        #expect(try await view.screens.until { $0.chat?.typing.isEmpty == false }.chat?.typing == ["alice"])
        try await alice.direct("bob").delete(1).stored()
        #expect(try await view.screens.until { $0.messages.first?.media == nil }.messages[0].deletedBy == "alice")
        #expect(await code { try await bob.download(media, to: copy) } == "gone")
        await alice.close()
        _ = try await view.screens.until { $0.chat?.presence?.online == false }
        await bob.close()
    }

    @Test("a downloaded file stays over a restart, until its message is deleted")
    func attachment() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob", .messages)
        let plan = server.folder.appending(path: "plan.txt")
        try Data("Sea, then mountains".utf8).write(to: plan)
        let sent = Attachment(plan, mime: "text/plain", caption: "the plan")
        try await alice.direct("bob").sendFile(sent).stored()
        let chat = try bob.direct("alice")
        let view = chat.messages()
        let item = try await view.screens.until { !$0.messages.isEmpty }.messages[0]
        #expect(item.path == nil)
        let file = try await chat.attachment(item)
        #expect(file.path() == server.folder.appending(path: "bob/media/\(chat.id)-1").path())
        #expect(try String(contentsOf: file, encoding: .utf8) == "Sea, then mountains")
        #expect(try await view.screens.until { $0.messages[0].path != nil }.messages[0].path?.path() == file.path())
        await bob.close()

        let offline = try await server.open("bob", .messages, address: nowhere)
        let message = try #require(try await offline.search("plan").first)
        #expect(try await offline.attachment(message).path() == file.path())
        let again = try offline.direct("alice")
        let kept = try await again.messages().screens.until { !$0.messages.isEmpty }.messages[0]
        #expect(kept.path?.path() == file.path())
        #expect(try await again.attachment(kept).path() == file.path())
        await offline.close()

        let online = try await server.open("bob", .messages)
        let shown = try online.direct("alice").messages()
        try await alice.direct("bob").delete(1).stored()
        #expect(try await shown.screens.until { $0.messages.first?.deletedBy != nil }.messages[0].path == nil)
        while FileManager.default.fileExists(atPath: file.path()) { try await Task.sleep(for: .milliseconds(10)) }
        #expect(await code { _ = try await online.attachment(message) } == "gone")
        let deleted = try await online.direct("alice").history().messages[0]
        #expect(await code { _ = try await online.attachment(deleted) } == "bad_request")
        await online.close()
        let bot = try await server.open("bob")
        #expect(await code { _ = try await bot.attachment(message) } == "config")
        await bot.close()
        await alice.close()
    }

    @Test("members come and go, and get roles and marks")
    @MainActor
    func roster() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob", .messages)
        let id = try await alice.createGroup("Trip", members: ["bob"]).stored().conversationID
        let group = alice.conversation(id)
        let view = group.roster()
        let model = RosterModel(view)
        let both = try await view.snapshots.until { $0.members.count == 2 }
        #expect(both.conversationID == id)
        #expect(both.members.map(\.userID) == ["alice", "bob"])
        #expect(both.members.map(\.role) == ["owner", "member"])
        try await group.add(["carol"]).stored()
        let carol = try await view.members.until { $0.count == 3 }[2]
        #expect(carol.joinedSeq == 2)
        #expect(carol.readSeq == 0)
        let seq = try await group.send("tickets?").stored().seq
        _ = try await bob.conversations().snapshots.until { $0.unread == 1 }
        try await bob.conversation(id).read(seq)
        #expect(try await view.members.until { $0[1].readSeq == seq }[1].deliveredSeq == seq)
        try await group.role("carol", "admin").stored()
        #expect(try await view.members.until { $0[1].role == "admin" }.map(\.userID) == ["alice", "carol", "bob"])
        try await group.remove("bob").stored()
        #expect(await shown { model.members.map(\.userID) == ["alice", "carol"] })
        // The server's list, for the store.
        _ = try await group.roster().members.until { $0.map(\.role) == ["owner", "admin"] }
        await alice.close()

        let offline = try await server.open("alice", .messages, address: nowhere)
        let known = try await offline.conversation(id).roster().members.until { !$0.isEmpty }
        #expect(known.map(\.role) == ["owner", "admin"])
        await offline.close()
        await bob.close()
    }

    @Test("a reader has what the client next to it has stored")
    func reader() async throws {
        let folder = server.folder.appending(path: "bob")
        #expect(await code { _ = try Reader(folder: folder, userID: "bob") } == "store")
        let alice = try await server.open("alice")
        let bob = try await server.open("bob", .messages)
        try await alice.direct("bob").send("are you there?").stored()
        let chat = try bob.direct("alice")
        let list = bob.conversations()
        _ = try await list.snapshots.until { $0.unread == 1 }
        #expect(await code { _ = try Reader(folder: folder, userID: "alice") } == "wrong_user")
        let reader = try Reader(folder: folder, userID: "bob")
        #expect(try reader.notice(chat.id, 1) == Notice(title: "alice", senderID: "alice", body: "are you there?"))
        #expect(try reader.notice(chat.id, 2) == Notice(title: "alice", senderID: nil, body: nil))
        #expect(try reader.unread() == 1)
        #expect(try reader.chats().map(\.peerID) == ["alice"])
        try await alice.direct("bob").send("hello?").stored()
        _ = try await list.snapshots.until { $0.unread == 2 }
        #expect(try reader.messages(chat.id).map(\.body) == ["are you there?", "hello?"])
        #expect(try reader.messages(chat.id, before: 2).map(\.body) == ["are you there?"])
        #expect(try reader.messages(chat.id, limit: 1).map(\.body) == ["hello?"])
        try await chat.read(1)
        #expect(try reader.notice(chat.id, 1) == nil)
        try await alice.direct("bob").delete(2).stored()
        _ = try await list.snapshots.until { $0.unread == 0 }
        #expect(try reader.notice(chat.id, 2) == nil)
        #expect(await code { _ = try reader.notice("two words", 1) } == "bad_request")
        await alice.close()
        await bob.close()
    }

    @Test("a stream keeps its view, and the view ends with the last one that uses it")
    func dropped() async throws {
        let alice = try await server.open("alice", .messages)
        weak var list: ChatList?
        do {
            let rows = {
                let new = alice.conversations()
                list = new
                return new.rows
            }()
            try await alice.direct("bob").send("hi")
            _ = try await rows.until { !$0.isEmpty }
            #expect(list != nil)
        }
        #expect(list == nil)
        await alice.close()
    }

    @Test("the model of the example app shows the list, a conversation and its ticks")
    @MainActor
    func model() async throws {
        let alice = try await server.open("alice", .messages)
        let bob = try await server.open("bob", .messages)
        let model = AppModel(alice)
        model.open(user: "bob")
        let messages = try #require(model.messages)
        await model.send("hi")
        #expect(await shown { messages.items.kinds == ["day", "message"] && model.isConnected })
        let view = try bob.direct("alice").messages()
        view.seen(try #require(try await view.items.until { $0.count > 1 }.last))
        #expect(await shown { model.chats.rows.first?.line?.progress == .read })
        try await bob.direct("alice").send("hello").stored()
        #expect(await shown { model.chats.unread == 1 && messages.items.count == 4 - 1 })
        model.open(user: "no such user")
        #expect(model.problem != nil)
        await alice.close()
        await bob.close()
    }
}
