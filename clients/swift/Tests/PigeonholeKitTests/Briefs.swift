// Rows and items as the scripts write them.

import Foundation

@testable import PigeonholeKit

/// The types of the client have all that a view shows.
func expectShown(_ expected: JSON, _ shown: String) throws {
    struct Shown: Decodable {
        let chats: ListSnapshot?
        let messages: Screen?
    }
    let view: Shown = try read(shown)
    for (name, value) in expected.without("view").object ?? [:] {
        let found: JSON? = switch name {
        case "rows": view.chats.map { .strings($0.rows.map(\.brief)) }
        case "items": view.messages.map { .strings($0.items.map(\.brief)) }
        case "unread": (view.chats?.unread ?? view.messages?.unread).map(JSON.int)
        case "names": .object((view.chats?.names ?? view.messages?.names ?? [:]).mapValues(JSON.string))
        case "pins": view.messages.map { .array($0.pins.map { .array([.int($0.seq), $0.message.map { .string($0.body) } ?? .null]) }) }
        case "has_older": view.messages.map { .bool($0.hasOlder) }
        case "has_newer": view.messages.map { .bool($0.hasNewer) }
        default: nil
        }
        if found != value { throw Problem("\(name): found \(found?.text ?? "nothing")") }
    }
}

extension Item {
    fileprivate var brief: String {
        switch self {
        case .day(let id, let day): id == "d\(day.written)" ? id : "\(id) is \(day)"
        case .unread(let id, let count): "\(id) \(count)"
        case .gap(let id, _, let before): "\(id) to \(before)"
        case .system(let system): "\(system.key) \(system.senderID) \(system.event.event ?? "")"
        case .unreadable(let item): "\(item.key) \(item.senderID) \(item.why)"
        case .other(let id, let message): "\(id) \(message?.senderID ?? "") \(message?.kind ?? "")"
        case .message(let message): message.brief
        }
    }
}

extension DateComponents {
    fileprivate var written: String {
        String(format: "%04d-%02d-%02d", year ?? 0, month ?? 0, day ?? 0)
    }
}

extension MessageItem {
    fileprivate var brief: String {
        let with = reactions.map { "\($0.emoji):\($0.count)\($0.mine ? ":mine" : "")" }.joined(separator: "+")
        let to = reply.map { reply in
            reply.message.map { "to \(reply.seq) \($0.deletedAt == nil ? $0.body : "deleted")" } ?? "to nothing"
        }
        let parts: [String?] = [
            key,
            progress.map { "own \($0.brief)" } ?? senderID,
            kind.hasPrefix("x-") ? kind : nil,
            data?.text,
            editedAt.map { _ in "edited \(body)" },
            deletedBy.map { "deleted by \($0)" },
            with.isEmpty ? nil : "with \(with)",
            to,
            signals.map { "signals " + $0.map { "\($0.senderID):\($0.data?.text ?? "")" }.joined(separator: "+") },
            isChanging ? "changing" : nil,
            refused.map { "refused \($0.code)\($0.canHelp ? " again" : "")" },
        ]
        return parts.compactMap { $0 }.joined(separator: " ")
    }
}

extension Item.Progress {
    fileprivate var brief: String {
        switch self {
        case .uploading(let done, let of): "uploading \(done)/\(of)"
        case .failed(let code, let canHelp): "failed \(code)\(canHelp ? " again" : "")"
        case .other(let state): state
        case .waiting, .stored, .delivered, .read: "\(self)"
        }
    }
}

extension ChatRow {
    fileprivate var brief: String {
        let parts: [String?] = [
            key,
            title,
            unread > 0 ? "\(unread) unread" : nil,
            mentions > 0 ? "\(mentions) mentions" : nil,
            isMuted ? "muted" : nil,
            isPinned ? "pinned" : nil,
            isBlocked ? "blocked" : nil,
            isClosed ? "closed" : nil,
            presence?.online == true ? "online" : nil,
            failed.map { "failed \($0)" },
            draft.map { "draft \($0.body)" },
        ]
        let types: [String?] = self.typing.flatMap { [$0, "types", texts[$0]] }
        return (parts + types + [line?.brief]).compactMap { $0 }.joined(separator: " ")
    }
}

extension ChatRow.Line {
    fileprivate var brief: String {
        let parts: [String?] = [
            "|",
            seq.map { "\($0)" },
            progress.map { "own \($0.brief)" } ?? senderID,
            event?.event ?? (kind == "text" ? nil : kind),
            isDeleted ? "deleted" : text.isEmpty ? nil : text,
        ]
        return parts.compactMap { $0 }.joined(separator: " ")
    }
}
