import Foundation
internal import PigeonholeFFI

/// A call of the app.
enum Call: Sendable {
    case input(EdgeInput, taken: Promise<Void>?)
    /// Closes the connections until the app wakes the client.
    case suspend(done: Promise<Void>)
    case wake
    case close
}

/// The inputs of the next turns, from any thread.
final class Inbox: Sendable {
    /// While this number of frames and reports wait, no socket is read.
    private static let newsMax = 64

    private struct Contents {
        var calls: ArraySlice<Call> = []
        var news: ArraySlice<EdgeInput> = []
        /// The sockets that wait for room.
        var readers: [CheckedContinuation<Void, Never>] = []
        var isClosed = false
    }

    private let contents = Locked(Contents())
    private let signal: AsyncStream<Void>.Continuation
    /// A signal for all that came before it.
    let signals: AsyncStream<Void>

    init() {
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Returns false if the client is closed.
    @discardableResult
    func call(_ call: Call) -> Bool {
        let isOpen = contents.withLock { contents in
            if !contents.isClosed { contents.calls.append(call) }
            return !contents.isClosed
        }
        signal.yield()
        return isOpen
    }

    func report(_ input: EdgeInput) {
        contents.withLock { $0.news.append(input) }
        signal.yield()
    }

    /// Returns as soon as there is room for the next one.
    func reportFrame(_ frame: EdgeInput) async {
        await withCheckedContinuation { (reader: CheckedContinuation<Void, Never>) in
            let hasRoom = contents.withLock { contents in
                if contents.isClosed { return true }
                contents.news.append(frame)
                let hasRoom = contents.news.count < Self.newsMax
                if !hasRoom { contents.readers.append(reader) }
                return hasRoom
            }
            signal.yield()
            if hasRoom { reader.resume() }
        }
    }

    /// A turn is due.
    func ring() {
        signal.yield()
    }

    func nextCall() -> Call? {
        contents.withLock { $0.calls.popFirst() }
    }

    func nextNews() -> EdgeInput? {
        let (news, readers) = contents.withLock { contents in
            let news = contents.news.popFirst()
            guard contents.news.count < Self.newsMax else { return (news, [CheckedContinuation<Void, Never>]()) }
            defer { contents.readers = [] }
            return (news, contents.readers)
        }
        for reader in readers { reader.resume() }
        return news
    }

    var isEmpty: Bool {
        contents.withLock { $0.calls.isEmpty && $0.news.isEmpty }
    }

    /// Waits until the app wakes the client or closes it. All other calls wait with it.
    func woken() async {
        for await _ in signals {
            let (isAwake, suspended) = contents.withLock { contents in
                var (isAwake, suspended) = (false, [Promise<Void>]())
                contents.calls.removeAll { call in
                    switch call {
                    case .suspend(let done): suspended.append(done)
                    case .wake, .close: isAwake = true
                    case .input: break
                    }
                    if case .suspend = call { return true }
                    return false
                }
                return (isAwake, suspended)
            }
            for done in suspended { done.complete(.success(())) }
            if isAwake { return }
        }
    }

    /// Takes no further calls, and lets the readers go. Returns the calls that no turn has taken.
    func close() -> [Call] {
        let (calls, readers) = contents.withLock { contents in
            contents.isClosed = true
            defer { contents.readers = [] }
            return (Array(contents.calls), contents.readers)
        }
        for reader in readers { reader.resume() }
        return calls
    }
}
