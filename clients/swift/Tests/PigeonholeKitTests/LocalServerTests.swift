// Clients that keep no messages, over real sockets, against the local server.

import Foundation
import PigeonholeKit
import Testing

@Suite(.timeLimit(.minutes(2)))
struct LocalServerTests {
    let server: LocalServer

    init() throws {
        server = try LocalServer()
    }

    @Test("a message goes from one client to another, and its ticks come back")
    func message() async throws {
        let alice = try await server.open("alice")
        let bob = try await server.open("bob")
        let chat = try alice.direct("bob")
        #expect(try await chat.send("hi").stored().seq == 1)
        #expect(try await bob.entry { $0.senderID == "alice" }.body == "hi")
        try await bob.direct("alice").reply(to: 1, "hello").stored()
        #expect(try await alice.entry { $0.senderID == "bob" }.replyTo == 1)
        try await bob.direct("alice").read(1)
        let read = try await alice.first { event in
            if case .receipt(let receipt) = event, receipt.kind == "read" { receipt.seq } else { nil }
        }
        #expect(read == 1)
        try await chat.edit(1, "hi!").stored()
        try await chat.react(2, "👍").stored()
        let page = try await chat.history()
        #expect(page.messages.filter(\.isMessage).map(\.body) == ["hi!", "hello"])
        #expect(page.messages.map(\.version).first == 2)
        #expect(page.messages[1].reactions.map { "\($0.emoji) \($0.count) \($0.mine)" } == ["👍 1 true"])
        try await chat.delete(1).stored()
        #expect(try await chat.history().messages[0].deletedBy == "alice")
        #expect(try await alice.chats().conversations.map { $0.conversationID.prefix(3) } == ["dm_"])
        await alice.close()
        await bob.close()
        #expect(alice.state == .closed)
        #expect(await code { try await chat.send("late") } == "closed")
    }

    @Test("a message that was sent offline survives a restart")
    func restart() async throws {
        let config = server.config("alice", address: nowhere)
        let offline = try await Pigeonhole(config) { [server] _ in try await server.token("alice") }
        try await offline.direct("bob").send("from the cellar")
        #expect(try await offline.offline().why == "unreachable")
        #expect(try await offline.outbox().count == 1)
        #expect(await code { _ = try await Pigeonhole(config) { _ in "" } } == "locked")
        await offline.close()
        let alice = try await server.open("alice")
        let bob = try await server.open("bob")
        #expect(try await bob.entry(\.isMessage).body == "from the cellar")
        await alice.close()
        await bob.close()
    }

    @Test("groups, channels and files")
    func groups() async throws {
        let alice = try await server.open("alice")
        let bob = try await server.open("bob")
        let group = try await alice.conversation(alice.createGroup("Trip", members: ["bob"]).stored().conversationID)
        #expect(try await bob.entry { $0.kind == "system" }.system?.event == "created")
        try await group.send("@bob, tickets?", mentions: ["bob"]).stored()
        #expect(try await bob.entry(\.isMessage).mentions == ["bob"])
        #expect(try await group.add(["carol"]).stored().added == ["carol"])
        #expect(try await Set(group.members().members.map(\.userID)) == ["alice", "bob", "carol"])
        let plan = server.folder.appending(path: "plan.txt")
        try Data("Sea, then mountains".utf8).write(to: plan)
        try await group.sendFile(Attachment(plan, mime: "text/plain", caption: "the plan")).stored()
        let media = try #require(try await bob.entry { $0.kind == "file" }.media)
        #expect(media.name == "plan.txt")
        #expect(media.bytes == 19)
        let id = try await alice.createChannel("News", set: GroupSettings(join: "open")).stored().conversationID
        let channel = try await bob.join(id)
        _ = try await channel.watch()
        try await alice.conversation(id).send("first post").stored()
        #expect(try await bob.entry { $0.conversationID == id && $0.isMessage }.body == "first post")
        #expect(try await bob.channels().conversations.map(\.conversationID) == [id])
        #expect(await code { try await channel.send("me too").stored() } == "forbidden")
        await alice.close()
        await bob.close()
    }

    @Test("the token of another user dials nothing")
    func wrongUser() async throws {
        let alice = try await Pigeonhole(server.config("alice")) { [server] _ in try await server.token("bob") }
        #expect(try await alice.offline().why == "wrong_user")
        await alice.close()
    }

    @Test("a token that the server refuses is requested again")
    func refused() async throws {
        let alice = try await Pigeonhole(server.config("alice")) { [server] need in
            need == .connect ? "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.e30" : try await server.token("alice")
        }
        try await alice.caughtUp()
        await alice.close()
    }

    @Test("a damaged store is set aside, and the client goes on")
    func damaged() async throws {
        let alice = try await server.open("alice")
        try await alice.caughtUp()
        await alice.close()
        try Data(repeating: 7, count: 8192).write(to: server.folder.appending(path: "alice/store"))
        let again = try await server.open("alice")
        let path = try await again.first { if case .setAside(let path) = $0 { path } else { nil } }
        #expect(FileManager.default.fileExists(atPath: path))
        try await again.direct("bob").send("still here").stored()
        await again.close()
    }

    @Test("a suspended client has no connection, and a woken one has what it missed")
    func suspended() async throws {
        let alice = try await server.open("alice")
        let bob = try await server.open("bob")
        try await bob.caughtUp()
        await bob.suspend()
        await bob.suspend()
        #expect(try await bob.offline().why == "suspended")
        try await alice.direct("bob").send("good morning").stored()
        bob.wake()
        #expect(try await bob.entry(\.isMessage).body == "good morning")
        await alice.close()
        await bob.close()
    }

    @Test("a consumer that is cancelled loses no event, and one that has not finished has not acknowledged")
    func consumers() async throws {
        let alice = try await server.open("alice")
        let bob = try await server.open("bob")
        let cancelled = Task { for await _ in bob.events { return true } ; return false }
        cancelled.cancel()
        #expect(await cancelled.value == false)
        try await alice.direct("bob").send("one").stored()
        #expect(try await bob.entry(\.isMessage).body == "one")
        await bob.close()
        let again = try await server.open("bob")
        #expect(try await again.entry(\.isMessage).body == "one")
        try await alice.direct("bob").send("two").stored()
        #expect(try await again.entry(\.isMessage).body == "two")
        let acked = try await alice.first { event in
            if case .receipt(let receipt) = event { receipt.seq } else { nil }
        }
        #expect(acked == 1)
        await alice.close()
        await again.close()
    }

    @Test("what no engine takes is refused at the call")
    func invalid() async throws {
        let alice = try await server.open("alice")
        #expect(await code { _ = try alice.direct("no such user") } == "bad_request")
        #expect(await code { try await alice.direct("bob").read(0) } == "bad_request")
        #expect(await code { _ = try await Pigeonhole(Config(url: root, userID: "a")) { _ in "" } } == "config")
        await alice.close()
    }

    @Test("an app may name the device itself")
    func device() async throws {
        var config = server.config("alice")
        config.deviceID = "kiosk-1"
        let alice = try await Pigeonhole(config) { [server] _ in try await server.token("alice") }
        try await alice.caughtUp()
        await alice.close()
        #expect(FileManager.default.fileExists(atPath: server.folder.appending(path: "alice/store").path()))
        config.deviceID = "two words"
        let wrong = config
        #expect(await code { _ = try await Pigeonhole(wrong) { _ in "" } } == "config")
    }
}
