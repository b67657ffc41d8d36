import Foundation

/// A value behind a lock. `Synchronization.Mutex` would need iOS 18.
final class Locked<Value>: @unchecked Sendable {
    private var value: Value
    private let lock = NSLock()

    init(_ value: sending Value) {
        self.value = value
    }

    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}

/// A result that comes once, for any number of tasks.
final class Promise<Value: Sendable>: Sendable {
    private enum Stage {
        case waiting([UUID: CheckedContinuation<Value, any Error>])
        case complete(Result<Value, any Error>)
    }

    private let stage = Locked(Stage.waiting([:]))

    /// The first result counts.
    func complete(_ result: Result<Value, any Error>) {
        let waiting = stage.withLock { stage -> [CheckedContinuation<Value, any Error>] in
            guard case .waiting(let waiting) = stage else { return [] }
            stage = .complete(result)
            return Array(waiting.values)
        }
        for continuation in waiting { continuation.resume(with: result) }
    }

    /// Waits for the result. The end of the waiting task ends its wait alone.
    var value: Value {
        get async throws {
            let id = UUID()
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { wait(id, $0) }
            } onCancel: {
                leave(id)?.resume(throwing: CancellationError())
            }
        }
    }

    private func wait(_ id: UUID, _ continuation: CheckedContinuation<Value, any Error>) {
        let result = stage.withLock { stage -> Result<Value, any Error>? in
            switch stage {
            case .complete(let result):
                return result
            case .waiting(var waiting):
                if Task.isCancelled { return .failure(CancellationError()) }
                waiting[id] = continuation
                stage = .waiting(waiting)
                return nil
            }
        }
        if let result { continuation.resume(with: result) }
    }

    private func leave(_ id: UUID) -> CheckedContinuation<Value, any Error>? {
        stage.withLock { stage in
            guard case .waiting(var waiting) = stage else { return nil }
            let continuation = waiting.removeValue(forKey: id)
            stage = .waiting(waiting)
            return continuation
        }
    }
}
