// A chat in the terminal: each line is a message, and /help lists the commands. Beside `cargo run`, in two terminals:
//
//     just swift-chat alice bob
//     just swift-chat bob alice

import Foundation
import PigeonholeKit

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

let help = """
    /reply N TEXT   /edit N TEXT   /delete N   /react N EMOJI   /older   /list
    /group TITLE USER...   /open USER|ID   /send PATH   (N is a message's number)
    """

struct Usage: Error { let problem: String }

actor Chat {
    private let pigeonhole: Pigeonhole
    private let me: String
    private var room: Conversation
    private var oldest: Int?

    init(_ pigeonhole: Pigeonhole, _ me: String, _ peer: String) throws {
        (self.pigeonhole, self.me) = (pigeonhole, me)
        room = try Self.room(pigeonhole, peer)
    }

    private static func room(_ pigeonhole: Pigeonhole, _ name: String) throws -> Conversation {
        let isID = name.hasPrefix("gr_") || name.hasPrefix("ch_")
        return try isID ? pigeonhole.conversation(name) : pigeonhole.direct(name)
    }

    func show(_ event: Event) async {
        switch event {
        case .entry(let message, _):
            let isHere = room.id == message.conversationID
            print((isHere ? "" : "~ \(message.conversationID) ") + line(message))
            // A terminal shows all of it. The report is repeated with the next message.
            if isHere, message.isMessage, message.senderID != me { _ = try? await room.read(message.seq) }
        case .receipt(let receipt) where receipt.userID != me:
            print("-- \(receipt.kind) up to #\(receipt.seq) by \(receipt.userID)")
        case .failed(let failed): print("!! not sent: \(failed.reason)")
        case .uploading(let upload): print("-- \(upload.done) of \(upload.bytes) bytes are uploaded")
        default: break
        }
    }

    func show(_ state: ConnectionState) {
        switch state {
        case .caughtUp: print("-- connected")
        case .offline(let offline): print("-- offline: \(offline.reason)")
        case .replaced: print("-- one connection too many; an empty line connects again")
        case .connecting, .online, .closed: break
        }
    }

    private func line(_ message: Message) -> String {
        let who = message.senderID == me ? "you" : message.senderID
        let body = harmless(message.body)
        let target = message.targetSeq.map { "#\($0)" } ?? ""
        if message.deletedAt != nil { return "#\(message.seq) \(who): (deleted)" }
        if let system = message.system {
            return "-- \(who) \(system.event ?? "") \(system.members?.joined(separator: ", ") ?? "")"
        }
        let file = message.media.map { "[\(harmless($0.name ?? ""))] " } ?? ""
        return switch message.kind {
        case "edit": "-- \(who) changed \(target): \(body)"
        case "delete": "-- \(who) deleted \(target)"
        case "reaction": "-- \(who) reacted to \(target) with \(message.emoji ?? "nothing")"
        default: "#\(message.seq) \(who): \(file)\(body)"
        }
    }

    func line(_ typed: String) async throws {
        guard typed.hasPrefix("/") else {
            if typed.isEmpty { pigeonhole.wake() } else { try await room.send(typed) }
            return
        }
        let words = typed.split(separator: " ", maxSplits: 2).map(String.init)
        let (first, text) = (words.count > 1 ? words[1] : "", words.count > 2 ? words[2] : "")
        func seq() throws -> Int {
            guard let seq = Int(first.trimmingPrefix("#")) else { throw Usage(problem: "name a message by its number") }
            return seq
        }
        switch words[0] {
        case "/reply": try await room.reply(to: seq(), text)
        case "/edit": try await room.edit(seq(), text)
        case "/delete": try await room.delete(seq())
        case "/react": try await room.react(seq(), text.isEmpty ? nil : text)
        case "/send": try await room.sendFile(Attachment(URL(filePath: first), mime: "text/plain", caption: text))
        case "/open":
            room = try Self.room(pigeonhole, first)
            oldest = nil
            try await older()
        case "/older": try await older()
        case "/list":
            for row in try await pigeonhole.chats().conversations {
                let name = row.title ?? row.peerID ?? ""
                print("\(row.conversationID) \(name) \(row.unread) unread: \(harmless(row.lastMessage?.preview ?? ""))")
            }
        case "/group":
            let members = text.split(separator: " ").map(String.init)
            let group = try await pigeonhole.createGroup(first, members: members).stored()
            room = pigeonhole.conversation(group.conversationID)
            print("-- \(group.conversationID)")
        default: print(help)
        }
    }

    private func older() async throws {
        let page = try await room.history(before: oldest)
        oldest = page.messages.first?.seq ?? oldest
        for message in page.messages where message.isMessage || message.system != nil { print(line(message)) }
    }
}

/// Another user's text must not command the terminal.
func harmless(_ text: String) -> String {
    text.replacing(/[\p{Cc}\x{202a}-\x{202e}\x{2066}-\x{2069}]/, with: "\u{fffd}")
}

/// A local server gives a token to any user; an app asks its backend.
func token(_ user: String, _ url: URL) async throws -> String {
    if let token = ProcessInfo.processInfo.environment["PIGEONHOLE_TOKEN"] { return token }
    var page = URLComponents(url: url, resolvingAgainstBaseURL: false)!
    (page.scheme, page.path, page.queryItems) = ("http", "/token", [URLQueryItem(name: "user", value: user)])
    let (data, _) = try await URLSession.shared.data(from: page.url!)
    return try JSONDecoder().decode([String: JSON].self, from: data)["token"]?.string ?? ""
}

let arguments = CommandLine.arguments.dropFirst()
guard let me = arguments.first, let peer = arguments.dropFirst().first else { fatalError("usage: ME PEER [URL]") }
let url = URL(string: arguments.dropFirst(2).first ?? "ws://127.0.0.1:3001/v1")!
let pigeonhole = try await Pigeonhole(Config(url: url, userID: me, keep: .outbox)) { _ in try await token(me, url) }
let chat = try Chat(pigeonhole, me, peer)
Task.detached { for await event in pigeonhole.events { await chat.show(event) } }
Task.detached { for await state in pigeonhole.states { await chat.show(state) } }
// The main thread waits for lines.
while let typed = readLine() {
    do {
        try await chat.line(typed)
    } catch {
        print("!! \(error)")
    }
}
// The outbox is in memory: the program ends when the server has all of it.
while try await !pigeonhole.outbox().isEmpty { try await Task.sleep(for: .milliseconds(50)) }
await pigeonhole.close()
