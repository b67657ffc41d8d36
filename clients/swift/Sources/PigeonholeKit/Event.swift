import Foundation

/// Something the app should know. A later version has further cases: a `switch` needs a `default`.
public enum Event: Sendable, Hashable {
    /// The next entry of its conversation, in the order of `seq`, each once. The own ones come too. `missed`: the entry
    /// came while this device was not connected.
    case entry(Message, missed: Bool)
    /// The mark of a member, which only rises.
    case receipt(Receipt)
    /// A row of the chat list, read after a connect.
    case rowChanged(Row)
    /// The user's settings have changed, on this or another device.
    case settingsChanged(ChangedSettings)
    /// A member is typing, for the next 6 s or until the message comes.
    case typing(Typing)
    /// A user whose presence is watched has come or gone.
    case presenceChanged(Presence)
    /// A part of a message's file is uploaded.
    case uploading(Uploading)
    /// The server has applied a change that is no entry.
    case reacted(request: JSON)
    /// The subscription to a channel has ended.
    case unwatched(Unwatched)
    /// An encrypted message that this device can't read. The views have its place.
    case unreadable(Unreadable)
    /// News of the encryption.
    case security(Security)
    /// The server refused a message or a change for good.
    case failed(Failed)
    /// The store was damaged, and is new. A copy is at `path` for 7 days.
    case setAside(path: String)
    /// An error of the client's own: it has begun again from the store.
    case restarted

    public struct Receipt: Codable, Sendable, Hashable {
        /// `delivered` or `read`.
        public let kind: String
        public let conversationID: String
        public let userID: String
        public let seq: Int
    }

    public struct Typing: Codable, Sendable, Hashable {
        public let conversationID: String
        public let userID: String
        public let at: Date
        /// The text so far, of a service alone.
        public let text: String?
    }

    public struct Uploading: Codable, Sendable, Hashable {
        public let clientMsgID: String
        public let done: Int
        public let bytes: Int
    }

    public struct Unwatched: Codable, Sendable, Hashable {
        public let conversationID: String
        public let code: String
        public let reason: String
    }

    public struct Unreadable: Codable, Sendable, Hashable {
        public let conversationID: String
        public let seq: Int
        public let senderID: String
        /// As ``Item/Unreadable/why``.
        public let why: String
    }

    public struct Security: Codable, Sendable, Hashable {
        /// `identity_changed` (of `user`), `device_added`, `device_removed`, `joined`, `reset` (by `by`), `broken`,
        /// `wrong_mark`, `last_resort`, `unknown_device` or `keys_refused`.
        public let `is`: String
        public let conversationID: String?
        public let user: String?
        public let by: String?
        public let device: String?
        public let fromSeq: Int?
    }

    public struct Failed: Codable, Sendable, Hashable {
        /// The request as the outbox had it.
        public let request: JSON
        public let code: String
        public let reason: String
    }
}

/// The state of the connection.
public enum ConnectionState: Sendable, Hashable {
    case connecting
    /// The client requests what it missed.
    case online
    /// The app has every event that it missed.
    case caughtUp
    case offline(Offline)
    /// The user has opened too many connections. Only ``Pigeonhole/wake()`` opens the next one.
    case replaced
    case closed

    public struct Offline: Sendable, Hashable {
        /// A word for programs: `unreachable`, `lost`, `wrong_user`, `suspended` …
        public let why: String
        /// A text for developers.
        public let reason: String
        /// HTTP's status.
        public let status: Int?
        public let retryAt: Date?
    }
}

/// A report of the engine: an event or a state.
enum Report: Decodable {
    case event(Event)
    case state(StateFields)
    /// An event of a later version.
    case unknown

    struct StateFields: Decodable {
        let `is`: String
        let why: String?
        let reason: String?
        let status: Int?
        let retryAt: UInt64?
    }

    private struct Entry: Decodable {
        let entry: Message
        let missed: Bool
    }

    private struct Request: Decodable {
        let request: JSON
    }

    private struct Path: Decodable {
        let path: String
    }

    /// Reads an object whose only field names the event.
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Name.self)
        guard let name = container.allKeys.first else {
            self = .unknown
            return
        }
        func field<Field: Decodable>(_ type: Field.Type = Field.self) throws -> Field {
            try container.decode(type, forKey: name)
        }
        switch name.stringValue {
        case "message":
            let message: Entry = try field()
            self = .event(.entry(message.entry, missed: message.missed))
        case "receipt": self = .event(.receipt(try field()))
        case "conversation": self = .event(.rowChanged(try field()))
        case "settings": self = .event(.settingsChanged(try field()))
        case "typing": self = .event(.typing(try field()))
        case "presence": self = .event(.presenceChanged(try field()))
        case "uploading": self = .event(.uploading(try field()))
        case "reacted": self = .event(.reacted(request: try field(Request.self).request))
        case "unwatched": self = .event(.unwatched(try field()))
        case "unreadable": self = .event(.unreadable(try field()))
        case "security": self = .event(.security(try field()))
        case "failed": self = .event(.failed(try field()))
        case "setAside": self = .event(.setAside(path: try field(Path.self).path))
        case "state": self = .state(try field())
        default: self = .unknown
        }
    }
}

extension ConnectionState {
    /// Returns `nil` for a state of a later version. `wait` is the time until a moment of the engine's clock.
    init?(_ fields: Report.StateFields, wait: (UInt64) -> Duration) {
        switch fields.is {
        case "connecting": self = .connecting
        case "online": self = .online
        case "caught_up": self = .caughtUp
        case "replaced": self = .replaced
        case "offline":
            let retryAt = fields.retryAt.map { Date.now + TimeInterval(wait($0).milliseconds) / 1000 }
            self = .offline(
                Offline(why: fields.why ?? "", reason: fields.reason ?? "", status: fields.status, retryAt: retryAt))
        default: return nil
        }
    }
}

extension Duration {
    var milliseconds: Int64 {
        components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
    }
}
