import Foundation
internal import PigeonholeFFI

/// Where a view of a conversation opens.
public enum At: Sendable, Hashable {
    /// At the end.
    case newest
    /// Around the first unread message; at the end if there is none.
    case firstUnread
    /// Around this entry.
    case seq(Int)

    var form: JSON {
        switch self {
        case .newest: "newest"
        case .firstUnread: "first_unread"
        case .seq(let seq): ["seq": .int(seq)]
        }
    }
}

/// Which rows of the chat list a view has.
public struct Filter: Sendable, Hashable {
    /// The rows in the archive, instead of the others.
    public var archived: Bool
    /// Only these kinds, such as `group`. Empty: all.
    public var kinds: [String]
    /// The title or the peer has these words, the last one perhaps not complete.
    public var words: String

    public init(archived: Bool = false, kinds: [String] = [], words: String = "") {
        (self.archived, self.kinds, self.words) = (archived, kinds, words)
    }

    var form: JSON {
        ["archived": .bool(archived), "kinds": .strings(kinds), "words": .string(words)]
    }
}

/// The chat list at some time.
public struct ListSnapshot: Decodable, Sendable, Hashable {
    /// Pinned conversations first, then those with the latest message.
    public let rows: [ChatRow]
    /// The unread messages of all conversations that are not muted, for the app's badge.
    public let unread: Int
    /// The known names of the users in the rows, by id, with ``Config/names``. `nil`: none.
    public let names: [String: String]?
}

/// The view of a conversation at some time.
public struct Screen: Sendable, Hashable {
    public let conversationID: String
    /// The conversation's row of the chat list: its title, who is typing, whether the peer is online. `nil`: it is new.
    public let chat: ChatRow?
    /// Everything to draw, in order.
    public let items: [Item]
    /// ``MessagesView/older()`` brings more.
    public let hasOlder: Bool
    /// ``MessagesView/newer()`` brings more: new messages are not among the items.
    public let hasNewer: Bool
    public let unread: Int
    /// The known names of the users in the items, by id, with ``Config/names``. `nil`: none.
    public let names: [String: String]?
    /// The pinned messages that are not deleted, the last pinned first. Without `message`, it has not come.
    public let pins: [MessageItem.Reply]
}

extension Screen: Decodable {
    private struct Fields: Decodable {
        struct Messages: Decodable {
            let items: [Item]
            let hasOlder: Bool
            let hasNewer: Bool
            let unread: Int
            let pins: [MessageItem.Reply]?
        }
        let conversationID: String
        let chat: ChatRow?
        let messages: Messages
        let names: [String: String]?
    }

    public init(from decoder: any Decoder) throws {
        let fields = try Fields(from: decoder)
        (conversationID, chat, items) = (fields.conversationID, fields.chat, fields.messages.items)
        (hasOlder, hasNewer) = (fields.messages.hasOlder, fields.messages.hasNewer)
        (unread, names, pins) = (fields.messages.unread, fields.names, fields.messages.pins ?? [])
    }
}

/// The members of a group or channel at some time.
public struct RosterSnapshot: Decodable, Sendable, Hashable {
    public let conversationID: String
    /// The owner, the admins and then the others, each in the order of their ids.
    public let members: [MemberRow]
    /// The known names of the members, by id, with ``Config/names``. `nil`: none.
    public let names: [String: String]?
}

/// A view of the chat list. The view follows everything that happens, until ``close()`` or until nothing uses it or its
/// streams.
public final class ChatList: LiveView {
    let number: UInt64
    private let loop: Loop
    private let filter: Locked<Filter>
    private let newest = Newest<ListSnapshot?>(nil)

    init(_ loop: Loop, _ filter: Filter) {
        (self.loop, number, self.filter) = (loop, loop.newView(), Locked(filter))
    }

    deinit {
        close()
    }

    /// The list now. `nil`: the store has not been read yet.
    public var shown: ListSnapshot? { newest.current }

    /// The list now and after each change. A slow consumer gets the newest.
    public var snapshots: AsyncStream<ListSnapshot> { newest.stream(of: self) { $0 } }

    /// The rows of ``snapshots``.
    public var rows: AsyncStream<[ChatRow]> { newest.stream(of: self) { $0?.rows } }

    /// Selects other rows.
    public func select(_ filter: Filter) {
        self.filter.withLock { $0 = filter }
        act(["filter": filter.form], loop)
    }

    /// Ends the view, which then shows nothing new.
    public func close() {
        loop.closeView(number)
        newest.end()
    }

    var content: JSON { ["chats": filter.withLock { $0.form }] }

    func show(_ text: String) {
        struct Shown: Decodable {
            let chats: ListSnapshot
        }
        // The engine wrote it: nothing in it is unreadable.
        if let shown: Shown = try? read(text) { newest.set(shown.chats) }
    }

    func end() {
        newest.end()
    }
}

/// A view of the messages of a conversation. Older ones come from the store and the server. The view follows everything
/// that happens, until ``close()`` or until nothing uses it or its streams.
public final class MessagesView: LiveView {
    let number: UInt64
    private let loop: Loop
    private let with: JSON
    private let at: Locked<At>
    private let newest = Newest<Screen?>(nil)

    init(_ loop: Loop, _ with: JSON, _ at: At) {
        (self.loop, number, self.with, self.at) = (loop, loop.newView(), with, Locked(at))
    }

    deinit {
        close()
    }

    /// The view now. `nil`: the store has not been read yet.
    public var shown: Screen? { newest.current }

    /// The view now and after each change. A slow consumer gets the newest.
    public var screens: AsyncStream<Screen> { newest.stream(of: self) { $0 } }

    /// The items of ``screens``.
    public var items: AsyncStream<[Item]> { newest.stream(of: self) { $0?.items } }

    /// Shows older messages: the user has come near the first item.
    public func older() {
        act("older", loop)
    }

    /// Shows newer messages: the user has come near the last item.
    public func newer() {
        act("newer", loop)
    }

    /// Shows another part of the conversation.
    public func jump(to at: At) {
        self.at.withLock { $0 = at }
        act(["jump": at.form], loop)
    }

    /// The item was on the screen: the client marks it as read, with all unread messages before it. Call it for each item
    /// that was visible for 300 ms while the app was in the foreground.
    public func seen(_ item: Item) {
        act(["seen": .string(item.id)], loop)
    }

    /// Ends the view, which then shows nothing new.
    public func close() {
        loop.closeView(number)
        newest.end()
    }

    var content: JSON { ["messages": ["with": with, "at": at.withLock { $0.form }]] }

    func show(_ text: String) {
        struct Shown: Decodable {
            let messages: Screen
        }
        // The engine wrote it: nothing in it is unreadable.
        if let shown: Shown = try? read(text) { newest.set(shown.messages) }
    }

    func end() {
        newest.end()
    }
}

/// A view of the members of a group or channel, with their roles and marks. The view follows everything that happens, until
/// ``close()`` or until nothing uses it or its streams.
public final class RosterView: LiveView {
    let number: UInt64
    private let loop: Loop
    private let id: String
    private let newest = Newest<RosterSnapshot?>(nil)

    init(_ loop: Loop, _ id: String) {
        (self.loop, number, self.id) = (loop, loop.newView(), id)
    }

    deinit {
        close()
    }

    /// The members now. `nil`: the store has not been read yet.
    public var shown: RosterSnapshot? { newest.current }

    /// The members now and after each change. A slow consumer gets the newest.
    public var snapshots: AsyncStream<RosterSnapshot> { newest.stream(of: self) { $0 } }

    /// The members of ``snapshots``.
    public var members: AsyncStream<[MemberRow]> { newest.stream(of: self) { $0?.members } }

    /// Ends the view, which then shows nothing new.
    public func close() {
        loop.closeView(number)
        newest.end()
    }

    var content: JSON { ["members": .string(id)] }

    func show(_ text: String) {
        struct Shown: Decodable {
            let members: RosterSnapshot
        }
        // The engine wrote it: nothing in it is unreadable.
        if let shown: Shown = try? read(text) { newest.set(shown.members) }
    }

    func end() {
        newest.end()
    }
}

/// A view, for the loop.
protocol LiveView: AnyObject, Sendable {
    var number: UInt64 { get }
    /// The content to open, also by the next engine.
    var content: JSON { get }
    func show(_ text: String)
    func end()
}

extension LiveView {
    var opened: EdgeInput { .open(view: number, of: content.text) }

    fileprivate func act(_ act: JSON, _ loop: Loop) {
        loop.put(.act(view: number, act: act.text))
    }
}

/// The loop keeps no view alive.
struct WeakView: Sendable {
    weak var view: (any LiveView)?
}

extension EdgeInput {
    /// The device's time zone, for the days of views.
    static var zone: EdgeInput { .zone(offsets: TimeZone.autoupdatingCurrent.offsets(around: .now)) }
}

extension TimeZone {
    /// The offsets for the last 10 years and the next one, each by the time in ms from which it holds.
    func offsets(around now: Date) -> [Int64: Int32] {
        let year = 365.25 * 24 * 60 * 60
        let (from, to) = (now - 10 * year, now + year)
        var offsets: [Int64: Int32] = [:]
        var next: Date? = from
        while let time = next, time < to {
            offsets[Int64(time.timeIntervalSince1970 * 1000)] = Int32(secondsFromGMT(for: time))
            next = nextDaylightSavingTimeTransition(after: time)
        }
        return offsets
    }
}
