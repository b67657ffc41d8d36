package dev.pigeonhole

import java.time.Instant
import kotlinx.serialization.Serializable
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.jsonObject

/** Something the app should know. A later version has further events: a `when` needs an `else`. */
public interface Event {
    /** The next entry of its conversation, in the order of `seq`, each once. The own ones come too. */
    @Serializable
    public data class Entry(
        @kotlinx.serialization.SerialName("entry") val message: Message,
        /** The entry came while this device was not connected. */
        val missed: Boolean,
    ) : Event

    /** The mark of a member, which only rises. `kind` is `delivered` or `read`. */
    @Serializable
    public data class Receipt(val kind: String, val conversationId: String, val userId: String, val seq: Long) : Event

    /** A row of the chat list, read after a connect. */
    public data class RowChanged(val row: Row) : Event

    /** The user's settings have changed, on this or another device. */
    public data class SettingsChanged(val settings: Settings) : Event

    /** A member is typing, for the next 6 s or until the message comes. `text`: so far, of a service alone. */
    @Serializable
    public data class Typing(
        val conversationId: String,
        val userId: String,
        val at: Timestamp,
        val text: String? = null,
    ) : Event

    /** A user whose presence is watched has come or gone. */
    public data class PresenceChanged(val presence: Presence) : Event

    /** How much of a message's file is uploaded. */
    @Serializable
    public data class Uploading(val clientMsgId: String, val done: Long, val bytes: Long) : Event

    /** The server has applied a change that is no entry. */
    @Serializable
    public data class Reacted(val request: JsonObject) : Event

    /** The subscription to a channel has ended. */
    @Serializable
    public data class Unwatched(val conversationId: String, val code: String, val reason: String) : Event

    /** An encrypted message that this device can't read. The views have its place. [Item.Unreadable] has the reasons. */
    @Serializable
    public data class Unreadable(val conversationId: String, val seq: Long, val senderId: String, val why: String) : Event

    /**
     * News of the encryption. `what` is `identity_changed` (of `user`), `device_added`, `device_removed`, `joined`, `reset`
     * (by `by`), `broken`, `wrong_mark`, `without_keys` (of `users`), `last_resort`, `unknown_device` or
     * `keys_refused`.
     */
    @Serializable
    public data class Security(
        @kotlinx.serialization.SerialName("is") val what: String,
        val conversationId: String? = null,
        val user: String? = null,
        val by: String? = null,
        val device: String? = null,
        val fromSeq: Long? = null,
        /** The members of a group who have no keys, and can't read it. */
        val users: List<String> = emptyList(),
    ) : Event

    /** The server refused a message or a change for good. */
    @Serializable
    public data class Failed(val request: JsonObject, val code: String, val reason: String) : Event

    /** The store was damaged, and is new. A copy is at `path` for 7 days. */
    @Serializable
    public data class SetAside(val path: String) : Event

    /** An error of the client's own: it has begun again from the store. */
    public data object Restarted : Event
}

/** How the connection is doing. */
public sealed interface State {
    public data object Connecting : State

    /** The client requests what it missed. */
    public data object Online : State

    /** The app has every event that it missed. */
    public data object CaughtUp : State

    /** `why` is a word for programs, `reason` a text for developers. `status` is HTTP's. */
    public data class Offline(val why: String, val reason: String, val status: Int?, val retryAt: Instant?) : State

    /** The user has opened too many connections. Only `wake` opens the next one. */
    public data object Replaced : State

    public data object Closed : State
}

@Serializable
private data class Written(
    val `is`: String,
    val why: String = "",
    val reason: String = "",
    val status: Int? = null,
    val retryAt: Long? = null,
)

/** Reads an event of the engine. `null`: it is one of a later version. */
internal fun eventOf(name: String, fields: JsonObject): Event? = when (name) {
    "message" -> json.decodeFromJsonElement<Event.Entry>(fields)
    "receipt" -> json.decodeFromJsonElement<Event.Receipt>(fields)
    "conversation" -> Event.RowChanged(json.decodeFromJsonElement(fields))
    "settings" -> Event.SettingsChanged(json.decodeFromJsonElement(fields))
    "typing" -> json.decodeFromJsonElement<Event.Typing>(fields)
    "presence" -> Event.PresenceChanged(json.decodeFromJsonElement(fields))
    "uploading" -> json.decodeFromJsonElement<Event.Uploading>(fields)
    "reacted" -> json.decodeFromJsonElement<Event.Reacted>(fields)
    "unwatched" -> json.decodeFromJsonElement<Event.Unwatched>(fields)
    "unreadable" -> json.decodeFromJsonElement<Event.Unreadable>(fields)
    "security" -> json.decodeFromJsonElement<Event.Security>(fields)
    "failed" -> json.decodeFromJsonElement<Event.Failed>(fields)
    "set_aside" -> json.decodeFromJsonElement<Event.SetAside>(fields)
    else -> null
}

/** Reads a state of the engine. `until` is the wait for a time of the engine's clock, in milliseconds. */
internal fun stateOf(fields: JsonObject, until: (Long) -> Long): State? {
    val state = json.decodeFromJsonElement<Written>(fields)
    return when (state.`is`) {
        "connecting" -> State.Connecting
        "online" -> State.Online
        "caught_up" -> State.CaughtUp
        "replaced" -> State.Replaced
        "offline" -> State.Offline(
            state.why,
            state.reason,
            state.status,
            state.retryAt?.let { Instant.now().plusMillis(until(it)) },
        )
        else -> null
    }
}

internal fun fieldsOf(event: String): Pair<String, JsonObject>? {
    val (name, fields) = json.parseToJsonElement(event).jsonObject.entries.firstOrNull() ?: return null
    return name to fields.jsonObject
}
