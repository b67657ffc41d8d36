// A sample of the notification service extension of an app for Pigeonhole; docs/clients.md describes push. iOS 13 or
// later. The extension runs next to the app, for up to 30 seconds with each notification. The sample replaces ids with
// what the user knows: names, and the message itself.

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
            // Write this for your app: request `history` with `after_seq` over a short connection, or read a store that
            // app and extension share (an app group). Take the last `text` there that is not deleted.
            if let message = await latest(in: conversation, upTo: seq) {
                content.title = message.name
                content.body = message.text
                // A communication notification shows the face as well: INSendMessageIntent, content.updating(from:).
            }
            finish()
        }
    }

    /// The time is over: shows the current content.
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

/// Removes notifications of messages that were read elsewhere, in the app. Call it from
/// `application(_:didReceiveRemoteNotification:)`, and with each read mark that the app receives.
func clear(_ conversation: String, upTo seq: Int) async {
    let center = UNUserNotificationCenter.current()
    let shown = await center.deliveredNotifications().filter { notification in
        let ring = notification.request.content.userInfo["pigeonhole"] as? [String: Any]
        return ring?["conversation_id"] as? String == conversation && (ring?["seq"] as? Int ?? 0) <= seq
    }
    center.removeDeliveredNotifications(withIdentifiers: shown.map(\.request.identifier))
}
