// The language of the scripts in conformance/, whose README explains it.

import Foundation

@testable import PigeonholeKit

/// `just swift` writes the scripts as JSON.
let scripts = root.appending(path: "clients/swift/Generated/conformance")

func scenarios(_ name: String) throws -> [JSON] {
    try JSON(parsing: String(contentsOf: scripts.appending(path: "\(name).json"), encoding: .utf8)).array ?? []
}

/// The steps for each value of `each`, with everything written out.
func variants(_ scenario: JSON) -> [[JSON]] {
    let steps = scenario["steps"]?.array ?? []
    guard let (name, values) = scenario["each"]?.object?.first else {
        return [steps.map { expand($0, nil, .null) }]
    }
    return (values.array ?? []).map { value in steps.map { expand($0, "$\(name)", value) } }
}

private func expand(_ script: JSON, _ name: String?, _ value: JSON) -> JSON {
    switch script {
    case .array(let items): .array(items.map { expand($0, name, value) })
    case .object(let fields): .object(fields.mapValues { expand($0, name, value) })
    case .string(let text): text == name ? value : message(text) ?? script
    case .null, .bool, .int, .double: script
    }
}

/// Reads `$bob 5 in dm_ab`, `$stored 5`, and what may follow.
private func message(_ text: String) -> JSON? {
    let words = text.split(separator: " ").map(String.init)
    guard text.hasPrefix("$"), words.count % 2 == 0, words.count > 1, let seq = Int(words[1]) else { return nil }
    let who = String(words[0].dropFirst())
    let pairs = stride(from: 2, to: words.count, by: 2).map { (words[$0], words[$0 + 1]) }
    let named = Dictionary(pairs) { $1 }
    let day = named["on"] ?? "2026-11-20"
    func at(_ number: String) -> JSON { .string("\(day)T10:00:\(twoDigits(number)).000Z") }
    var message: [String: JSON] = [
        "conversation_id": .string(named["in"] ?? "dm_ab"),
        "seq": .int(seq),
        "message_id": .string("0198b7a0-0000-7000-8000-0000000000\(twoDigits(words[1]))"),
        "sent_at": at(words[1]),
    ]
    func set(_ fields: [String: JSON]) { message.merge(fields) { $1 } }
    func system(_ fields: [String: JSON]) { set(["kind": "system", "body": "", "system": .object(fields)]) }
    func change(_ kind: String, _ target: String) {
        set(["kind": .string(kind), "target_seq": number(target), "body": ""])
    }
    set(who == "stored" ? ["duplicate": false] : ["sender_id": .string(who), "kind": "text", "body": .string("\(who) \(seq)")])
    // `body` may stand before the word that empties it.
    for (word, value) in pairs.filter({ $0.0 != "body" }) + pairs.filter({ $0.0 == "body" }) {
        switch word {
        case "in", "on": break
        case "as": set(["client_msg_id": .string(value)])
        case "body": set(["body": .string(value)])
        case "answers": set(["reply_to": number(value)])
        case "version": set(["version": number(value)])
        case "edited": set(["edited_at": at(value)])
        case "deleted": set(["body": "", "deleted_at": at(value), "deleted_by": .string(who)])
        case "reactions": set(["reactions": .array(value.split(separator: "+").map(reaction))])
        case "edits": change("edit", value)
        case "deletes": change("delete", value)
        case "reacts": change("reaction", value)
        case "emoji": set(["emoji": .string(value)])
        case "before": set(["emoji_before": .string(value)])
        case "upto": set(["reactions_seq": number(value)])
        case "mentions": set(["mentions": users(value)])
        case "created": system(["event": "created", "title": .string(value), "members": []])
        case "members": set(["system": .object((message["system"]?.object ?? [:]).merging(["members": users(value)]) { $1 })])
        case "adds": system(["event": "members.added", "members": users(value)])
        case "removes": system(["event": "members.removed", "members": users(value)])
        case "leaves": system(["event": "member.left"])
        case "makes":
            let parts = value.split(separator: ":").map { JSON.string(String($0)) }
            system(["event": "role.changed", "user_id": parts[0], "role": parts[1]])
        case "renames": system(["event": "info.changed", "title": .string(value)])
        default: return nil
        }
    }
    return .object(message)
}

private func twoDigits(_ number: String) -> String {
    String(repeating: "0", count: max(0, 2 - number.count)) + number
}

private func number(_ text: String) -> JSON {
    Int(text).map(JSON.int) ?? .string(text)
}

private func users(_ text: String) -> JSON {
    .array(text.split(separator: "+").map { .string(String($0)) })
}

private func reaction(_ text: Substring) -> JSON {
    let parts = text.split(separator: ":").map(String.init)
    return ["emoji": .string(parts[0]), "count": number(parts[1]), "mine": .bool(parts.last == "mine")]
}

extension JSON {
    func without(_ names: String...) -> JSON {
        guard case .object(let fields) = self else { return self }
        return .object(fields.filter { !names.contains($0.key) })
    }

    func with(_ name: String, _ value: JSON) -> JSON {
        .object((object ?? [:]).merging([name: value]) { $1 })
    }

    /// Without what means the same if it is missing.
    var whole: JSON {
        switch self {
        case .object(let fields): .object(fields.mapValues(\.whole).filter { ![.null, false, []].contains($0.value) })
        case .array(let items): .array(items.map(\.whole))
        case .null, .bool, .int, .double, .string: self
        }
    }
}

/// The outbox's form of a request: the conversation is in the change, or in `target`.
func queued(_ fields: JSON) -> JSON {
    var kept = (fields.object ?? [:]).filter { $0.value != .null && $0.key != "at" }
    let place = kept.filter { ["to", "conversation_id"].contains($0.key) }
    for name in place.keys { kept[name] = nil }
    if kept["body"] == nil, let (name, change) = kept.first(where: { $0.value.object != nil }) {
        kept[name] = .object((change.object ?? [:]).merging(place) { $1 })
    } else {
        kept["target"] = .object(place)
    }
    return .object(kept)
}

/// And the other way round.
func plainQueued(_ queued: JSON) -> JSON {
    var fields = queued.object ?? [:]
    let place = fields.removeValue(forKey: "target")?.object
        ?? fields.values.compactMap { $0["conversation_id"] }.first.map { ["conversation_id": $0] }
    return .object(fields.mapValues { $0.without("conversation_id") }.merging(place ?? [:]) { $1 })
}

/// An event of the engine, as the scripts write it.
func plainEvent(_ event: JSON) throws -> JSON {
    guard let (name, fields) = event.object?.first else { throw Problem("no event: \(event.text)") }
    func request() -> JSON { plainQueued(fields["request"] ?? .null) }
    return switch name {
    case "message": ["message": fields["entry"] ?? .null, "missed": fields["missed"] ?? .null]
    case "set_aside": ["storage": fields["path"] ?? .null]
    case "state": .object(["state": fields["is"] ?? .null].merging(fields["why"].map { ["why": $0] } ?? [:]) { $1 })
    case "failed": [name: request().with("code", fields["code"] ?? .null)]
    case "reacted": [name: request()]
    default: event
    }
}

/// Independent of the id, and of the order of marks.
func comparable(_ request: JSON) -> JSON {
    .object((request.without("id").object ?? [:]).mapValues { value in
        guard let marks = value.array, marks.contains(where: { $0["conversation_id"] != nil }) else { return value }
        return .array(marks.sorted { $0["conversation_id"]?.string ?? "" < $1["conversation_id"]?.string ?? "" })
    })
}

/// All that is expected is found, at whatever depth; there may be more.
func expectWithin(_ expected: JSON?, _ found: JSON?, _ place: String) throws {
    switch expected {
    case nil, .null: break
    case .object(let fields):
        for (name, value) in fields { try expectWithin(value, found?[name], "\(place): \(name)") }
    default:
        if expected != found { throw Problem("\(place): \(found?.text ?? "nothing")") }
    }
}

/// The value as the server writes it, by the types of the client.
func written(_ value: some Encodable) throws -> JSON {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .custom { path in
        let name = path[path.count - 1].stringValue.replacing("ID", with: "Id")
        return Name(name.reduce("") { $0 + ($1.isUppercase ? "_" : "") + $1.lowercased() })
    }
    encoder.dateEncodingStrategy = .custom { date, encoder in
        var container = encoder.singleValueContainer()
        try container.encode(date.written)
    }
    return try JSON(parsing: String(decoding: encoder.encode(value), as: UTF8.self))
}
