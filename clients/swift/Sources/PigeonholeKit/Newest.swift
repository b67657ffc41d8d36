import Foundation

/// The newest value, and its listeners.
final class Newest<Value: Sendable>: Sendable {
    private struct Contents {
        var current: Value
        var isOver = false
        /// `nil`: there is no further value.
        var listeners: [UUID: @Sendable (Value?) -> Void] = [:]
    }

    private let contents: Locked<Contents>

    init(_ value: Value) {
        contents = Locked(Contents(current: value))
    }

    var current: Value { contents.withLock { $0.current } }

    func set(_ value: Value) {
        contents.withLock { contents in
            contents.current = value
            for listener in contents.listeners.values { listener(value) }
        }
    }

    func end() {
        let listeners = contents.withLock { contents in
            contents.isOver = true
            return contents.listeners.values
        }
        // Without the lock, which the end of a stream takes.
        for listener in listeners { listener(nil) }
    }

    /// A part of the current value and of each new one. A slow consumer gets the newest. The stream keeps its owner.
    func stream<Part: Sendable>(
        of owner: (any AnyObject & Sendable)? = nil, _ part: @escaping @Sendable (Value) -> Part?
    ) -> AsyncStream<Part> {
        let (stream, continuation) = AsyncStream.makeStream(of: Part.self, bufferingPolicy: .bufferingNewest(1))
        let id = UUID()
        continuation.onTermination = { [self] _ in
            let listener = contents.withLock { $0.listeners.removeValue(forKey: id) }
            // The end of an owner is outside of the lock.
            _ = listener
        }
        let isOver = contents.withLock { contents in
            if let part = part(contents.current) { continuation.yield(part) }
            contents.listeners[id] = { value in
                _ = owner
                if let value {
                    if let part = part(value) { continuation.yield(part) }
                } else {
                    continuation.finish()
                }
            }
            return contents.isOver
        }
        if isOver { continuation.finish() }
        return stream
    }
}
