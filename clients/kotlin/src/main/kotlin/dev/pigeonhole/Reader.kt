package dev.pigeonhole

import dev.pigeonhole.ffi.Encrypted
import java.io.File

/**
 * The store in a client's folder, for another process that shows notifications. The app can have the client open at the
 * same time.
 *
 * A reader changes nothing. Each call blocks for one read of what the client has committed. All functions may be called
 * from any thread.
 */
public class Reader private constructor(private val reader: dev.pigeonhole.ffi.Reader) : AutoCloseable {
    /**
     * Returns what a notification shows of a message. `null`: show nothing, because the user has read the message, its
     * author has deleted it, or the user has blocked the author.
     */
    public fun notice(conversationId: String, seq: Long): Notice? =
        public { reader.notice(conversationId, seq.toULong()) }?.run { Notice(title, senderId, body) }

    /** The number of unread messages in all conversations that are not archived. */
    public fun unread(): Long = public { reader.unread() }.toLong()

    /** The rows of the chat list, the newest first. */
    public fun chats(): List<Row> = json.decodeFromString(public { reader.chats() })

    /** The newest `limit` messages of a conversation below `before`, oldest first. `null`: the newest of all. */
    public fun messages(conversationId: String, before: Long? = null, limit: Int = 50): List<Message> =
        json.decodeFromString(public { reader.messages(conversationId, before?.toULong(), limit.toUInt()) })

    internal fun position(encrypted: Encrypted, conversationId: String): Long? =
        public { reader.position(encrypted, conversationId) }?.toLong()

    internal fun opened(encrypted: Encrypted, pages: List<String>): List<Message> =
        json.decodeFromString(public { reader.opened(encrypted, pages, System.currentTimeMillis()) })

    /** Closes the store. */
    override fun close(): Unit = reader.close()

    public companion object {
        /**
         * Opens the store of this user in the folder of [Config].
         *
         * The code of the exception is `wrong_user`; `newer`: a later version of the app wrote the store; `store`: no store
         * exists, or the store can't be read.
         */
        public fun open(folder: File, userId: String): Reader =
            Reader(public { dev.pigeonhole.ffi.Reader.open(folder.absolutePath, userId) })
    }
}

/** The part of a message that a notification shows. */
public data class Notice(
    /** The title of the group or channel, or the other user of a direct conversation. `null`: the conversation is new. */
    val title: String?,
    /** The author. `null`: the message is not stored yet. */
    val senderId: String?,
    /** The text. `null`: the message is not stored yet, or has no text. */
    val body: String?,
)
