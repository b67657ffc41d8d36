import Foundation
internal import PigeonholeFFI

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The sockets. Their frames go into the inbox; while that is full, no socket is read.
final class Links: Sendable {
    private static let tokenWait = Duration.seconds(10)
    private static let openWait = Duration.seconds(10)
    fileprivate static let closeWait = Duration.seconds(1)
    /// In seconds. API Gateway waits 29 s for a function.
    private static let postWait = 30.0

    private let config: Config
    private let deviceID: String
    private let inbox: Inbox
    private let token: @Sendable (TokenNeed) async throws -> String
    private let open = Locked([UInt64: Link]())
    private let posts = Locked<URLSession?>(nil)

    init(
        _ config: Config, deviceID: String, inbox: Inbox,
        token: @escaping @Sendable (TokenNeed) async throws -> String
    ) {
        (self.config, self.deviceID, self.inbox, self.token) = (config, deviceID, inbox, token)
    }

    func dial(_ number: UInt64, _ need: TokenNeed) {
        let link = Link(number, inbox) { [weak self] in self?.open.withLock { $0[number] = nil } }
        open.withLock { $0[number] = link }
        Task.detached { await self.dial(link, need) }
    }

    func send(_ number: UInt64, _ text: String) {
        open.withLock { $0[number] }?.send(text)
    }

    /// Sends a request over HTTP, with the token of this connection.
    func post(_ number: UInt64, _ request: UInt64, _ action: String, _ text: String) {
        let report = { @Sendable [inbox] (status: Int?, body: String) in
            let status = status.map { UInt16(clamping: $0) }
            inbox.report(.posted(link: number, request: request, status: status, body: body))
        }
        guard let url = config.httpURL, let token = open.withLock({ $0[number] })?.token else { return report(nil, "") }
        var post = URLRequest(url: url.appending(path: "v1/\(action)"))
        post.httpMethod = "POST"
        post.timeoutInterval = Self.postWait
        post.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        post.setValue(deviceID, forHTTPHeaderField: "X-Device-Id")
        post.setValue("application/json", forHTTPHeaderField: "Content-Type")
        post.httpBody = Data(text.utf8)
        let session = posts.withLock { posts in
            let session = posts ?? URLSession(configuration: .ephemeral)
            posts = session
            return session
        }
        session.dataTask(with: post) { data, response, error in
            let status = error == nil ? (response as? HTTPURLResponse)?.statusCode : nil
            report(status, String(decoding: data ?? Data(), as: UTF8.self))
        }.resume()
    }

    /// Without a report: the engine has decided it.
    func close(_ number: UInt64) {
        open.withLock { $0.removeValue(forKey: number) }?.close()
    }

    /// Closes all without a report, and returns their numbers.
    func closeUnreported() -> [UInt64] {
        let numbers = open.withLock { $0.keys.sorted() }
        for number in numbers { close(number) }
        return numbers
    }

    /// Closes all without a report, and waits for the other side, for a short time. Returns their numbers.
    @discardableResult
    func closeAll() async -> [UInt64] {
        let links = open.withLock { open in
            defer { open = [:] }
            return open.values.sorted { $0.number < $1.number }
        }
        for link in links { link.close() }
        posts.withLock { posts in
            posts?.invalidateAndCancel()
            posts = nil
        }
        for link in links { await link.closed(within: Self.closeWait) }
        return links.map(\.number)
    }

    private func dial(_ link: Link, _ need: TokenNeed) async {
        let token: String
        do {
            token = try await within(Self.tokenWait) { [self] in try await self.token(need) }
        } catch is Late {
            return link.end(.noToken(reason: "no token came within \(Self.tokenWait)"))
        } catch {
            return link.end(.noToken(reason: String(describing: error)))
        }
        let info = inspect(token: token, wallMs: UInt64(Date.now.timeIntervalSince1970 * 1000))
        if let user = info.userId, user != config.userID {
            let problem = "the token is for the user \"\(user)\" (its sub), and the client for \"\(config.userID)\""
            return link.end(.wrongUser(reason: problem))
        }
        // A line break in it would be another header.
        guard token.isPrintable else {
            return link.end(.noToken(reason: "the token has characters that no token has"))
        }
        var request = URLRequest(url: config.url.appending(queryItems: [URLQueryItem(name: "device_id", value: deviceID)]))
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        #if canImport(FoundationNetworking)
            // Foundation for Linux would write `keep-alive`, which is no handshake.
            request.setValue("Upgrade", forHTTPHeaderField: "Connection")
        #endif
        // The engine notices a silent connection. This time must not end one that is only quiet.
        request.timeoutInterval = 24 * 60 * 60
        link.open(request, token: token, tokenLeft: info.leftMs)
        try? await Task.sleep(for: Self.openWait, clock: .continuous)
        link.giveUp()
    }
}

extension String {
    /// Printable ASCII characters without spaces, and at least one.
    var isPrintable: Bool { !isEmpty && utf8.allSatisfy { (0x21...0x7e).contains($0) } }
}

private struct Late: Error {}

/// Returns at the end of the time, even if the work ignores that it is cancelled.
private func within<Value: Sendable>(
    _ time: Duration, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let promise = Promise<Value>()
    let working = Task.detached {
        do {
            promise.complete(.success(try await work()))
        } catch {
            promise.complete(.failure(error))
        }
    }
    let waiting = Task.detached {
        try await Task.sleep(for: time, clock: .continuous)
        promise.complete(.failure(Late()))
    }
    defer {
        working.cancel()
        waiting.cancel()
    }
    return try await promise.value
}

/// One connection.
private final class Link: NSObject, URLSessionWebSocketDelegate, Sendable {
    private struct Contents {
        var session: URLSession?
        var token: String?
        var tokenLeft: UInt64?
        var isOpen = false
        /// The end is decided: nothing more is reported.
        var isClosed = false
    }

    let number: UInt64
    private let inbox: Inbox
    private let onEnd: @Sendable () -> Void
    private let contents = Locked(Contents())
    private let (frames, outgoing) = AsyncStream<String>.makeStream()
    private let closed = Promise<Void>()

    init(_ number: UInt64, _ inbox: Inbox, onEnd: @escaping @Sendable () -> Void) {
        (self.number, self.inbox, self.onEnd) = (number, inbox, onEnd)
    }

    var token: String? { contents.withLock { $0.token } }

    func open(_ request: URLRequest, token: String, tokenLeft: UInt64?) {
        let session = URLSession(configuration: .ephemeral, delegate: self, delegateQueue: nil)
        let isWanted = contents.withLock { contents in
            (contents.session, contents.token, contents.tokenLeft) = (session, token, tokenLeft)
            return !contents.isClosed
        }
        if isWanted { session.webSocketTask(with: request).resume() } else { drop() }
    }

    /// There was time enough to open.
    func giveUp() {
        if !contents.withLock({ $0.isOpen }) { end(.unreachable(reason: "the server did not reply in time")) }
    }

    func send(_ text: String) {
        outgoing.yield(text)
    }

    /// Says goodbye without a report, after the frames that are on their way out.
    func close() {
        let isOpen = contents.withLock { contents in
            contents.isClosed = true
            return contents.isOpen
        }
        outgoing.finish()
        // A socket that is not open yet can't say goodbye.
        if !isOpen { return drop() }
        Task.detached { await self.closed(within: Links.closeWait) }
    }

    /// Waits for the other side's goodbye.
    func closed(within time: Duration) async {
        try? await PigeonholeKit.within(time) { [closed] in try await closed.value }
        drop()
    }

    private func drop() {
        contents.withLock { contents in
            defer { contents.session = nil }
            return contents.session
        }?.invalidateAndCancel()
        closed.complete(.success(()))
    }

    /// Reports the end, unless it was decided here.
    func end(_ why: Why) {
        onEnd()
        let isNew = contents.withLock { contents in
            defer { contents.isClosed = true }
            return !contents.isClosed
        }
        if isNew { inbox.report(.ended(link: number, why: why)) }
        outgoing.finish()
        drop()
    }

    private func read(_ task: URLSessionWebSocketTask) async {
        do {
            var frame = ""
            while true {
                // The protocol has no other frames. A frame that comes while it closes may be the last reply.
                guard case .string(let text) = try await task.receive() else { continue }
                frame += text
                #if canImport(FoundationNetworking)
                    // Foundation for Linux hands a long frame over in pieces.
                    let isWhole = frame.last == "}"
                        && (try? JSONSerialization.jsonObject(with: Data(frame.utf8))) != nil
                    if !isWhole { continue }
                #endif
                await inbox.reportFrame(.frame(link: number, text: frame))
                frame = ""
            }
        } catch {
            end(task.closeCode == .invalid ? .lost(reason: error.localizedDescription) : .closed)
        }
    }

    private func write(_ task: URLSessionWebSocketTask) async {
        // The reader learns why a frame can't be sent.
        for await text in frames { try? await task.send(.string(text)) }
        task.cancel(with: .normalClosure, reason: nil)
    }

    // The session calls these one at a time.

    func urlSession(_: URLSession, webSocketTask: URLSessionWebSocketTask, didOpenWithProtocol _: String?) {
        // Foundation for Linux calls this for each response.
        if let response = webSocketTask.response as? HTTPURLResponse, response.statusCode != 101 { return }
        let tokenLeft = contents.withLock { contents in
            contents.isOpen = true
            return contents.tokenLeft
        }
        inbox.report(.opened(link: number, tokenLeftMs: tokenLeft))
        Task.detached { await self.read(webSocketTask) }
        Task.detached { await self.write(webSocketTask) }
    }

    func urlSession(
        _: URLSession, webSocketTask _: URLSessionWebSocketTask, didCloseWith _: URLSessionWebSocketTask.CloseCode,
        reason _: Data?
    ) {
        end(.closed)
    }

    func urlSession(_: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let isOpen = contents.withLock { $0.isOpen }
        let reason = error?.localizedDescription ?? "the connection has ended"
        if isOpen {
            end(.lost(reason: reason))
        } else if let status = (task.response as? HTTPURLResponse)?.statusCode, status >= 400 {
            end(.status(status: UInt16(clamping: status)))
        } else {
            end(.unreachable(reason: reason))
        }
    }
}
