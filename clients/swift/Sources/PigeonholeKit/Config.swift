import Foundation
internal import PigeonholeFFI

/// Where to connect, as which user, and what to keep where.
public struct Config: Sendable {
    /// The WebSocket API, its stage included: `wss://….amazonaws.com/v1`.
    public var url: URL
    /// The user that the tokens are for (their `sub`).
    public var userID: String
    /// A folder of this user and installation alone, which is created. `nil`: nothing survives the client.
    public var folder: URL?
    /// The content of the folder.
    public var keep: Keep
    /// Names this installation: 1 to 64 of `A-Za-z0-9_-`. Default: random, and kept in the folder.
    public var deviceID: String?
    /// Other times than the usual ones, for tests: `ack_every` and the others of the core's `Timing`.
    public var timing: [String: Duration]
    /// Encrypts direct conversations from end to end. Needs a folder and ``Keep/messages``.
    public var encrypted: Keys?
    /// The snapshots of views have the names of the users in them, if the server has profiles.
    public var names: Bool
    /// The stack's `HttpUrl`, if its `HttpApi` is on. Requests then go over HTTP, which costs less, while HTTP works. Events
    /// come by the socket alone.
    public var httpURL: URL?

    public init(
        url: URL, userID: String, folder: URL? = nil, keep: Keep = .messages, deviceID: String? = nil,
        timing: [String: Duration] = [:], encrypted: Keys? = nil, names: Bool = false,
        httpURL: URL? = nil
    ) {
        (self.url, self.userID, self.folder, self.keep) = (url, userID, folder, keep)
        (self.deviceID, self.timing, self.encrypted, self.names) = (deviceID, timing, encrypted, names)
        self.httpURL = httpURL
    }
}

/// The private key of a user's identity. Its holder is the user, so an app keeps it in the keychain. All devices of a user
/// have the same.
public struct Keys: Sendable {
    private let seed: Data

    /// Takes what ``export()`` returned.
    public init(importing seed: Data) {
        self.seed = seed
    }

    /// Makes a new identity.
    public static func generate() throws -> Keys {
        Keys(importing: try PigeonholeError.from { try generateKeys() })
    }

    /// Returns the 32 bytes to keep, or to carry to another device of the user.
    public func export() -> Data { seed }
}

/// A device of the user that has keys.
public struct OwnDevice: Decodable, Sendable, Hashable {
    public let device: String
    /// `false`: the device has another identity than the user.
    public let known: Bool
    /// The key packages that it has left.
    public let left: Int
    /// The day on which the device last came.
    public let seenAt: Date
}

/// The data that the client keeps, over restarts if it has a folder.
public enum Keep: Sendable {
    /// Messages, the chat list and the outbox, for views. The client acknowledges a message once the store has it.
    case messages
    /// The outbox, for a bot, or an app with a store of its own. ``Pigeonhole/events`` acknowledges the messages.
    case outbox
}

/// The token that a connection takes.
public enum TokenNeed: Sendable {
    /// A cached one will do.
    case connect
    /// The server refused the last one: get a new one.
    case refused
    /// The last one has expired, or is about to: get a new one.
    case expired

    init(_ need: PigeonholeFFI.TokenNeed) {
        self = switch need {
        case .connect: .connect
        case .refused: .refused
        case .expired: .expired
        }
    }
}

/// A permanent failure; the client retries temporary ones itself.
public struct PigeonholeError: Error, Sendable, Hashable {
    /// A code of the protocol, such as `not_member`, or `config`, `bad_request`, `too_large`, `unreadable`, `file`, `gone`,
    /// `cancelled`, `unwatched`, `closed`, `store`, `locked`, `newer`, `wrong_user`, `broken`.
    public let code: String
    /// A text for developers.
    public let reason: String

    static let closed = PigeonholeError(code: "closed", reason: "the client is closed")

    init(code: String, reason: String) {
        (self.code, self.reason) = (code, reason)
    }

    init(_ fault: Fault) {
        switch fault {
        case .Failed(let code, let reason, _): self.init(code: code, reason: reason)
        }
    }

    /// Calls the engine, and throws its fault as an error of the client.
    static func from<Result>(_ call: () throws -> Result) throws -> Result {
        do {
            return try call()
        } catch let fault as Fault {
            throw PigeonholeError(fault)
        }
    }
}

extension PigeonholeError: LocalizedError, CustomStringConvertible {
    public var description: String { "\(reason) (\(code))" }
    public var errorDescription: String? { description }
}
