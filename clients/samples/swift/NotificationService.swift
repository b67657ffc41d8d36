// The notification service extension of an app for Pigeonhole, to begin with; docs/clients.md says what rings. iOS 13 or later. It runs
// beside the app, for up to 30 seconds with each notification, and turns ids into what the user knows: names, and the message itself.

import UserNotifications

final class NotificationService: UNNotificationServiceExtension {
    private var deliver: ((UNNotificationContent) -> Void)?
    private var content: UNMutableNotificationContent?

    override func didReceive(_ request: UNNotificationRequest, withContentHandler handler: @escaping (UNNotificationContent) -> Void) {
        deliver = handler
        content = request.content.mutableCopy() as? UNMutableNotificationContent
        guard let content, let ring = request.content.userInfo["pigeonhole"] as? [String: Any],
              let conversation = ring["conversation_id"] as? String, let seq = ring["seq"] as? Int else {
            finish()
            return
        }
        Task {
            // Your own: asks `history` with `after_seq` over a short connection, or a store that app and extension share (an app group).
            // The last `text` there that is not deleted.
            if let message = await latest(in: conversation, upTo: seq) {
                content.title = message.name
                content.body = message.text
                // A communication notification shows the face as well: INSendMessageIntent, content.updating(from:).
            }
            finish()
        }
    }

    /// The time is over: what there is by now is shown.
    override func serviceExtensionTimeWillExpire() {
        finish()
    }

    private func finish() {
        guard let deliver, let content else { return }
        self.deliver = nil
        deliver(content)
    }

    private func latest(in conversation: String, upTo seq: Int) async -> (name: String, text: String)? {
        nil
    }
}

/// In the app: what was read elsewhere goes from the lock screen. Call it from `application(_:didReceiveRemoteNotification:)`, and with the
/// read marks that the app learns of itself.
func clear(_ conversation: String, upTo seq: Int) async {
    let center = UNUserNotificationCenter.current()
    let shown = await center.deliveredNotifications().filter { notification in
        let ring = notification.request.content.userInfo["pigeonhole"] as? [String: Any]
        return ring?["conversation_id"] as? String == conversation && (ring?["seq"] as? Int ?? 0) <= seq
    }
    center.removeDeliveredNotifications(withIdentifiers: shown.map(\.request.identifier))
}
