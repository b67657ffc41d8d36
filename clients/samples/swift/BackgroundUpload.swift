// A sample that uploads attachments, also while the app is in the background; docs/clients.md describes the steps
// before and after.
//
// Before: call `upload` with the digest below, and take `media_id`, `url` and `headers`, or `parts`, from its reply.
// After: `ended` reports the result.

import CryptoKit
import Foundation

/// Uploads in the background. Create one instance per app at each start: iOS then delivers the uploads that have ended
/// since.
final class BackgroundUpload: NSObject, URLSessionDataDelegate {
    static let partBytes = 8 * 1024 * 1024
    static let wholeBytesMax = 16 * 1024 * 1024

    /// Called with the `media_id` and the HTTP status, or with nil if there was no response. Statuses 200 and 412 mean
    /// that S3 has the bytes: when all parts are uploaded, call `uploaded`, then `send`. After any other result, call
    /// `upload` with the `media_id` for fresh URLs, each time after a longer wait.
    private let ended: (_ mediaId: String, _ status: Int?) -> Void
    private let progress: (_ mediaId: String, _ sent: Int64) -> Void
    /// The completion handler of `application(_:handleEventsForBackgroundURLSession:completionHandler:)`.
    var allHandled: (() -> Void)?

    private lazy var session: URLSession = {
        let configuration = URLSessionConfiguration.background(withIdentifier: "chat.pigeonhole.upload")
        configuration.sessionSendsLaunchEvents = true // the app is started when all of it has ended
        configuration.isDiscretionary = false // the user waits for it
        return URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
    }()

    init(ended: @escaping (String, Int?) -> Void, progress: @escaping (String, Int64) -> Void) {
        (self.ended, self.progress) = (ended, progress)
        super.init()
        _ = session
    }

    /// `file` stays as it is until this has ended. The headers are signed: all of them, and no others.
    func put(_ file: URL, mediaId: String, url: URL, headers: [String: String]) {
        var request = URLRequest(url: url)
        request.httpMethod = "PUT"
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        let task = session.uploadTask(with: request, fromFile: file)
        task.taskDescription = mediaId
        task.resume()
    }

    /// A background session takes files only, so a part becomes one of its own: remove it when it has ended.
    static func part(of file: URL, offset: UInt64, bytes: Int) throws -> URL {
        let handle = try FileHandle(forReadingFrom: file)
        defer { try? handle.close() }
        try handle.seek(toOffset: offset)
        let part = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try (handle.read(upToCount: bytes) ?? Data()).write(to: part)
        return part
    }

    /// `sha256` of `upload`, and above 16 MiB its `parts`.
    static func digest(of file: URL) throws -> (sha256: String, parts: [String]) {
        let handle = try FileHandle(forReadingFrom: file)
        defer { try? handle.close() }
        var parts: [Data] = []
        var whole = SHA256()
        var bytes = 0
        while let part = try handle.read(upToCount: partBytes), !part.isEmpty {
            bytes += part.count
            whole.update(data: part)
            parts.append(Data(SHA256.hash(data: part)))
        }
        if bytes <= wholeBytesMax { return (Data(whole.finalize()).base64EncodedString(), []) }
        let ofParts = SHA256.hash(data: parts.reduce(Data(), +))
        return (Data(ofParts).base64EncodedString(), parts.map { $0.base64EncodedString() })
    }

    // Called on a queue of the session's.

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: Error?) {
        let status = (task.response as? HTTPURLResponse)?.statusCode
        if let mediaId = task.taskDescription { ended(mediaId, error == nil ? status : nil) }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
                    totalBytesExpectedToSend: Int64) {
        if let mediaId = task.taskDescription { progress(mediaId, totalBytesSent) }
    }

    func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
        DispatchQueue.main.async {
            self.allHandled?()
            self.allHandled = nil
        }
    }
}
