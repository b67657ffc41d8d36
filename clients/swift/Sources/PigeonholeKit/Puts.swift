import Foundation
internal import PigeonholeFFI

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A part of a file that goes to a URL.
struct Put: Sendable {
    let id: String
    let path: String
    let offset: UInt64
    let bytes: UInt64
    let url: String
    let headers: [String: String]
    /// The bytes are encrypted as this value says.
    let sealed: String?

    /// Reads all of it: 16 MiB at most.
    func body() throws -> Data {
        if let sealed {
            return try PigeonholeError.from {
                try sealedPart(path: path, offset: offset, bytes: bytes, sealed: sealed)
            }
        }
        let file = try FileHandle(forReadingFrom: URL(filePath: path))
        defer { try? file.close() }
        try file.seek(toOffset: offset)
        let body = try file.read(upToCount: Int(bytes)) ?? Data()
        if body.count < bytes { throw PigeonholeError(code: "file", reason: "the file is shorter than it was") }
        return body
    }
}

/// A file of the encryption, in memory.
struct Carry: Sendable {
    let carry: UInt64
    let url: String
    let headers: [String: String]
    /// `nil`: a download.
    let put: Data?
    let bytes: UInt64

    /// Returns the bytes that have come, none after an upload. `nil`: it failed.
    func bytes(of data: Data?, _ response: URLResponse?) -> Data? {
        guard let status = (response as? HTTPURLResponse)?.statusCode else { return nil }
        let isThere = (200..<300).contains(status)
        // An earlier try has put the bytes.
        if put != nil { return isThere || status == 412 ? Data() : nil }
        guard isThere, let data, data.count <= bytes else { return nil }
        return data
    }
}

/// Uploads in progress.
final class Puts: NSObject, URLSessionTaskDelegate, Sendable {
    private let inbox: Inbox
    private let underWay = Locked([String: URLSessionTask?]())
    private let session = Locked<URLSession?>(nil)
    /// Files are read here, one at a time.
    private let reading = DispatchQueue(label: "chat.pigeonhole.files")

    init(_ inbox: Inbox) {
        self.inbox = inbox
    }

    func begin(_ put: Put) {
        underWay.withLock { $0[put.id] = .some(nil) }
        reading.async { [self] in
            let body: Data
            do {
                body = try put.body()
            } catch {
                // Nothing else can bring a file back. All other failures pass.
                return end(put.id, status: nil, unreadable: error.localizedDescription)
            }
            guard let url = URL(string: put.url) else { return end(put.id, status: nil, unreadable: nil) }
            var request = URLRequest(url: url)
            request.httpMethod = "PUT"
            // No byte may stand still for longer.
            request.timeoutInterval = 30
            // The headers are signed: all of them, and no others. The session sets the length.
            for (name, value) in put.headers where name.lowercased() != "content-length" {
                request.setValue(value, forHTTPHeaderField: name)
            }
            let task = open().uploadTask(with: request, from: body)
            task.taskDescription = put.id
            let isWanted = underWay.withLock { underWay in
                guard underWay[put.id] != nil else { return false }
                underWay[put.id] = task
                return true
            }
            if isWanted { task.resume() } else { task.cancel() }
        }
    }

    func carry(_ file: Carry) {
        guard let url = URL(string: file.url) else { return inbox.report(.carried(carry: file.carry, bytes: nil)) }
        var request = URLRequest(url: url)
        request.httpMethod = file.put == nil ? "GET" : "PUT"
        request.timeoutInterval = 30
        for (name, value) in file.headers where name.lowercased() != "content-length" {
            request.setValue(value, forHTTPHeaderField: name)
        }
        request.httpBody = file.put
        let name = "carry \(file.carry)"
        let task = open().dataTask(with: request) { [self] data, response, _ in
            guard underWay.withLock({ $0.removeValue(forKey: name) }) != nil else { return }
            inbox.report(.carried(carry: file.carry, bytes: file.bytes(of: data, response)))
        }
        underWay.withLock { $0[name] = .some(task) }
        task.resume()
    }

    func abort(_ id: String) {
        underWay.withLock { $0.removeValue(forKey: id) }??.cancel()
    }

    func close() {
        let tasks = underWay.withLock { underWay in
            defer { underWay = [:] }
            return underWay.values.compactMap { $0 }
        }
        for task in tasks { task.cancel() }
        session.withLock { session in
            session?.invalidateAndCancel()
            session = nil
        }
    }

    private func open() -> URLSession {
        session.withLock { session in
            if let session { return session }
            let new = URLSession(configuration: .ephemeral, delegate: self, delegateQueue: nil)
            session = new
            return new
        }
    }

    private func end(_ id: String, status: UInt16?, unreadable: String?) {
        // An aborted upload has nothing to report.
        guard underWay.withLock({ $0.removeValue(forKey: id) }) != nil else { return }
        inbox.report(.putEnded(clientMsgId: id, status: status, unreadable: unreadable))
    }

    func urlSession(
        _: URLSession, task: URLSessionTask, didSendBodyData _: Int64, totalBytesSent: Int64,
        totalBytesExpectedToSend _: Int64
    ) {
        guard let id = task.taskDescription, underWay.withLock({ $0[id] != nil }) else { return }
        inbox.report(.putSent(clientMsgId: id, bytes: UInt64(clamping: totalBytesSent)))
    }

    func urlSession(_: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let id = task.taskDescription else { return }
        let status = error == nil ? (task.response as? HTTPURLResponse)?.statusCode : nil
        end(id, status: status.map { UInt16(clamping: $0) }, unreadable: nil)
    }
}
