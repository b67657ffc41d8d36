import Foundation
import Observation
import PigeonholeKit

/// The state of the app behind its screens.
@MainActor
@Observable
public final class AppModel {
    public let chats: ChatListModel
    public private(set) var isConnected = false
    public private(set) var messages: MessagesModel?
    /// For the user.
    public var problem: String?

    @ObservationIgnored private let pigeonhole: Pigeonhole
    @ObservationIgnored private var conversation: Conversation?

    public init(_ pigeonhole: Pigeonhole) {
        self.pigeonhole = pigeonhole
        chats = ChatListModel(pigeonhole.conversations())
        let states = pigeonhole.states
        Task { [weak self] in
            for await state in states { self?.isConnected = state == .caughtUp || state == .online }
        }
    }

    public func open(_ row: ChatRow) {
        attempt {
            if let id = row.conversationID {
                show(pigeonhole.conversation(id))
            } else if let peer = row.peerID {
                show(try pigeonhole.direct(peer))
            }
        }
    }

    /// Begins a conversation with a user, or opens it.
    public func open(user: String) {
        attempt { show(try pigeonhole.direct(user)) }
    }

    private func show(_ conversation: Conversation) {
        self.conversation = conversation
        messages = MessagesModel(conversation.messages(at: .firstUnread))
    }

    /// Returns when the outbox has the message.
    public func send(_ text: String) async {
        do {
            try await conversation?.send(text)
        } catch {
            problem = error.localizedDescription
        }
    }

    public func typing() {
        conversation?.typing()
    }

    public func again(_ message: MessageItem) async {
        do {
            if let id = message.clientMsgID { try await pigeonhole.again(id) }
        } catch {
            problem = error.localizedDescription
        }
    }

    private func attempt(_ call: () throws -> Void) {
        do {
            try call()
        } catch {
            problem = error.localizedDescription
        }
    }
}
