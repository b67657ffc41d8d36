// A sample client for Pigeonhole; docs/clients.md has the rules that it follows. URLSessionWebSocketTask: iOS 13, macOS
// 10.15 or later.

import Foundation

/// Not the time of day, which the user can set.
private func uptime() -> TimeInterval { ProcessInfo.processInfo.systemUptime }

@MainActor
final class Pigeonhole {
    typealias Fields = [String: Any]

    private struct Asked {
        let request: Fields
        var since: TimeInterval? = uptime() // nil: put off, so no reply is owed
        var at = uptime() // time of the last `typing`
        var wait = 5.0
    }

    private final class Conversation {
        var shown: Int? // up to here; nil: new on this device, and its start is not known yet
        var last = 0 // the server has messages up to here
        var early: [Int: Fields] = [:] // what came before its turn
        var askAt: TimeInterval = 0 // not before this for what is missing
        var pause = 1.0
        var isWhole: Bool { (shown ?? -1) >= last }
    }

    private let url: URL // wss://….amazonaws.com/v1?device_id=…, one id for each installation
    private let me: String
    private let token: () async throws -> String // called before each connection
    private let show: (Fields) -> Void // each message once, in order, then acknowledged; a deleted one is empty
    private let change: (Fields) -> Void // each change entry, in order; changes the message `target_seq`
    private let tick: (_ conversation: String, _ user: String, _ seq: Int, _ read: Bool) -> Void // read: also delivered
    private let failed: (_ clientMsgId: String, _ why: String) -> Void

    private var socket: URLSessionWebSocketTask?
    private var tasks: [Task<Void, Never>] = []
    private var attempt = 0
    private var isReplaced = false // one connection too many: the next one is the user's to open
    private var heardAt = uptime()
    private var pingAt = uptime()

    // Keep these three, of the conversations what is `shown`, where a restart finds them.
    private var outbox: [(id: String, message: Fields)] = []
    private var conversations: [String: Conversation] = [:]
    private var since: String? // of the last chat list that this device has come up to, the newest time

    private var unacked: [String: Int] = [:]
    private var reads: [String: Int] = [:]
    private var asked: [String: Asked] = [:] // what has no reply yet, by its id
    private var page: [String: Int] = [:] // up to where the last drained page goes
    private var isPaging = false // another one follows, once this one is shown
    private var again = false // something may have become pending after the page that is on its way was read
    private var listed: Set<String> = []
    private var newest: String? // what `since` becomes once all that the chat list names is shown
    private var isListed = false

    init(url: URL, me: String, token: @escaping () async throws -> String, show: @escaping (Fields) -> Void,
         change: @escaping (Fields) -> Void, tick: @escaping (String, String, Int, Bool) -> Void,
         failed: @escaping (String, String) -> Void) {
        (self.url, self.me, self.token, self.tick, self.failed) = (url, me, token, tick, failed)
        (self.show, self.change) = (show, change)
        tasks = [
            Task { await self.run() },
            Task {
                while !Task.isCancelled {
                    try? await Task.sleep(nanoseconds: 1_000_000_000)
                    self.everySecond()
                }
            },
        ]
    }

    func send(to: String, body: String) {
        let id = UUID().uuidString
        outbox.append((id, ["to": to, "client_msg_id": id, "kind": "text", "body": body]))
        sendNext()
    }

    func read(_ conversation: String, _ seq: Int) {
        reads[conversation] = max(seq, reads[conversation] ?? 0)
    }

    /// The app is in the foreground again, where timers have stood still.
    func wake() {
        isReplaced = false
        pingAt = uptime()
        everySecond()
    }

    func close() {
        for task in tasks { task.cancel() }
        socket?.cancel(with: .normalClosure, reason: nil)
    }

    private func run() async {
        while !Task.isCancelled {
            var status = 0
            do {
                let protocols = ["pigeonhole.v1", "bearer.\(try await token())"]
                let opened = URLSession.shared.webSocketTask(with: url, protocols: protocols)
                socket = opened
                opened.resume()
                onOpen()
                while true {
                    if case .string(let text) = try await opened.receive() { onFrame(text) }
                }
            } catch {
                status = (socket?.response as? HTTPURLResponse)?.statusCode ?? 0
                socket = nil
            }
            let isBusy = status == 429 || status >= 500
            let ceiling = min(isBusy ? 300 : 30, 0.5 * pow(2, Double(min(attempt, 10))))
            attempt += 1
            try? await Task.sleep(nanoseconds: UInt64(Double.random(in: 0...ceiling) * 1e9))
            while isReplaced, !Task.isCancelled { try? await Task.sleep(nanoseconds: 1_000_000_000) }
        }
    }

    /// Requests before the end of the handshake wait for it.
    private func onOpen() {
        heardAt = uptime()
        pingAt = uptime() + 300
        asked["inbox"] = nil // The client reads the chat list again, after the drain.
        for id in asked.keys {
            asked[id]?.since = uptime()
            asked[id]?.wait = 5
            say(id)
        }
        drain()
        sendNext()
    }

    private func everySecond() {
        let now = uptime()
        repair()
        if asked["ack"] == nil, let ack = marks() { ask("ack", id: "ack", ["up_to": ack]) }
        for (id, seq) in reads { ask("read", id: "read \(id)", ["conversation_id": id, "seq": seq]) }
        if now >= pingAt {
            pingAt = now + 300
            ask("ping", id: "ping")
        }
        for (id, it) in asked where now > it.at + it.wait {
            asked[id]?.wait = min(2 * it.wait, 40)
            say(id)
        }
        let owedSince = asked.values.compactMap(\.since).min() ?? now
        if now > max(owedSince, heardAt) + 15 { socket?.cancel(with: .goingAway, reason: nil) }
    }

    private func ask(_ action: String, id: String, _ fields: Fields = [:]) {
        guard asked[id] == nil else { return }
        asked[id] = Asked(request: fields.merging(["action": action, "id": id]) { _, new in new })
        say(id)
    }

    private func say(_ id: String) {
        guard let request = asked[id]?.request, let json = try? JSONSerialization.data(withJSONObject: request) else { return }
        asked[id]?.at = uptime()
        asked[id]?.since = asked[id]?.since ?? uptime()
        socket?.send(.string(String(decoding: json, as: UTF8.self))) { _ in } // receive() throws as well.
    }

    private func sendNext() {
        if let (id, message) = outbox.first { ask("send", id: id, message) }
    }

    private func drain() {
        again = asked["drain"] != nil
        if again { return }
        isPaging = false
        ask("drain", id: "drain", marks().map { ["ack": $0] } ?? [:])
    }

    private func list(_ cursor: String?) {
        var fields: Fields = ["limit": 50]
        if let cursor { fields["cursor"] = cursor }
        if let since { fields["since"] = since.dropLast() + "+00:01" } // a minute earlier, by an offset in place of Z
        ask("inbox", id: "inbox", fields)
    }

    private func repair() {
        if asked["drain"] != nil { return } // Which is likely to bring what is missing.
        for (id, it) in conversations where !it.isWhole && uptime() >= it.askAt {
            if let shown = it.shown {
                ask("history", id: id, ["conversation_id": id, "after_seq": shown, "limit": 100])
            } else if outbox.isEmpty {
                ask("history", id: id, ["conversation_id": id, "limit": 1])
            }
        }
    }

    private func marks() -> [Fields]? {
        let marks = Array(unacked.prefix(25))
        for (conversation, _) in marks { unacked[conversation] = nil }
        return marks.isEmpty ? nil : marks.map { ["conversation_id": $0.key, "seq": $0.value] }
    }

    private func onFrame(_ text: String) {
        heardAt = uptime()
        guard let frame = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? Fields else { return }
        let id = frame["id"] as? String ?? ""
        switch frame["type"] as? String {
        case "messages.new":
            for message in frame["messages"] as? [Fields] ?? [] { arrived(message) }
        case "receipt.delivered", "receipt.read":
            if let conversation = frame["conversation_id"] as? String, let user = frame["user_id"] as? String,
               let seq = frame["seq"] as? Int { tick(conversation, user, seq, frame["type"] as? String == "receipt.read") }
        case "reply":
            if let request = asked.removeValue(forKey: id)?.request, let result = frame["result"] as? Fields {
                answered(request, result)
            }
        case "connection.replaced":
            isReplaced = true
            socket?.cancel(with: .goingAway, reason: nil)
        case "error":
            guard let error = frame["error"] as? Fields else { return }
            if error["code"] as? String == "token_expired" {
                socket?.cancel(with: .goingAway, reason: nil)
                return // Where each token is, it is dialled later each time.
            }
            refused(id, error)
        default:
            return // from API Gateway, or newer than this client: requests without a reply are repeated later
        }
        attempt = 0
        if isPaging, page.allSatisfy({ (conversations[$0.key]?.shown ?? -1) >= $0.value }) { drain() }
        if isListed, conversations.values.allSatisfy({ $0.isWhole }) {
            since = newest ?? since
            isListed = false
        }
    }

    private func answered(_ request: Fields, _ result: Fields) {
        switch request["action"] as? String {
        case "drain":
            drained(result["messages"] as? [Fields] ?? [], more: result["more"] as? Bool == true)
        case "inbox":
            listed(result)
        case "history":
            repaired(request["id"] as? String ?? "", isAfter: request["after_seq"] != nil, result)
        case "send":
            outbox.removeAll { $0.id == request["client_msg_id"] as? String }
            arrived(request.merging(result) { _, new in new }.merging(["sender_id": me]) { _, new in new })
            sendNext()
        case "read":
            if let id = request["conversation_id"] as? String, reads[id] == request["seq"] as? Int { reads[id] = nil }
        case "ping":
            if result["pending"] as? Bool == true { drain() }
        default:
            break
        }
    }

    private func refused(_ id: String, _ error: Fields) {
        if error["retryable"] as? Bool == true {
            guard let it = asked[id] else { return }
            // Later each time, and not before the server wishes.
            asked[id]?.at = uptime()
            asked[id]?.wait = max(min(2 * it.wait, 40), min((error["retry_after_ms"] as? Double ?? 0) / 1000, 300))
            asked[id]?.since = nil
            return
        }
        guard let request = asked.removeValue(forKey: id)?.request else { return }
        switch request["action"] as? String {
        case "send":
            outbox.removeAll { $0.id == id }
            failed(id, error["message"] as? String ?? "")
            sendNext()
        case "drain":
            if request["ack"] != nil { drain() } // One entry of it was refused, the others stand.
        case "history":
            conversations[id] = nil // No longer a member: nothing of it will come.
            page[id] = nil
        case "read":
            if let id = request["conversation_id"] as? String { reads[id] = nil }
        default:
            break
        }
    }

    private func drained(_ messages: [Fields], more: Bool) {
        for message in messages { arrived(message, drained: true) }
        if again { return drain() }
        isPaging = more
        page = [:]
        for message in messages {
            if let id = message["conversation_id"] as? String { page[id] = message["seq"] as? Int }
        }
        if !more {
            listed = []
            newest = nil
            list(nil)
        }
    }

    private func listed(_ result: Fields) {
        for row in result["conversations"] as? [Fields] ?? [] {
            guard let id = row["conversation_id"] as? String else { continue }
            let it = conversation(id)
            it.last = max(it.last, row["last_seq"] as? Int ?? 0)
            begin(it, after: row["delivered_seq"] as? Int ?? 0)
            skip(it, to: row["first_seq"] as? Int ?? 1)
            listed.insert(id)
            if let at = (row["last_message"] as? Fields)?["sent_at"] as? String { newest = max(newest ?? at, at) }
        }
        // The first list can be long; what this device doesn't know need not be compared with anything.
        let isEnough = since == nil && listed.isSuperset(of: conversations.keys)
        if let cursor = result["next_cursor"] as? String, !isEnough { list(cursor) } else { isListed = true }
        repair()
    }

    private func repaired(_ id: String, isAfter: Bool, _ result: Fields) {
        let it = conversation(id)
        let before = it.shown
        it.last = max(it.last, result["last_seq"] as? Int ?? 0)
        // A group's page has no mark of this user: the conversation starts with the first entry that came.
        let own = (result["members"] as? [Fields])?.first { $0["user_id"] as? String == me }
        if !isAfter { begin(it, after: own?["delivered_seq"] as? Int ?? it.last) }
        skip(it, to: result["first_seq"] as? Int ?? 1)
        if isAfter { for message in result["messages"] as? [Fields] ?? [] { arrived(message) } }
        let isProgress = it.shown != before
        it.askAt = isProgress ? 0 : uptime() + it.pause
        it.pause = isProgress ? 1 : min(2 * it.pause, 30)
        repair()
    }

    private func arrived(_ message: Fields, drained: Bool = false) {
        guard let id = message["conversation_id"] as? String, let seq = message["seq"] as? Int else { return }
        let it = conversation(id)
        it.last = max(it.last, seq)
        if seq > it.shown ?? 0 { it.early[seq] = message }
        if drained || seq == 1 { begin(it, after: seq - 1) } // Another device has acknowledged the earlier entries.
        showNext(it)
        if let shown = it.shown, shown >= seq { unacked[id] = shown } // Again as well: the ack may have been lost.
    }

    /// Starts after this seq, or before the first entry that has come. An own message without a reply may be earlier,
    /// too.
    private func begin(_ it: Conversation, after: Int) {
        if it.shown != nil || !outbox.isEmpty { return }
        it.shown = min(after, (it.early.keys.min() ?? Int.max) - 1)
        showNext(it)
    }

    /// Skips the entries of a group that this user may not see, after a (new) join: none of them is missing.
    private func skip(_ it: Conversation, to first: Int) {
        guard let shown = it.shown else { return }
        it.shown = max(shown, first - 1)
        it.early = it.early.filter { $0.key >= first }
        showNext(it)
    }

    private func showNext(_ it: Conversation) {
        while let shown = it.shown, let message = it.early.removeValue(forKey: shown + 1) {
            if isMessage(message) { show(message) } else { change(message) }
            it.shown = shown + 1
            if let id = message["conversation_id"] as? String { unacked[id] = shown + 1 }
        }
    }

    /// With `media`, of which `body` is the caption. All else is silent.
    private func isMessage(_ entry: Fields) -> Bool {
        ["text", "image", "file", "voice"].contains(entry["kind"] as? String)
    }

    private func conversation(_ id: String) -> Conversation {
        let it = conversations[id] ?? Conversation()
        conversations[id] = it
        return it
    }
}
