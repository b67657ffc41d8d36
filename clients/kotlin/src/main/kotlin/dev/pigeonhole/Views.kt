package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import java.time.Instant
import java.time.ZoneId
import java.time.ZoneOffset
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.encodeToJsonElement
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonObject

/** Where a view of a conversation opens. */
public sealed interface At {
    /** At the end. */
    public data object Newest : At

    /** Around the first unread message; at the end if there is none. */
    public data object FirstUnread : At

    /** Around this entry. */
    public data class Seq(val seq: Long) : At
}

/** Which rows of the chat list a view has. */
@Serializable
public data class Filter(
    /** The rows in the archive, instead of the others. */
    val archived: Boolean = false,
    /** Only these kinds, such as `group`. Empty: all. */
    val kinds: List<String> = emptyList(),
    /** The title or the peer has these words, the last one perhaps not complete. */
    val words: String = "",
)

/** The chat list at some time. */
public data class ListSnapshot(
    /** Pinned conversations first, then those with the latest message. */
    val rows: List<ChatRow>,
    /** The unread messages of all conversations that are not muted, for the app's badge. */
    val unread: Long,
    /** The known names of the users in the rows, by id, with [Config.names]. */
    val names: Map<String, String>,
)

/** The view of a conversation at some time. */
public data class Screen(
    val conversationId: String,
    /** The conversation's row of the chat list, with who is typing and is online. `null`: the conversation is new. */
    val chat: ChatRow?,
    /** Everything to draw, in order. */
    val items: List<Item>,
    /** [MessagesView.older] brings more. */
    val hasOlder: Boolean,
    /** [MessagesView.newer] brings more: new messages are not among the items. */
    val hasNewer: Boolean,
    val unread: Long,
    /** The known names of the users in the items, by id, with [Config.names]. */
    val names: Map<String, String>,
    /** The pinned messages that are not deleted, the last pinned first. Without `message`, it has not come. */
    val pins: List<Reply> = emptyList(),
)

/** The members of a group or channel at some time. */
public data class RosterSnapshot(
    val conversationId: String,
    /** The owner, the admins and then the others, each in the order of their ids. */
    val members: List<MemberRow>,
    /** The known names of the members, by id, with [Config.names]. */
    val names: Map<String, String>,
)

/**
 * A view for an interface. The view follows everything that happens until [close].
 *
 * A collector that is slow gets the newest state only.
 */
public abstract class View<T : Any> internal constructor(private val loop: Loop) : AutoCloseable {
    internal val number = loop.newView()
    private val newest = MutableStateFlow<T?>(null)

    /** The newest state, to draw. `null`: the store has not been read yet. */
    public val shown: StateFlow<T?> = newest.asStateFlow()

    /** The content that the engine opens, and the next engine too. */
    internal abstract val of: JsonObject

    internal abstract fun read(shown: JsonObject): T

    internal fun show(text: String) {
        val state = read(json.parseToJsonElement(text).jsonObject)
        // A collector of `shown` finds the new list too.
        list(state)
        newest.value = state
    }

    /** Takes the list in the new state. */
    internal abstract fun list(shown: T)

    internal fun act(act: JsonElement) = loop.say(EdgeInput.Act(number, act.toString()))

    internal fun act(name: String, value: JsonElement) = act(JsonObject(mapOf(name to value)))

    /** Ends the view, which then shows nothing new. */
    override fun close(): Unit = loop.closeView(this)
}

/** A view of the chat list. */
public class ChatList internal constructor(loop: Loop, @Volatile private var filter: Filter) : View<ListSnapshot>(loop) {
    private val drawn = Drawn<ChatRow> { json.decodeFromJsonElement(it) }
    private val newest = MutableStateFlow(emptyList<ChatRow>())

    /** The rows of [shown]. */
    public val rows: StateFlow<List<ChatRow>> = newest.asStateFlow()

    /** Selects other rows. */
    public fun select(filter: Filter) {
        this.filter = filter
        act("filter", json.encodeToJsonElement(filter))
    }

    override val of: JsonObject get() = JsonObject(mapOf("chats" to json.encodeToJsonElement(filter)))

    override fun read(shown: JsonObject): ListSnapshot {
        val list = shown.getValue("chats").jsonObject
        return ListSnapshot(drawn.all(list.getValue("rows") as JsonArray), list.number("unread"), list.names())
    }

    override fun list(shown: ListSnapshot) {
        newest.value = shown.rows
    }
}

/** A view of the messages of a conversation. Older ones come from the store and the server. */
public class MessagesView internal constructor(
    loop: Loop,
    private val with: JsonObject,
    @Volatile private var at: At,
) : View<Screen>(loop) {
    private val drawn = Drawn(read = ::itemOf)
    private val drawnChat = Drawn<ChatRow> { json.decodeFromJsonElement(it) }
    private val newest = MutableStateFlow(emptyList<Item>())

    /** The items of [shown]. */
    public val items: StateFlow<List<Item>> = newest.asStateFlow()

    /** Shows older messages: the user has come near the first item. */
    public fun older(): Unit = act(JsonPrimitive("older"))

    /** Shows newer messages: the user has come near the last item. */
    public fun newer(): Unit = act(JsonPrimitive("newer"))

    /** Shows another part of the conversation. */
    public fun jump(at: At) {
        this.at = at
        act("jump", at.form())
    }

    /**
     * The item was on the screen: the client marks it as read, with all unread messages before it. Call it for each
     * item that was visible for 300 ms while the app was in the foreground.
     */
    public fun seen(item: Item): Unit = seen(item.key)

    /** As the other, for a list that knows the keys of the visible items. */
    public fun seen(key: String): Unit = act("seen", JsonPrimitive(key))

    override val of: JsonObject
        get() = buildJsonObject {
            putJsonObject("messages") {
                put("with", with)
                put("at", at.form())
            }
        }

    override fun read(shown: JsonObject): Screen {
        val screen = shown.getValue("messages").jsonObject
        val messages = screen.getValue("messages").jsonObject
        return Screen(
            screen.word("conversation_id").orEmpty(),
            drawnChat.all(JsonArray(listOfNotNull(screen["chat"] as? JsonObject))).firstOrNull(),
            drawn.all(messages.getValue("items") as JsonArray),
            messages.word("has_older").toBoolean(),
            messages.word("has_newer").toBoolean(),
            messages.number("unread"),
            screen.names(),
            (messages["pins"] as? JsonArray).orEmpty().map { json.decodeFromJsonElement(it) },
        )
    }

    override fun list(shown: Screen) {
        newest.value = shown.items
    }
}

/** A view of the members of a group or channel, with their roles and marks. */
public class RosterView internal constructor(loop: Loop, private val id: String) : View<RosterSnapshot>(loop) {
    private val drawn = Drawn<MemberRow>("user_id") { json.decodeFromJsonElement(it) }
    private val newest = MutableStateFlow(emptyList<MemberRow>())

    /** The members of [shown]. */
    public val members: StateFlow<List<MemberRow>> = newest.asStateFlow()

    override val of: JsonObject get() = JsonObject(mapOf("members" to JsonPrimitive(id)))

    override fun read(shown: JsonObject): RosterSnapshot {
        val roster = shown.getValue("members").jsonObject
        return RosterSnapshot(
            roster.word("conversation_id").orEmpty(),
            drawn.all(roster.getValue("members") as JsonArray),
            roster.names(),
        )
    }

    override fun list(shown: RosterSnapshot) {
        newest.value = shown.members
    }
}

private fun At.form(): JsonElement = when (this) {
    At.Newest -> JsonPrimitive("newest")
    At.FirstUnread -> JsonPrimitive("first_unread")
    is At.Seq -> JsonObject(mapOf("seq" to JsonPrimitive(seq)))
}

private fun JsonObject.number(name: String): Long = word(name)?.toLong() ?: 0

private fun JsonObject.names(): Map<String, String> = this["names"]?.let { json.decodeFromJsonElement(it) } ?: emptyMap()

/** Reads the things with keys that have changed. All others are the same objects as before, which Compose skips. */
internal class Drawn<T>(private val key: String = "key", private val read: (JsonObject) -> T) {
    private var last = emptyMap<String, Pair<JsonObject, T>>()

    fun all(things: JsonArray): List<T> {
        val all = things.map { thing ->
            val fields = thing.jsonObject
            last[fields.word(key)]?.takeIf { it.first == fields } ?: (fields to read(fields))
        }
        last = all.associateBy { it.first.word(key).orEmpty() }
        return all.map { it.second }
    }
}

/** The offsets of this zone for the last 10 years and the next one, each by the time in ms from which it holds. */
internal fun offsetsOf(zone: ZoneId, now: Instant): Map<Long, Int> {
    val (from, to) = now.atZone(ZoneOffset.UTC).run { minusYears(10).toInstant() to plusYears(1).toInstant() }
    val next = { at: Instant -> zone.rules.nextTransition(at)?.takeIf { it.instant < to } }
    val transitions = generateSequence(next(from)) { next(it.instant) }
    val first = from.toEpochMilli() to zone.rules.getOffset(from).totalSeconds
    return mapOf(first) + transitions.map { it.instant.toEpochMilli() to it.offsetAfter.totalSeconds }
}
