import Foundation
import Observation
import PigeonholeKit

/// The chat list and one open conversation, for the screens of an app.
///
/// The model has what the server sent since it began, and the pages that the user opened. An app that shows messages
/// without a network stores them in `take`.
@MainActor
@Observable
public final class ChatModel {
    public struct Unsent: Identifiable, Sendable {
        public let id: String
        public let text: String
    }

    public let me: String
    public private(set) var state = ConnectionState.connecting
    public private(set) var rows: [Row] = []
    /// The messages of the open conversation, oldest first.
    public private(set) var messages: [Message] = []
    /// Messages of the open conversation that the outbox has.
    public private(set) var unsent: [Unsent] = []
    public private(set) var problem: String?

    @ObservationIgnored private let pigeonhole: Pigeonhole
    @ObservationIgnored private var open: Conversation?

    public init(_ pigeonhole: Pigeonhole, me: String) {
        (self.pigeonhole, self.me) = (pigeonhole, me)
    }

    /// Follows the client until the task ends: `.task { await model.run() }`.
    public func run() async {
        let states = Task {
            for await state in pigeonhole.states {
                self.state = state
                if state == .caughtUp { await attempt { try await self.reload() } }
            }
        }
        for await event in pigeonhole.events { await take(event) }
        states.cancel()
    }

    public func open(_ conversation: Conversation) async {
        open = conversation
        (messages, unsent) = ([], [])
        if conversation.id != nil { await attempt { try await self.older() } }
        if let last = messages.last { await read(last) }
    }

    public func direct(_ userID: String) async {
        await attempt { await self.open(try self.pigeonhole.direct(userID)) }
    }

    /// The page before the oldest message.
    public func older() async throws {
        guard let open else { return }
        let page = try await open.history(before: messages.first?.seq)
        for message in page.messages { show(message) }
    }

    public func send(_ text: String) async {
        await attempt {
            guard let open = self.open else { return }
            let sent = try await open.send(text)
            self.unsent.append(Unsent(id: sent.clientMsgID, text: text))
        }
    }

    private func reload() async throws {
        rows = try await pigeonhole.chats().conversations
    }

    private func take(_ event: Event) async {
        switch event {
        case .entry(let message, _):
            if message.conversationID == open?.id { await takeOpen(message) }
            await attempt { try await self.reload() }
        case .failed(let failed):
            unsent.removeAll { $0.id == failed.request["client_msg_id"]?.string }
            problem = failed.reason
        case .rowChanged, .settingsChanged: await attempt { try await self.reload() }
        default: break
        }
    }

    private func takeOpen(_ message: Message) async {
        unsent.removeAll { $0.id == message.clientMsgID }
        if message.isMessage || message.system != nil { show(message) }
        if message.isMessage, message.senderID != me { await read(message) }
        // A change: the server has the changed message.
        guard let changed = message.targetSeq, messages.contains(where: { $0.seq == changed }) else { return }
        await attempt {
            let page = try await self.open?.history(after: changed - 1, limit: 1)
            for message in page?.messages ?? [] { self.show(message) }
        }
    }

    private func show(_ message: Message) {
        guard message.isMessage || message.system != nil else { return }
        let place = messages.firstIndex { $0.seq >= message.seq } ?? messages.endIndex
        if place < messages.endIndex, messages[place].seq == message.seq {
            messages[place] = message
        } else {
            messages.insert(message, at: place)
        }
    }

    private func read(_ message: Message) async {
        await attempt { _ = try await self.open?.read(message.seq) }
    }

    private func attempt(_ call: () async throws -> Void) async {
        do {
            try await call()
        } catch {
            problem = error.localizedDescription
        }
    }
}
