package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.Encrypted
import java.io.File
import java.time.Instant
import kotlinx.coroutines.CompletableDeferred
import kotlinx.serialization.encodeToString
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.add
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject

/** The entries that a notification requests at a time, and how often. */
private const val PEEK_PAGE = 100
private const val PEEK_PAGES_MAX = 20

/**
 * A conversation: direct, a group or a channel.
 *
 * A function that returns a [Sent] uses the outbox: after it returns, a restart does not lose the request. The server
 * stores a conversation's requests in the order of the calls. All other functions return the server's reply.
 */
public class Conversation internal constructor(
    private val pigeonhole: Pigeonhole,
    /** A direct conversation has its id before its first message. */
    public val id: String,
    /** Where messages go: to the conversation, or to the user. */
    private val target: JsonObject,
) {
    /** Opens a view of the messages. */
    public fun messages(at: At = At.Newest): MessagesView = pigeonhole.messages(target, at)

    /** Opens a view of the members of this group or channel, with their roles and marks. */
    public fun roster(): RosterView = pigeonhole.roster(id)

    /** Sends a text. `mentions` are users of a group, or `*` for all; `data` is the app's own object. */
    public suspend fun send(
        text: String,
        replyTo: Long? = null,
        mentions: List<String> = emptyList(),
        data: JsonObject? = null,
    ): Sent<Stored> = pigeonhole.message(target) {
        put("body", text)
        replyTo?.let { put("reply_to", it) }
        if (mentions.isNotEmpty()) putJsonArray("mentions") { mentions.forEach { add(it) } }
        data?.let { put("data", it) }
    }

    /**
     * Sends a message of the app's own `kind`: `x-NAME`, or `xs-NAME`, which is silent and has no text. Apps that do not
     * know `x-NAME` show the text.
     */
    public suspend fun sendOwn(kind: String, data: JsonObject, text: String = "", replyTo: Long? = null): Sent<Stored> =
        pigeonhole.message(target) {
            put("kind", kind)
            put("body", text)
            put("data", data)
            replyTo?.let { put("reply_to", it) }
        }

    /** Sends a text as a reply to the message at `seq`. */
    public suspend fun reply(seq: Long, text: String): Sent<Stored> = send(text, replyTo = seq)

    /** Sends a file, a picture or a voice note. The client uploads it first, over restarts too. */
    public suspend fun sendFile(file: Attachment): Sent<Stored> {
        val media = file.announced(pigeonhole.isEncrypted)
        return pigeonhole.message(target) {
            put("body", file.caption)
            put("media", media)
        }
    }

    /** Returns the file of a message in a view, as the other [attachment][Pigeonhole.attachment]. */
    public suspend fun attachment(item: Item.Message): File = pigeonhole.attachment(id, item.seq, item.media, item.path)

    /** Changes the text of an own message. `data` replaces its data; [JsonNull] removes it; `null` keeps it. */
    public suspend fun edit(seq: Long, text: String, data: JsonElement? = null): Sent<Stored> = change("edit", seq) {
        put("body", text)
        data?.let { put("data", it) }
    }

    /** Deletes an own message for all members. */
    public suspend fun delete(seq: Long): Sent<Stored> = change("delete", seq) {}

    /** Reacts to a message, in place of an earlier reaction. `null` takes it back. */
    public suspend fun react(seq: Long, emoji: String?): Sent<Stored> = change("react", seq) {
        put("emoji", emoji)
    }

    /** Pins a message for all members, or takes the pin off. In a group or channel, for its owner and admins. */
    public suspend fun pin(seq: Long, pinned: Boolean): Sent<Stored> = change("pin", seq) {
        put("pinned", pinned)
    }

    /** Adds members to a group or channel. */
    public suspend fun add(members: List<String>): Sent<Added> = keep("add") {
        putJsonArray("members") { members.forEach { add(it) } }
    }

    /** Removes a member. */
    public suspend fun remove(userId: String): Sent<Stored> = keep("remove") { put("user_id", userId) }

    /** Leaves the group or channel. */
    public suspend fun leave(): Sent<Left> = keep("leave") {}

    /** Makes a member `owner`, `admin` or `member`. */
    public suspend fun role(userId: String, role: String): Sent<Stored> = keep("role") {
        put("user_id", userId)
        put("role", role)
    }

    /** Lets a member only read until a time in RFC 3339, or `forever`. With `null`, the restriction ends. */
    public suspend fun restrict(userId: String, until: String?): Sent<Stored> = keep("restrict") {
        put("user_id", userId)
        put("until", until)
    }

    /** Changes the title or the rules. */
    public suspend fun update(title: String? = null, set: GroupSettings = GroupSettings()): Sent<Stored> = keep("update") {
        title?.let { put("title", it) }
        set.into(this)
    }

    /** A page of at most 100 entries: the newest, or those before or after a `seq`. */
    public suspend fun history(before: Long? = null, after: Long? = null, limit: Int = 50): History = ask("history") {
        before?.let { put("before_seq", it) }
        after?.let { put("after_seq", it) }
        put("limit", limit)
    }

    /**
     * Opens an encrypted message for a notification, with the keys that the app's client has. The client opens the
     * message itself later, since its keys stay as they are.
     *
     * Call this on a client of the notification's own, with [Keep.OUTBOX]. `reader` has the app's store; `keys` and
     * `deviceId` are the app's. `null`: the message can't be opened, or the app has opened it.
     */
    public suspend fun peek(seq: Long, reader: Reader, keys: Keys, deviceId: String): Message? {
        val encrypted = Encrypted(keys.export(), deviceId)
        var after = reader.position(encrypted, id) ?: return null
        val pages = mutableListOf<String>()
        while (after < seq && pages.size < PEEK_PAGES_MAX) {
            val page: JsonObject = ask("history") {
                put("after_seq", after)
                put("limit", PEEK_PAGE)
            }
            val last = page["messages"]?.jsonArray?.lastOrNull() ?: break
            after = last.jsonObject.getValue("seq").jsonPrimitive.long
            pages += page.toString()
        }
        return reader.opened(encrypted, pages).find { it.seq == seq }
    }

    /** A page of the members. */
    public suspend fun members(cursor: String? = null, limit: Int = 100): Members = ask("members") { page(cursor, limit) }

    /** A page of how far the members of a group have received and read. */
    public suspend fun receipts(cursor: String? = null, limit: Int = 100): AllMarks = ask("receipts") { page(cursor, limit) }

    /** A page of who reacted to a message. */
    public suspend fun reactions(seq: Long, cursor: String? = null, limit: Int = 100): Reactors = ask("reactions") {
        put("seq", seq)
        page(cursor, limit)
    }

    /** The user has read everything up to `seq`. Calls within a second share one report. */
    public suspend fun read(seq: Long): Unread =
        json.decodeFromString(pigeonhole.call { EdgeInput.Read(it, id, seq.toULong()) }.await())

    /** The user has read everything, although some of it may never have come to this device. */
    public fun readAll(): Unit = pigeonhole.say(EdgeInput.ReadAll(id))

    /** The user is typing: call it at each key. */
    public fun typing(): Unit = pigeonhole.say(EdgeInput.Typing(id))

    /** Saves a text that the user has begun, 300 ms after a key. `null`: it was sent or removed. */
    public fun draft(text: String?, replyTo: Long? = null, mentions: List<String> = emptyList()) {
        val draft = text?.let { json.encodeToString(Draft(it, replyTo, mentions)) }
        pigeonhole.say(EdgeInput.Draft(target.toString(), draft))
    }

    /** Subscribes to a channel, above `after` or its current last entry, until [unwatch] or [Event.Unwatched]. */
    public suspend fun watch(after: Long? = null): Watched =
        json.decodeFromString(pigeonhole.call { EdgeInput.Watch(it, id, after?.toULong()) }.await())

    /** Ends the subscription. */
    public fun unwatch(): Unit = pigeonhole.say(EdgeInput.Unwatch(id))

    /** No push until then. `null`: not muted; [Instant.MAX]: for ever. */
    public suspend fun mute(until: Instant?): Unit = set {
        when (until) {
            null -> put("muted_until", JsonNull)
            Instant.MAX -> put("muted_until", "forever")
            else -> put("muted_until", json.encodeToJsonElement(Time, until))
        }
    }

    /** Hides it in the chat list, until the next message. */
    public suspend fun archive(archived: Boolean): Unit = set { put("archived", archived) }

    /** Keeps it at the top of the chat list. Ten conversations can be there, and ten channels. */
    public suspend fun pinToTop(pinned: Boolean): Unit = set { put("pinned", pinned) }

    /** Shows it as unread, on all devices, until it is read. [ChatRow.unread] stays the number. */
    public suspend fun markUnread(unread: Boolean): Unit = set { put("unread", unread) }

    private suspend fun set(fields: JsonObjectBuilder.() -> Unit) {
        pigeonhole.call("settings") {
            put("conversation_id", id)
            putJsonObject("set", fields)
        }
    }

    private suspend fun change(action: String, seq: Long, fields: JsonObjectBuilder.() -> Unit): Sent<Stored> =
        keep(action) {
            put("seq", seq)
            fields()
        }

    private suspend inline fun <reified T> keep(action: String, noinline fields: JsonObjectBuilder.() -> Unit): Sent<T> =
        pigeonhole.keep(action) {
            put("conversation_id", id)
            fields()
        }

    private suspend inline fun <reified T> ask(action: String, noinline fields: JsonObjectBuilder.() -> Unit): T =
        pigeonhole.ask(action) {
            put("conversation_id", id)
            fields()
        }

    private fun JsonObjectBuilder.page(cursor: String?, limit: Int) {
        put("limit", limit)
        cursor?.let { put("cursor", it) }
    }
}

/** The result of [Conversation.leave]. A channel has no entry about it, so `seq` is left out. */
@kotlinx.serialization.Serializable
public data class Left(val seq: Long? = null)
