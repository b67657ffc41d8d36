import Foundation

/// The events, in their order, for one consumer. A loop that ends loses nothing: the next one continues. The sequence ends
/// with ``Pigeonhole/close()``.
///
/// With ``Keep/messages``, an app needs no consumer: at most the last 1,000 events wait for one.
///
/// With ``Keep/outbox``, the client acknowledges a message when the consumer requests the next event: an app that stores
/// messages does so first. After a crash, an unfinished message comes again.
public struct Events: AsyncSequence, Sendable {
    let queue: EventQueue

    public struct AsyncIterator: AsyncIteratorProtocol {
        let queue: EventQueue

        public func next() async -> Event? {
            await queue.next()
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(queue: queue)
    }
}

/// Not an `AsyncStream`, which ends for ever with the first task that is cancelled.
final class EventQueue: Sendable {
    private struct Contents {
        var events: ArraySlice<Event> = []
        var waiting: [(id: UUID, continuation: CheckedContinuation<Event?, Never>)] = []
        var isOver = false
        /// The consumer has this message, and has not requested the next event.
        var unfinished: Message?

        mutating func hand(_ event: Event, to continuation: CheckedContinuation<Event?, Never>) {
            if case .entry(let message, _) = event { unfinished = message }
            continuation.resume(returning: event)
        }
    }

    private let contents = Locked(Contents())
    private let max: Int
    private let onFinished: @Sendable (Message) -> Void

    /// Above `max`, the oldest event is lost.
    init(max: Int, onFinished: @escaping @Sendable (Message) -> Void) {
        (self.max, self.onFinished) = (max, onFinished)
    }

    func put(_ event: Event) {
        contents.withLock { contents in
            if contents.isOver { return }
            if contents.waiting.isEmpty {
                if contents.events.count >= max { contents.events.removeFirst() }
                contents.events.append(event)
            } else {
                contents.hand(event, to: contents.waiting.removeFirst().continuation)
            }
        }
    }

    func end() {
        contents.withLock { contents in
            contents.isOver = true
            for waiting in contents.waiting { waiting.continuation.resume(returning: nil) }
            contents.waiting = []
        }
    }

    func next() async -> Event? {
        let finished = contents.withLock { contents in
            defer { contents.unfinished = nil }
            return contents.unfinished
        }
        if let finished { onFinished(finished) }
        let id = UUID()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Event?, Never>) in
                contents.withLock { contents in
                    if Task.isCancelled {
                        continuation.resume(returning: nil)
                    } else if let event = contents.events.popFirst() {
                        contents.hand(event, to: continuation)
                    } else if contents.isOver {
                        continuation.resume(returning: nil)
                    } else {
                        contents.waiting.append((id, continuation))
                    }
                }
            }
        } onCancel: {
            contents.withLock { contents in
                guard let place = contents.waiting.firstIndex(where: { $0.id == id }) else { return }
                contents.waiting.remove(at: place).continuation.resume(returning: nil)
            }
        }
    }
}
