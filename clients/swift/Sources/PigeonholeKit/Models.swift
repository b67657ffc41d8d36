import Observation

/// The chat list for SwiftUI. The model follows the view until its end.
@MainActor
@Observable
public final class ChatListModel {
    public let list: ChatList
    public private(set) var rows: [ChatRow] = []
    public private(set) var unread = 0

    public init(_ list: ChatList) {
        self.list = list
        let snapshots = list.snapshots
        Task { [weak self] in
            for await snapshot in snapshots {
                guard let self else { return }
                (self.rows, self.unread) = (snapshot.rows, snapshot.unread)
            }
        }
    }
}

/// The members of a group or channel for SwiftUI. The model follows the view until its end.
@MainActor
@Observable
public final class RosterModel {
    public let view: RosterView
    public private(set) var members: [MemberRow] = []

    public init(_ view: RosterView) {
        self.view = view
        let all = view.members
        Task { [weak self] in
            for await members in all {
                guard let self else { return }
                self.members = members
            }
        }
    }
}

/// The messages of a conversation for SwiftUI. The model follows the view until its end.
@MainActor
@Observable
public final class MessagesModel {
    public let view: MessagesView
    public private(set) var items: [Item] = []
    public private(set) var chat: ChatRow?
    public private(set) var hasOlder = false
    public private(set) var hasNewer = false
    public private(set) var unread = 0
    public private(set) var pins: [MessageItem.Reply] = []

    public init(_ view: MessagesView) {
        self.view = view
        let screens = view.screens
        Task { [weak self] in
            for await screen in screens {
                guard let self else { return }
                (self.items, self.chat, self.unread) = (screen.items, screen.chat, screen.unread)
                self.pins = screen.pins
                (self.hasOlder, self.hasNewer) = (screen.hasOlder, screen.hasNewer)
            }
        }
    }
}
