import Foundation
import PigeonholeKit
import Testing

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The folder of the whole repository.
let root = URL(filePath: #filePath).appending(path: "../../../../..").standardizedFileURL

/// No server is here.
let nowhere = URL(string: "ws://127.0.0.1:1/v1")!

/// The local server that `cargo build --bin pigeonhole` builds, and a folder for its clients.
final class LocalServer: Sendable {
    let url: URL
    let folder: URL
    private let process: Process

    init() throws {
        process = Process()
        process.executableURL = root.appending(path: "target/debug/pigeonhole")
        process.arguments = ["--port", "0"]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        var text = ""
        var found: URL?
        while found == nil {
            let bytes = output.fileHandleForReading.availableData
            if bytes.isEmpty { throw Problem("the server has ended: \(text)") }
            text += String(decoding: bytes, as: UTF8.self)
            found = text.firstMatch(of: /socket +(ws:\/\/\S+)\n/).flatMap { URL(string: String($0.1)) }
        }
        // Its log must not fill the pipe.
        output.fileHandleForReading.readabilityHandler = { _ = $0.availableData }
        url = found!
        folder = FileManager.default.temporaryDirectory.appending(path: "pigeonhole-\(UUID().uuidString)")
    }

    deinit {
        // A process of Foundation on Linux begins with SIGTERM blocked.
        kill(process.processIdentifier, SIGKILL)
        try? FileManager.default.removeItem(at: folder)
    }

    func config(_ user: String, _ keep: Keep = .outbox, address: URL? = nil) -> Config {
        Config(
            url: address ?? url, userID: user, folder: folder.appending(path: user), keep: keep,
            timing: ["ack_every": .milliseconds(100)])
    }

    /// The server gives a token to any user.
    @Sendable
    func token(_ user: String) async throws -> String {
        var page = URLComponents(url: url, resolvingAgainstBaseURL: false)!
        (page.scheme, page.path) = ("http", "/token")
        page.queryItems = [URLQueryItem(name: "user", value: user)]
        let (data, _) = try await URLSession.shared.data(from: page.url!)
        return try #require(try JSON(parsing: String(decoding: data, as: UTF8.self))["token"]?.string)
    }

    func open(_ user: String, _ keep: Keep = .outbox, address: URL? = nil) async throws -> Pigeonhole {
        try await Pigeonhole(config(user, keep, address: address)) { [self] _ in try await token(user) }
    }
}

struct Problem: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

extension Pigeonhole {
    func first<Found>(_ match: @Sendable (Event) -> Found?) async throws -> Found {
        for await event in events {
            if let found = match(event) { return found }
        }
        throw Problem("the events have ended")
    }

    func entry(_ matches: @Sendable (Message) -> Bool) async throws -> Message {
        try await first { event in
            if case .entry(let message, _) = event, matches(message) { message } else { nil }
        }
    }

    func offline() async throws -> ConnectionState.Offline {
        for await case .offline(let offline) in states { return offline }
        throw Problem("the states have ended")
    }

    func caughtUp() async throws {
        for await case .caughtUp in states { return }
        throw Problem("the states have ended")
    }
}

/// The code of the call's error.
func code(_ call: () async throws -> Void) async -> String? {
    do {
        try await call()
        return nil
    } catch {
        return (error as? PigeonholeError)?.code
    }
}
