import Foundation
import PigeonholeFFI
import Testing

@testable import PigeonholeKit

/// The scripts of the session.
private let files = [
    "catching-up", "changing", "channels", "connecting", "data", "fuse", "groups", "http", "media", "names",
    "receiving", "registering", "replacing", "sending", "services", "settings", "store",
]

/// Scripts of parts of the core that the engine does not export one by one.
private let notExported = ["chat", "timeline"]

private func caughtUp(_ by: JSON) -> [JSON] {
    [
        ["dials": ["need": "connect"]],
        ["told": ["state": "connecting"]],
        ["open": [:]],
        ["told": ["state": "online"]],
        ["asks": ["action": "drain"], "by": by, "result": ["messages": [], "more": false]],
        [
            "asks": ["action": "inbox", "limit": 50], "by": by,
            "result": ["conversations": [], "next_cursor": .null],
        ],
        ["told": ["state": "caught_up"]],
    ]
}

struct ConformanceTests {
    @Test("there is no other script")
    func scriptsThatArePlayed() throws {
        let found = try FileManager.default.contentsOfDirectory(atPath: scripts.path())
        #expect(found.sorted() == (files + notExported + ["search"]).map { "\($0).json" }.sorted())
    }

    @Test("every script is played through the library", arguments: files)
    func script(_ name: String) throws {
        let scenarios = try scenarios(name)
        #expect(!scenarios.isEmpty)
        for scenario in scenarios {
            for steps in variants(scenario) {
                let play = try Play(scenario)
                let by: JSON = scenario["http"] == nil ? "socket" : "http"
                for step in (scenario["begin"] == nil ? [] : caughtUp(by)) + steps { try play.take(step) }
                try play.nothingElse()
            }
        }
    }

    @Test("each search finds the messages that the script names")
    func search() throws {
        for scenario in try scenarios("search") {
            let folder = FileManager.default.temporaryDirectory.appending(path: "search-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let engine = try Engine.open(setup: EngineSetup(
                folder: folder.path(), messages: true, userId: "alice", seed: 1, timing: [:], saved: nil))
            let reply: JSON = [
                "type": "reply", "action": "drain", "id": "1",
                "result": ["messages": .array(entries(scenario)), "more": false],
            ]
            for input in [nil, EdgeInput.opened(link: 1, tokenLeftMs: nil), .frame(link: 1, text: reply.text)] {
                _ = try engine.turn(inputs: input.map { [$0] } ?? [], now: 0, wall: 0)
            }
            for (words, seqs) in scenario["finds"]?.object ?? [:] {
                let found: [Message] = try read(engine.search(text: words, limit: 9))
                #expect(found.map(\.seq) == seqs.array?.compactMap(\.int), "\(words)")
            }
        }
    }

    private func entries(_ scenario: JSON) -> [JSON] {
        var entries: [JSON] = []
        func add(_ kind: String, _ body: JSON, _ more: [String: JSON] = [:]) {
            let seq = entries.count + 1
            let fields: [String: JSON] = [
                "conversation_id": "dm_ab", "seq": .int(seq), "message_id": .string("m\(seq)"), "sender_id": "bob",
                "kind": .string(kind), "body": body, "sent_at": .string("2026-11-20T10:00:0\(seq).000Z"),
            ]
            entries.append(.object(fields.merging(more) { $1 }))
        }
        let messages = scenario["messages"]?.object ?? [:]
        for seq in messages.keys.compactMap(Int.init).sorted() { add("text", messages["\(seq)"] ?? "") }
        for change in scenario["changes"]?.array ?? [] {
            guard let (kind, target) = change.without("body").object?.first else { continue }
            add(kind, change["body"] ?? "", ["target_seq": target, "version": .int(entries.count + 1)])
        }
        return entries
    }
}
