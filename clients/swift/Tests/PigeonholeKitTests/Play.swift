// One engine, in the hands of a script.

import Foundation
import PigeonholeFFI

@testable import PigeonholeKit

final class Play {
    private struct Asked {
        let link: UInt64
        let by: String
        let frame: JSON
    }

    private let scenario: JSON
    private let folder = FileManager.default.temporaryDirectory.appending(path: "play-\(UUID().uuidString)")
    private var engine: Engine?
    private var now: UInt64 = 0
    private var wakeAt: UInt64?
    private var dialing: UInt64?
    private var open: [UInt64] = []

    // The engine's outputs that no step has expected yet.
    private var dials: [String] = []
    private var asks: [Asked] = []
    private var closes: [UInt64] = []
    private var events: [String] = []
    private var puts: [Put] = []
    private var aborts: [String] = []
    /// The newest content of each view that has changed.
    private var shown: [UInt64: String] = [:]
    private var answers: [String: (ok: JSON?, code: String?)] = [:]

    /// The requests that have a name.
    private var named: [String: Asked] = [:]
    /// The message whose bytes each URL takes.
    private var putting: [String: String] = [:]
    /// The names of the app's calls.
    private var calls: [UInt64: String] = [:]
    private var lastAsk: UInt64 = 0

    init(_ scenario: JSON) throws {
        self.scenario = scenario
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        engine = try opened(saved: scenario["saved"])
        try turn()
    }

    deinit {
        engine = nil
        try? FileManager.default.removeItem(at: folder)
    }

    private func opened(saved: JSON?) throws -> Engine {
        let timing = (scenario["timing"]?.object ?? [:]).compactMapValues(\.int).mapValues(UInt64.init)
        return try Engine.open(setup: EngineSetup(
            folder: folder.path(), messages: scenario["keep"]?.string == "messages", userId: "alice",
            seed: .random(in: 0 ... .max), timing: timing, saved: saved?.text,
            // The app says so before anything else.
            names: (scenario["steps"]?.array ?? []).contains { $0["app"]?.string == "names" },
            http: scenario["http"] != nil))
    }

    func take(_ step: JSON) throws {
        do {
            if try !expect(step) {
                try nothingElse()
                try happen(step)
            }
        } catch {
            throw Problem("“\(scenario["name"]?.string ?? "")” at \(step.text): \(error)")
        }
    }

    func nothingElse() throws {
        let left: [any Collection] = [dials, asks, closes, events, puts, aborts, answers, shown]
        if left.contains(where: { !$0.isEmpty }) { throw Problem("there are \(left)") }
    }

    private func turn(_ inputs: EdgeInput...) throws {
        let turn = try engine!.turn(inputs: inputs, now: now, wall: 0)
        wakeAt = turn.wakeAt
        for output in turn.outputs {
            switch output {
            case .dial(let link, let need):
                dialing = link
                dials.append("\(need)")
            case .send(let link, let text):
                asks.append(Asked(link: link, by: "socket", frame: try JSON(parsing: text)))
            case .post(let link, let request, let action, let text):
                let frame = try JSON(parsing: text)
                try same([.string(action), .string("\(request)")], [frame["action"]!, frame["id"]!])
                asks.append(Asked(link: link, by: "http", frame: frame))
            case .close(let link):
                open.removeAll { $0 == link }
                closes.append(link)
            case .event(let text): events.append(text)
            case .answered(let ask, let result): answers[calls.removeValue(forKey: ask)!] = (try JSON(parsing: result), nil)
            case .refused(let ask, let code, _): answers[calls.removeValue(forKey: ask)!] = (nil, code)
            case .put(let id, let path, let offset, let bytes, let url, let headers, let sealed):
                puts.append(Put(id: id, path: path, offset: offset, bytes: bytes, url: url, headers: headers, sealed: sealed))
            case .abort(let id): aborts.append(id)
            case .carry: fatalError("no client has keys here")
            case .show(let view, let content): shown[view] = content
            }
        }
    }

    // Steps that happen to the client.

    private func happen(_ step: JSON) throws {
        let verbs = ["app", "wait", "open", "fail", "end", "server", "raw", "answer", "put"]
        guard let verb = verbs.first(where: { step[$0] != nil }), let what = step[verb] else {
            throw Problem("there is no such step")
        }
        switch verb {
        case "app": try app(what, step["as"]?.string ?? "")
        case "wait": try pass(UInt64(what.int!))
        case "open":
            let link = try dialed()
            open.append(link)
            try turn(.opened(link: link, tokenLeftMs: what["token_ms"]?.int.map(UInt64.init)))
        case "fail": try turn(.ended(link: dialed(), why: whyNotOpened(what)))
        case "end":
            let link = link(step)
            open.removeAll { $0 == link }
            // A connection that ends without a goodbye has no code.
            try turn(.ended(link: link, why: what.int == 1006 ? .lost(reason: "") : .closed))
        case "server": try turn(.frame(link: link(step), text: what.text))
        case "raw": try turn(.frame(link: link(step), text: what.string!))
        case "answer": try answer(named[what.string!]!, step)
        default: try put(what)
        }
    }

    private func dialed() throws -> UInt64 {
        guard let link = dialing else { throw Problem("nothing is being dialled") }
        dialing = nil
        return link
    }

    private func whyNotOpened(_ what: JSON) throws -> Why {
        switch what["reason"]?.string {
        case "unreachable": .unreachable(reason: "")
        case "refused", "token_refused": .status(status: UInt16(what["status"]?.int ?? 0))
        case "no_token": .noToken(reason: "")
        case "wrong_user": .wrongUser(reason: "")
        default: throw Problem("there is no such reason")
        }
    }

    private func app(_ what: JSON, _ name: String) throws {
        switch what.string {
        case "restart":
            engine = nil
            engine = try opened(saved: nil)
            dialing = nil
            (open, putting) = ([], [:])
            return try turn()
        case "close": return try turn(.closing)
        case "wake": return try turn(.wake)
        case "names": return
        default: break
        }
        guard let (does, fields) = what.object?.first else { throw Problem("there is no such step") }
        if let id = fields.string {
            return try turn(does == "again" ? .again(ask: ask(name), clientMsgId: id) : .dismiss(clientMsgId: id))
        }
        let view = fields["view"]?.int.map(UInt64.init)
        let content = fields.without("view").text
        let id = fields["conversation_id"]?.string ?? ""
        let seq = fields["seq"]?.int.map(UInt64.init)
        switch does {
        case "send": try keep(fields)
        case "reply": try keep(fields.without("seq").with("reply_to", fields["seq"]!))
        case "show": try turn(.open(view: view!, of: content))
        case "act": try turn(.act(view: view!, act: content))
        case "hide": try turn(.closeView(view: view!))
        case "draft":
            let draft = fields["body"]?.string.map { JSON.object(["body": .string($0)]).text }
            try turn(.draft(target: fields.without("body").text, draft: draft))
        case "typing": try turn(.typing(conversationId: id))
        case "read": try turn(.read(ask: ask(name), conversationId: id, seq: seq!))
        case "done": try turn(.done(conversationId: id, seq: seq!))
        case "cancel": try turn(.cancel(ask: ask(name), clientMsgId: fields["client_msg_id"]!.string!))
        case "watch":
            let after = fields["after_seq"]?.int.map(UInt64.init)
            try turn(.watch(ask: ask(name), conversationId: id, afterSeq: after))
        case "unwatch": try turn(.unwatch(conversationId: id))
        default:
            if fields["client_msg_id"] != nil {
                let change = (fields.object ?? [:]).filter { ["client_msg_id", "conversation_id"].contains($0.key) }
                try keep(JSON.object(change).with(does, fields.without("client_msg_id")))
            } else {
                try turn(.ask(ask: ask(name), request: fields.with("action", .string(does)).text))
            }
        }
    }

    private func keep(_ fields: JSON) throws {
        try turn(.keep(ask: ask(fields["client_msg_id"]!.string!), request: queued(fields).text))
    }

    private func ask(_ name: String) -> UInt64 {
        lastAsk += 1
        calls[lastAsk] = name
        return lastAsk
    }

    /// Ends a PUT with the result of the step.
    private func put(_ what: JSON) throws {
        let url = what["url"]!.string!
        guard let id = putting[url] else { throw Problem("nothing is being uploaded to \(url)") }
        if let sent = what["sent"]?.int { return try turn(.putSent(clientMsgId: id, bytes: UInt64(sent))) }
        putting[url] = nil
        let unreadable = what["unreadable"] == nil ? nil : "no"
        try turn(.putEnded(clientMsgId: id, status: what["status"]?.int.map(UInt16.init), unreadable: unreadable))
    }

    private func pass(_ ms: UInt64) throws {
        let end = now + ms
        while let next = wakeAt, next < end {
            now = max(now, next)
            try turn()
            try nothingElse()
        }
        now = end
        try turn()
    }

    private func link(_ step: JSON) -> UInt64 {
        step["link"]?.int.map(UInt64.init) ?? open.last!
    }

    private func answer(_ asked: Asked, _ step: JSON) throws {
        let (kind, field) = step["error"] != nil ? ("error", "error") : ("reply", "result")
        let frame: JSON = if let what = step["broken"] ?? step[field] {
            ["type": .string(kind), "action": asked.frame["action"]!, "id": asked.frame["id"] ?? .null, field: what]
        } else {
            ["message": "Too Many Requests"]
        }
        if asked.by == "socket" { return try turn(.frame(link: asked.link, text: frame.text)) }
        let status = step["status"].map { $0.int.map(UInt16.init) } ?? 200
        let request = UInt64(asked.frame["id"]!.string!)!
        try turn(.posted(link: asked.link, request: request, status: status, body: frame.text))
    }

    // Steps that the client is expected to do. `false`: it is none.

    private func expect(_ step: JSON) throws -> Bool {
        if let dial = step["dials"] {
            let need = try next(step) { self.dials.isEmpty ? nil : self.dials.removeFirst() }
            try expectWithin(dial, ["need": .string(need)], "dials")
        } else if let request = step["asks"] {
            try expectRequest(step, request)
        } else if let expected = step["puts"] {
            let put = try next(step) { self.puts.isEmpty ? nil : self.puts.removeFirst() }
            let found: JSON = [
                "file": .string(put.path), "offset": .int(Int(put.offset)), "bytes": .int(Int(put.bytes)),
                "url": .string(put.url), "headers": .object(put.headers.mapValues(JSON.string)),
            ]
            try same(expected, found)
            putting[put.url] = put.id
        } else if let expected = step["aborts"] {
            try same(expected, aborts.isEmpty ? .null : .string(aborts.removeFirst()))
        } else if let expected = step["closes"] {
            try same(expected, closes.isEmpty ? .null : .int(Int(closes.removeFirst())))
        } else if let told = step["told"] {
            for event in told.array ?? [told] { try expectEvent(step, event) }
        } else if let expected = step["shows"] {
            let view = UInt64(expected["view"]?.int ?? 0)
            guard let found = shown.removeValue(forKey: view) else { throw Problem("it does not: \(shown)") }
            try expectShown(expected, found)
        } else if let name = step["answered"]?.string {
            guard let (ok, code) = answers.removeValue(forKey: name) else { throw Problem("it has not: \(answers)") }
            try same(step["error"] ?? .null, code.map(JSON.string) ?? .null)
            try expectWithin(step["ok"], ok, "ok")
        } else if let saved = step["saved"] {
            let found = try JSON(parsing: engine!.saved())
            let ids = (found["outbox"]?.array ?? []).map { $0["client_msg_id"]! }
            try same(saved.whole, found.with("outbox", .array(ids)).whole)
        } else if let expected = step["outbox"]?.array {
            let found = try engine!.outbox().map(JSON.init(parsing:))
            try same(.array(expected), .array(found.enumerated().map { place, request in
                let isWritten = place < expected.count && expected[place].object != nil
                return isWritten ? plainQueued(request) : request["client_msg_id"]!
            }))
        } else if let stats = step["stats"] {
            try expectWithin(stats, counters(), "stats")
        } else {
            return false
        }
        return true
    }

    private func same(_ expected: JSON, _ found: JSON) throws {
        if expected != found { throw Problem("found \(found.text), expected \(expected.text)") }
    }

    private func counters() throws -> JSON {
        let all = try engine!.counters()
        let numbers = [
            "sent": all.sent, "answered": all.answered, "resent": all.resent, "failed": all.failed,
            "received": all.received, "duplicates_dropped": all.duplicatesDropped, "gaps_repaired": all.gapsRepaired,
            "reconnects": all.reconnects,
        ]
        return .object(numbers.mapValues { .int(Int($0)) })
    }

    private func expectRequest(_ step: JSON, _ request: JSON) throws {
        let wanted = comparable(request)
        let asked = try next(step) {
            self.asks.firstIndex { comparable($0.frame) == wanted }.map { self.asks.remove(at: $0) }
        }
        try same(step["by"] ?? "socket", .string(asked.by))
        if let link = step["link"]?.int { try same(.int(link), .int(Int(asked.link))) }
        if let name = step["again"]?.string { try same(named[name]?.frame["id"] ?? .null, asked.frame["id"] ?? .null) }
        if let name = step["as"]?.string { named[name] = asked }
        if step["result"] != nil || step["error"] != nil { try answer(asked, step) }
    }

    private func expectEvent(_ step: JSON, _ told: JSON) throws {
        let text = try next(step) { self.events.isEmpty ? nil : self.events.removeFirst() }
        let event = try JSON(parsing: text)
        try expectWithin(told, plainEvent(event), "told")
        switch try read(text, as: Report.self) {
        // The types of the client have all that the server sends.
        case .event(.entry(let message, _)):
            try same((event["message"]?["entry"] ?? .null).whole, written(message).whole)
            if step["done"] != false {
                try turn(.done(conversationId: message.conversationID, seq: UInt64(message.seq)))
            }
        case .event(.rowChanged(let row)): try same((event["conversation"] ?? .null).whole, written(row).whole)
        case .event: break
        case .state(let fields):
            if ConnectionState(fields, wait: { _ in .zero }) == nil { throw Problem("there is no such state: \(text)") }
        case .unknown: throw Problem("there is no such event: \(text)")
        }
    }

    /// Takes the expected output if it is present, or comes within the time that the step allows.
    private func next<Output>(_ step: JSON, _ take: () -> Output?) throws -> Output {
        let within = step["within"]?.int
        let end = now + UInt64(within ?? 0)
        while true {
            if let output = take() { return output }
            guard within != nil, let next = wakeAt, next <= end else {
                try nothingElse()
                throw Problem("it has not")
            }
            now = max(now, next)
            try turn()
        }
    }
}
