import Foundation
import Testing

@testable import PigeonholeKit

/// The scripts of the session.
private let files = [
    "catching-up", "changing", "channels", "connecting", "groups", "media", "receiving", "registering", "replacing",
    "sending", "services", "settings",
]

/// Scripts of parts that the engine does not export: the views of a conversation.
private let notExported = ["chat", "timeline"]

private let caughtUp: [JSON] = [
    ["dials": ["need": "connect"]],
    ["told": ["state": "connecting"]],
    ["open": [:]],
    ["told": ["state": "online"]],
    ["asks": ["action": "drain"], "result": ["messages": [], "more": false]],
    ["asks": ["action": "inbox", "limit": 50], "result": ["conversations": [], "next_cursor": .null]],
    ["told": ["state": "caught_up"]],
]

struct ConformanceTests {
    @Test("there is no other script")
    func scriptsThatArePlayed() throws {
        let found = try FileManager.default.contentsOfDirectory(atPath: scripts.path())
        #expect(found.sorted() == (files + notExported).map { "\($0).json" }.sorted())
    }

    @Test("every script is played through the library", arguments: files)
    func script(_ name: String) throws {
        let scenarios = try scenarios(name)
        #expect(!scenarios.isEmpty)
        for scenario in scenarios {
            for steps in variants(scenario) {
                let play = try Play(scenario)
                for step in (scenario["begin"] == nil ? [] : caughtUp) + steps { try play.take(step) }
                try play.nothingElse()
            }
        }
    }
}
