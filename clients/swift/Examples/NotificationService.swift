// An example of the notification service extension of an iOS app; docs/clients.md describes push. The extension runs next
// to the app, for up to 30 seconds with each notification, and replaces ids with the message itself. `Account` is the
// app's own: the server's address, the user, a token and the keys, from the keychain that app and extension share. Its folder is the
// client's, in the container of their app group.

import PigeonholeKit
import UserNotifications

final class NotificationService: UNNotificationServiceExtension, @unchecked Sendable {
    private var content: UNMutableNotificationContent?
    private var deliver: ((UNNotificationContent) -> Void)?

    override func didReceive(
        _ request: UNNotificationRequest, withContentHandler handler: @escaping (UNNotificationContent) -> Void
    ) {
        content = request.content.mutableCopy() as? UNMutableNotificationContent
        deliver = handler
        guard let push = request.content.userInfo["pigeonhole"] as? [String: Any],
            let conversation = push["conversation_id"] as? String, let seq = push["seq"] as? Int
        else { return finish() }
        Task { @MainActor in
            let notice = try? Reader(folder: Account.folder, userID: Account.userID).notice(conversation, seq)
            var (sender, body) = (notice?.senderID, notice?.body)
            if sender == nil, let message = try? await message(seq, in: conversation) {
                (sender, body) = (message.senderID, message.body)
            }
            // A communication notification shows the face as well: INSendMessageIntent, content.updating(from:).
            if let title = notice?.title ?? sender { content?.title = title }
            if let sender, sender != content?.title { content?.subtitle = sender }
            if let body { content?.body = body }
            finish()
        }
    }

    /// The time is over: shows the current content.
    override func serviceExtensionTimeWillExpire() {
        finish()
    }

    private func finish() {
        if let content { deliver?(content) }
        deliver = nil
    }

    /// Requests the message over a connection of its own, which acknowledges nothing: the app gets the message too.
    private func message(_ seq: Int, in conversation: String) async throws -> Message? {
        // Without a folder: only one process may have the app's.
        let config = Config(url: Account.url, userID: Account.userID, keep: .outbox)
        let pigeonhole = try await Pigeonhole(config) { _ in try await Account.token() }
        let chat = pigeonhole.conversation(conversation)
        let page = try? await chat.history(after: seq - 1, limit: 1)
        var message = page?.messages.first { $0.seq == seq && $0.deletedAt == nil }
        if message?.kind == "sealed", let reader = try? Reader(folder: Account.folder, userID: Account.userID) {
            // The app opens the message itself later: this changes nothing of its keys.
            message = try? await chat.peek(seq, reader: reader, keys: Account.keys, deviceID: Account.deviceID)
        }
        await pigeonhole.close()
        return message
    }
}

/// Removes notifications of messages that the user has read, in the app. Call it from
/// `application(_:didReceiveRemoteNotification:)`, and with each read mark that the app receives.
@MainActor
func clear(_ conversation: String, upTo seq: Int) async {
    let center = UNUserNotificationCenter.current()
    let shown = await center.deliveredNotifications().filter { notification in
        let push = notification.request.content.userInfo["pigeonhole"] as? [String: Any]
        return push?["conversation_id"] as? String == conversation && (push?["seq"] as? Int ?? 0) <= seq
    }
    center.removeDeliveredNotifications(withIdentifiers: shown.map(\.request.identifier))
}
