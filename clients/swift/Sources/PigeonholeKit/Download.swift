import Foundation
internal import PigeonholeFFI

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A download, whose file appears when it is complete.
struct Download: Sendable {
    private static let triesMax = 5

    let media: Media
    let file: URL
    var pause = Duration.seconds(1)

    private enum End {
        case complete(URL)
        /// The URL is valid no more.
        case urlEnded
        case broken(String)
    }

    /// `url` returns a new URL at each call.
    func run(_ url: @Sendable () async throws -> URL) async throws {
        var current = try await url()
        for number in 1...Self.triesMax {
            switch try await tryOnce(current) {
            case .complete(let part):
                defer { try? FileManager.default.removeItem(at: part) }
                return try take(part)
            case .urlEnded where number < Self.triesMax:
                // The URL was too old. If the next one is no better, the file has not been scanned yet.
                try await Task.sleep(for: pause * (number - 1))
                current = try await url()
            case .broken where number < Self.triesMax: try await Task.sleep(for: pause * number)
            case .urlEnded: throw failed("the file is not where the server says")
            case .broken(let why): throw failed(why)
            }
        }
    }

    private func tryOnce(_ url: URL) async throws -> End {
        var request = URLRequest(url: url)
        // No byte may stand still for longer.
        request.timeoutInterval = 30
        // The digest is of the bytes as they were uploaded.
        request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        do {
            let (part, response) = try await URLSession.shared.download(for: request)
            let status = (response as? HTTPURLResponse)?.statusCode
            if status == 200 { return .complete(part) }
            try? FileManager.default.removeItem(at: part)
            return status == 403 || status == 404 ? .urlEnded : .broken("HTTP \(status ?? 0)")
        } catch {
            if Task.isCancelled { throw CancellationError() }
            return .broken(error.localizedDescription)
        }
    }

    private func take(_ part: URL) throws {
        if let key = media.key {
            let opened = file.appendingPathExtension("\(UUID().uuidString).part")
            defer { try? FileManager.default.removeItem(at: opened) }
            let fields: [String: JSON] = [
                "media_id": .string(media.mediaID), "mime": .string(media.mime ?? ""), "bytes": .int(media.bytes),
                "sha256": .string(media.sha256 ?? ""), "key": .string(key),
            ]
            try PigeonholeError.from {
                try openFile(
                    sealed: part.path(percentEncoded: false), to: opened.path(percentEncoded: false),
                    media: JSON.object(fields).text)
            }
            return try place(opened)
        }
        guard let digest = media.sha256, (try? Digest(of: part).whole) == digest else {
            throw failed("the file is not what the message says")
        }
        try place(part)
    }

    private func place(_ part: URL) throws {
        do {
            if FileManager.default.fileExists(atPath: file.path(percentEncoded: false)) {
                try FileManager.default.removeItem(at: file)
            }
            try FileManager.default.moveItem(at: part, to: file)
        } catch {
            throw failed(error.localizedDescription)
        }
    }

    private func failed(_ why: String) -> PigeonholeError {
        PigeonholeError(code: "file", reason: why)
    }
}
