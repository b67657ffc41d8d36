import Foundation
internal import PigeonholeFFI

#if canImport(CryptoKit)
    import CryptoKit
#endif

/// A file for ``Conversation/sendFile(_:)``. The file must not change until the message is stored.
public struct Attachment: Sendable {
    public var file: URL
    /// Its media type.
    public var mime: String
    /// `image` (with `width` and `height`), `voice` (with `durationMs`) or `file` (with `name`).
    public var kind: String
    public var name: String?
    public var caption: String
    public var width: Int?
    public var height: Int?
    public var durationMs: Int?
    public var thumbhash: String?
    public var waveform: String?
    /// A small image of at most 4 KiB. Only an encrypted message has it.
    public var thumbnail: Data?

    /// A `file` has its name by default.
    public init(
        _ file: URL, mime: String, kind: String = "file", name: String? = nil, caption: String = "",
        width: Int? = nil, height: Int? = nil, durationMs: Int? = nil, thumbhash: String? = nil, waveform: String? = nil,
        thumbnail: Data? = nil
    ) {
        (self.file, self.mime, self.kind, self.caption) = (file, mime, kind, caption)
        self.name = name ?? (kind == "file" ? file.lastPathComponent : nil)
        (self.width, self.height, self.durationMs) = (width, height, durationMs)
        (self.thumbhash, self.waveform, self.thumbnail) = (thumbhash, waveform, thumbnail)
    }

    /// Reads all of the file, for the form in which the outbox has it.
    func announced(encrypted: Bool) async throws -> JSON {
        let file = file
        let (digest, sealed) = try await Task.detached {
            do {
                let path = file.path(percentEncoded: false)
                let sealed = try encrypted ? PigeonholeError.from { try sealFile(path: path) } : nil
                return (try Digest(of: file), try sealed.map { try JSON(parsing: $0) })
            } catch let error as PigeonholeError {
                throw error
            } catch {
                throw PigeonholeError(code: "file", reason: error.localizedDescription)
            }
        }.value
        return JSON([
            "source": ["file": .string(file.path(percentEncoded: false))],
            "kind": .string(kind),
            "mime": .string(mime),
            "bytes": .int(digest.bytes),
            "sha256": .string(digest.whole),
            "parts": digest.parts.isEmpty ? nil : .strings(digest.parts),
            "name": name.map(JSON.string),
            "width": width.map(JSON.int),
            "height": height.map(JSON.int),
            "duration_ms": durationMs.map(JSON.int),
            "thumbhash": thumbhash.map(JSON.string),
            "waveform": waveform.map(JSON.string),
            "thumbnail": thumbnail.map { JSON.string($0.base64EncodedString()) },
            "sealed": sealed,
        ])
    }
}

/// SHA-256 as the protocol has it: of the whole, or of the digests of the parts.
struct Digest {
    /// By the protocol, a file up to this size is one object, and a larger one has parts.
    private static let wholeBytesMax = 16 * 1024 * 1024
    private static let partBytes = 8 * 1024 * 1024

    private(set) var bytes = 0
    private(set) var parts: [String] = []
    let whole: String

    init(of file: URL) throws {
        let handle = try FileHandle(forReadingFrom: file)
        defer { try? handle.close() }
        var (all, ofParts) = (SHA256(), SHA256())
        while let part = try handle.read(upToCount: Self.partBytes), !part.isEmpty {
            bytes += part.count
            all.update(data: part)
            let digest = Data(SHA256.hash(data: part))
            ofParts.update(data: digest)
            parts.append(digest.base64EncodedString())
        }
        let isWhole = bytes <= Self.wholeBytesMax
        whole = Data((isWhole ? all : ofParts).finalize()).base64EncodedString()
        if isWhole { parts = [] }
    }
}
