// A sample of the messaging service of an app for Pigeonhole; docs/clients.md describes push. The sample needs
// Firebase's messaging library, and in the manifest a service with the action com.google.firebase.MESSAGING_EVENT.

package chat.pigeonhole.sample

import android.app.NotificationManager
import android.os.Bundle
import androidx.core.app.NotificationCompat
import com.google.firebase.messaging.FirebaseMessagingService
import com.google.firebase.messaging.RemoteMessage

class NotificationService : FirebaseMessagingService() {
    private val manager get() = getSystemService(NotificationManager::class.java)

    /**
     * Called off the main thread, with about 10 seconds, also while no screen of the app is open. All values are text.
     */
    override fun onMessageReceived(ring: RemoteMessage) {
        val conversation = ring.data["conversation_id"] ?: return
        val seq = ring.data["seq"]?.toLongOrNull() ?: return
        when (ring.data["type"]) {
            "message" -> {
                // For a phone that is off, FCM keeps one notification of all conversations: only catching up finds the
                // others.
                val missed = catchUp()
                if (missed.isEmpty()) show(conversation, seq, ring.data["sender_id"], ring.data["preview"], "quiet" in ring.data)
                missed.forEach { show(it.conversation, it.seq, it.name, it.text) }
            }
            "read" -> clear(conversation, seq)
        }
    }

    /** Tokens change: after a restore, a reinstallation, or when Firebase decides so. */
    override fun onNewToken(token: String) {
        // Your own: client.registerDevice, now or with the next connection.
    }

    private fun show(conversation: String, seq: Long, name: String?, text: String?, quiet: Boolean = false) {
        val notification = NotificationCompat.Builder(this, "messages")
            .setSmallIcon(android.R.drawable.ic_dialog_email)
            .setContentTitle(name ?: "New message")
            .setContentText(text)
            .setAutoCancel(true)
            .setSilent(quiet)
            .addExtras(Bundle().apply { putLong("seq", seq) })
        // The conversation is the tag, so that the next one replaces this one.
        manager.notify(conversation, 0, notification.build())
    }

    private fun clear(conversation: String, seq: Long) {
        val shown = manager.activeNotifications.firstOrNull { it.tag == conversation } ?: return
        if (shown.notification.extras.getLong("seq") <= seq) manager.cancel(conversation, 0)
    }

    class Missed(val conversation: String, val seq: Long, val name: String, val text: String)

    /**
     * Write this function for your app: connect, drain, acknowledge what is stored, and return the messages to show.
     */
    private fun catchUp(): List<Missed> = emptyList()
}
