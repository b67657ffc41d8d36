import Foundation

/// A JSON value.
public enum JSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case int(Int)
    case double(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    public subscript(name: String) -> JSON? {
        if case .object(let fields) = self { fields[name] } else { nil }
    }

    public var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    public var int: Int? {
        if case .int(let number) = self { number } else { nil }
    }

    public var array: [JSON]? {
        if case .array(let items) = self { items } else { nil }
    }

    public var object: [String: JSON]? {
        if case .object(let fields) = self { fields } else { nil }
    }

    /// An object without the fields that are `nil`.
    init(_ fields: [String: JSON?]) {
        self = .object(fields.compactMapValues { $0 })
    }

    /// Reads a text.
    public init(parsing text: String) throws {
        self = try read(text)
    }

    /// The text.
    public var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Every value of this type can be written.
        let data = (try? encoder.encode(self)) ?? Data()
        return String(decoding: data, as: UTF8.self)
    }
}

extension JSON: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let number = try? container.decode(Int.self) {
            self = .int(number)
        } else if let flag = try? container.decode(Bool.self) {
            self = .bool(flag)
        } else if let fields = try? container.decode([String: JSON].self) {
            self = .object(fields)
        } else if let items = try? container.decode([JSON].self) {
            self = .array(items)
        } else {
            self = .double(try container.decode(Double.self))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let flag): try container.encode(flag)
        case .int(let number): try container.encode(number)
        case .double(let number): try container.encode(number)
        case .string(let text): try container.encode(text)
        case .array(let items): try container.encode(items)
        case .object(let fields): try container.encode(fields)
        }
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral {
    public init(stringLiteral text: String) { self = .string(text) }
    public init(integerLiteral number: Int) { self = .int(number) }
    public init(booleanLiteral flag: Bool) { self = .bool(flag) }
    public init(arrayLiteral items: JSON...) { self = .array(items) }
    public init(dictionaryLiteral fields: (String, JSON)...) { self = .object(Dictionary(fields) { $1 }) }
}

/// Reads what the engine or the server has written.
func read<Value: Decodable>(_ text: String, as type: Value.Type = Value.self) throws -> Value {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .custom { path in Name(path.last?.stringValue.camelCased ?? "") }
    decoder.dateDecodingStrategy = .custom { decoder in
        let text = try decoder.singleValueContainer().decode(String.self)
        return try Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
    do {
        return try decoder.decode(Value.self, from: Data(text.utf8))
    } catch {
        throw PigeonholeError(code: "unreadable", reason: "\(Value.self): \(error)")
    }
}

/// The name of any field.
struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.init(stringValue) }
    init?(intValue: Int) { nil }
}

extension String {
    /// `client_msg_id` as `clientMsgID`.
    var camelCased: String {
        let words = split(separator: "_")
        return words.dropFirst().reduce(String(words.first ?? "")) { $0 + ($1 == "id" ? "ID" : $1.capitalized) }
    }
}

extension KeyedDecodingContainer {
    // The server leaves empty lists out, and flags that are false.

    func decode<Item: Decodable>(_ type: [Item].Type, forKey key: Key) throws -> [Item] {
        try decodeIfPresent(type, forKey: key) ?? []
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
        try decodeIfPresent(type, forKey: key) ?? false
    }
}

extension KeyedDecodingContainer {
    // The engine writes a file as its path.

    func decodeIfPresent(_ type: URL.Type, forKey key: Key) throws -> URL? {
        try decodeIfPresent(String.self, forKey: key).map { URL(filePath: $0) }
    }
}

extension Date {
    /// The time as the protocol writes it: in UTC, with milliseconds.
    var written: String {
        // The style cuts what is below a millisecond, and a `Date` is rarely a whole number of milliseconds.
        let inMilliseconds = (timeIntervalSince1970 * 1000).rounded()
        let date = Date(timeIntervalSince1970: (inMilliseconds + 0.5) / 1000)
        return date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    }
}
