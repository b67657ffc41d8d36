import Foundation
internal import PigeonholeFFI

/// Runs the engine: one turn at a time, and then what came out of it.
actor Loop {
    /// The most inputs of a turn, so that a call waits for one short turn.
    private static let inputsMax = 64
    /// The last events that wait for a consumer, if the store has the messages.
    private static let eventsMax = 1000
    private static let retryFirst = Duration.milliseconds(500)
    private static let retryMax = Duration.seconds(30)
    /// Between two new engines.
    private static let restartPause = Duration.seconds(60)

    /// The end of a batch of inputs.
    private enum End {
        case suspend(done: Promise<Void>)
        case close
    }

    private let thread = Thread()
    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    private let config: Config
    private let deviceID: String
    private let links: Links
    private let puts: Puts
    private var engine: Engine?
    private var restartedAt: ContinuousClock.Instant?
    private var alarm: Task<Void, Never>?
    private let began = ContinuousClock.now

    let inbox: Inbox
    let events: EventQueue
    let states = Newest(ConnectionState.connecting)
    private let answers = Locked((last: UInt64(0), waiting: [UInt64: Promise<String>]()))
    private let views = Locked([UInt64: WeakView]())

    init(_ config: Config, deviceID: String, token: @escaping @Sendable (TokenNeed) async throws -> String) {
        let inbox = Inbox()
        self.config = config
        self.deviceID = deviceID
        self.inbox = inbox
        links = Links(config, deviceID: deviceID, inbox: inbox, token: token)
        puts = Puts(inbox)
        switch config.keep {
        case .messages: events = EventQueue(max: Self.eventsMax) { _ in }
        case .outbox:
            events = EventQueue(max: .max) { message in
                let (id, seq) = (message.conversationID, UInt64(message.seq))
                inbox.call(.input(.done(conversationId: id, seq: seq), taken: nil))
            }
        }
    }

    func open() throws {
        engine = try PigeonholeError.from(opened)
    }

    private func opened() throws -> Engine {
        try Engine.open(setup: EngineSetup(
            folder: config.folder?.path(percentEncoded: false),
            messages: config.keep == .messages,
            userId: config.userID,
            seed: .random(in: 0 ... .max),
            timing: config.timing.mapValues { UInt64($0.milliseconds) },
            saved: nil,
            encrypted: config.encrypted.map { Encrypted(seed: $0.export(), deviceId: deviceID) },
            names: config.names,
            http: config.httpURL != nil))
    }

    /// Puts a call into the next turn. The result is complete when the server has replied.
    nonisolated func ask(taken: Promise<Void>? = nil, _ input: (UInt64) -> EdgeInput) -> Promise<String> {
        let answer = Promise<String>()
        let number = answers.withLock { answers in
            answers.last += 1
            answers.waiting[answers.last] = answer
            return answers.last
        }
        if !inbox.call(.input(input(number), taken: taken)) {
            taken?.complete(.failure(PigeonholeError.closed))
            finish(number, .failure(PigeonholeError.closed))
        }
        return answer
    }

    nonisolated func put(_ input: EdgeInput) {
        inbox.call(.input(input, taken: nil))
    }

    private nonisolated func finish(_ ask: UInt64, _ result: Result<String, any Error>) {
        answers.withLock { $0.waiting.removeValue(forKey: ask) }?.complete(result)
    }

    private nonisolated func finishAll(_ why: PigeonholeError) {
        let waiting = answers.withLock { answers in
            defer { answers.waiting = [:] }
            return answers.waiting.values
        }
        for answer in waiting { answer.complete(.failure(why)) }
    }

    /// The number of another view.
    nonisolated func newView() -> UInt64 {
        answers.withLock { answers in
            answers.last += 1
            return answers.last
        }
    }

    nonisolated func open(_ view: any LiveView) {
        precondition(config.keep == .messages, "views need Config.keep to be .messages")
        views.withLock { $0[view.number] = WeakView(view: view) }
        if !inbox.call(.input(view.opened, taken: nil)) { view.end() }
    }

    nonisolated func closeView(_ number: UInt64) {
        views.withLock { $0[number] = nil }
        put(.closeView(view: number))
    }

    func outbox() throws -> [String] {
        try withEngine { try $0.outbox() }
    }

    func devices() throws -> String {
        try withEngine { try $0.devices() }
    }

    func safetyNumber(_ userID: String) throws -> String? {
        try withEngine { try $0.safetyNumber(userId: userID) }
    }

    func search(_ text: String, _ limit: Int) throws -> String {
        try withEngine { try $0.search(text: text, limit: UInt32(clamping: limit)) }
    }

    private func withEngine<Result>(_ call: (Engine) throws -> Result) throws -> Result {
        guard let engine else { throw PigeonholeError.closed }
        return try PigeonholeError.from { try call(engine) }
    }

    /// Until the app closes the client.
    func run() async {
        var why = PigeonholeError.closed
        do {
            try await takeTurns()
        } catch let fault as Fault {
            why = PigeonholeError(fault)
        } catch {
            // Nothing else throws.
        }
        alarm?.cancel()
        for call in inbox.close() { call.fail(why) }
        finishAll(why)
        await links.closeAll()
        puts.close()
        try? engine?.flush()
        engine = nil
        events.end()
        for view in openViews { view.end() }
        states.set(.closed)
        states.end()
    }

    private var openViews: [any LiveView] {
        views.withLock { $0.values.compactMap(\.view) }
    }

    private func takeTurns() async throws {
        setAlarm(try await turn([.zone]))
        for await _ in inbox.signals {
            repeat {
                let (inputs, taken, end) = batch()
                let due: UInt64?
                do {
                    due = try await turn(inputs)
                } catch let fault as Fault {
                    for call in taken { call.complete(.failure(PigeonholeError(fault))) }
                    throw fault
                }
                for call in taken { call.complete(.success(())) }
                switch end {
                case .close: return
                case .suspend(let done): setAlarm(try await suspend(done))
                case nil: setAlarm(due)
                }
            } while !inbox.isEmpty
        }
    }

    /// Calls come first, and the end comes last.
    private func batch() -> (inputs: [EdgeInput], taken: [Promise<Void>], end: End?) {
        var inputs: [EdgeInput] = []
        var taken: [Promise<Void>] = []
        while inputs.count < Self.inputsMax, let call = inbox.nextCall() {
            switch call {
            case .input(let input, let promise):
                inputs.append(input)
                if let promise { taken.append(promise) }
            case .wake: inputs += [.zone, .wake]
            case .suspend(let done): return (inputs + [.closing], taken, .suspend(done: done))
            case .close: return (inputs + [.closing], taken, .close)
            }
        }
        while inputs.count < Self.inputsMax, let news = inbox.nextNews() { inputs.append(news) }
        return (inputs, taken, nil)
    }

    /// Returns the time of the next turn.
    private func turn(_ inputs: [EdgeInput]) async throws -> UInt64? {
        let turn: Turn
        do {
            turn = try engineTurn(inputs)
        } catch Fault.Failed(_, let reason, retryable: true) {
            return try await again(reason)
        } catch let fault as Fault {
            try restart(fault)
            turn = try engineTurn([.zone] + openViews.map(\.opened))
        }
        carryOut(turn)
        return turn.wakeAt
    }

    private func engineTurn(_ inputs: [EdgeInput]) throws -> Turn {
        guard let engine else {
            throw Fault.Failed(code: "closed", reason: PigeonholeError.closed.reason, retryable: false)
        }
        return try engine.turn(inputs: inputs, now: now, wall: Int64(Date.now.timeIntervalSince1970 * 1000))
    }

    /// The store can't be written, of a full disk for example. Until it can, there is no connection.
    private func again(_ reason: String) async throws -> UInt64? {
        let closed = links.closeUnreported()
        states.set(.offline(.init(why: "store", reason: reason, status: nil, retryAt: nil)))
        var pause = Self.retryFirst
        while true {
            try? await Task.sleep(for: pause, clock: .continuous)
            pause = min(pause * 2, Self.retryMax)
            do {
                carryOut(try engineTurn([]))
            } catch Fault.Failed(_, _, retryable: true) {
                continue
            }
            return try await turn(closed.map { .ended(link: $0, why: .store(reason: reason)) })
        }
    }

    /// After a panic, or damage of the store, another engine continues from the store.
    private func restart(_ fault: Fault) throws {
        let recently = restartedAt.map { ContinuousClock.now - $0 < Self.restartPause } ?? false
        restartedAt = .now
        _ = links.closeUnreported()
        // Its end lets go of the store.
        engine = nil
        if recently { throw fault }
        engine = try opened()
        // Their requests are in the outbox, or lost.
        finishAll(PigeonholeError(fault))
        events.put(.restarted)
    }

    /// Does nothing until the app wakes the client or closes it. Until then iOS may suspend the app, and kills one that
    /// has a transaction open.
    private func suspend(_ done: Promise<Void>) async throws -> UInt64? {
        alarm?.cancel()
        let closed = await links.closeAll()
        try? engine?.flush()
        let reason = "the app is in the background"
        states.set(.offline(.init(why: "suspended", reason: reason, status: nil, retryAt: nil)))
        done.complete(.success(()))
        await inbox.woken()
        return try await turn(closed.map { .ended(link: $0, why: .lost(reason: reason)) } + [.wake])
    }

    private func carryOut(_ turn: Turn) {
        for output in turn.outputs {
            switch output {
            case .dial(let link, let need): links.dial(link, TokenNeed(need))
            case .send(let link, let text): links.send(link, text)
            case .post(let link, let request, let action, let text): links.post(link, request, action, text)
            case .close(let link): links.close(link)
            case .put(let id, let path, let offset, let bytes, let url, let headers, let sealed):
                puts.begin(
                    Put(id: id, path: path, offset: offset, bytes: bytes, url: url, headers: headers, sealed: sealed))
            case .abort(let id): puts.abort(id)
            case .carry(let carry, let url, let headers, let put, let bytes):
                puts.carry(Carry(carry: carry, url: url, headers: headers, put: put, bytes: bytes))
            case .answered(let ask, let result): finish(ask, .success(result))
            case .refused(let ask, let code, let reason):
                finish(ask, .failure(PigeonholeError(code: code, reason: reason)))
            case .event(let text): tell(text)
            case .show(let view, let shown): views.withLock { $0[view]?.view }?.show(shown)
            }
        }
    }

    private func tell(_ text: String) {
        // The engine wrote it: nothing in it is unreadable.
        guard let report: Report = try? read(text) else { return }
        switch report {
        case .event(let event): events.put(event)
        case .state(let fields):
            let wait = { (moment: UInt64) in Duration.milliseconds(Int64(moment) - Int64(self.now)) }
            if let state = ConnectionState(fields, wait: wait) { states.set(state) }
        case .unknown: break
        }
    }

    /// In milliseconds, by a clock that runs while the device sleeps.
    private var now: UInt64 { UInt64((ContinuousClock.now - began).milliseconds) }

    private func setAlarm(_ due: UInt64?) {
        alarm?.cancel()
        alarm = due.map { due in
            let wait = Duration.milliseconds(max(0, Int64(due) - Int64(now)))
            return Task.detached { [inbox] in
                if (try? await Task.sleep(for: wait, clock: .continuous)) != nil { inbox.ring() }
            }
        }
    }
}

/// A thread for turns, which wait for the disk: the tasks of the app don't wait for them.
private final class Thread: SerialExecutor {
    private let queue = DispatchQueue(label: "chat.pigeonhole.turns", qos: .userInitiated)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }
}

extension Call {
    fileprivate func fail(_ why: PigeonholeError) {
        switch self {
        case .input(_, let taken): taken?.complete(.failure(why))
        case .suspend(let done): done.complete(.failure(why))
        case .wake, .close: break
        }
    }
}
