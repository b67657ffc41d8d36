// The data that the server sends. `docs/protocol.md` explains each field; a field of a later version is skipped.

package dev.pigeonhole

import java.time.Instant
import java.time.ZoneOffset
import java.time.format.DateTimeFormatter
import kotlinx.serialization.ExperimentalSerializationApi
import kotlinx.serialization.KSerializer
import kotlinx.serialization.Serializable
import kotlinx.serialization.descriptors.PrimitiveKind
import kotlinx.serialization.descriptors.PrimitiveSerialDescriptor
import kotlinx.serialization.encoding.Decoder
import kotlinx.serialization.encoding.Encoder
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonNamingStrategy
import kotlinx.serialization.json.JsonObject

@OptIn(ExperimentalSerializationApi::class)
internal val json = Json {
    namingStrategy = JsonNamingStrategy.SnakeCase
    ignoreUnknownKeys = true
    explicitNulls = false
}

/** A time, as the protocol writes it: in UTC, with milliseconds. */
internal object Time : KSerializer<Instant> {
    private val written = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC)
    override val descriptor = PrimitiveSerialDescriptor("Time", PrimitiveKind.STRING)
    override fun serialize(encoder: Encoder, value: Instant) = encoder.encodeString(written.format(value))
    override fun deserialize(decoder: Decoder): Instant = Instant.parse(decoder.decodeString())
}

internal typealias Timestamp = @Serializable(Time::class) Instant

/** An entry of a conversation: a message, a system entry, or a change entry, which changes the message `targetSeq`. */
@Serializable
public data class Message(
    val conversationId: String,
    val seq: Long,
    val messageId: String,
    val senderId: String,
    /** `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `x-NAME`, `xs-NAME`, or a later one. */
    val kind: String,
    val body: String,
    val sentAt: Timestamp,
    val clientMsgId: String? = null,
    val media: Media? = null,
    /** The app's own data. */
    val data: JsonObject? = null,
    val replyTo: Long? = null,
    val mentions: List<String> = emptyList(),
    val version: Long? = null,
    val editedAt: Timestamp? = null,
    val deletedAt: Timestamp? = null,
    val deletedBy: String? = null,
    val reactions: List<Reaction> = emptyList(),
    val reactionsSeq: Long? = null,
    val targetSeq: Long? = null,
    /** An edit of this device that leaves the message's data as it is. */
    val keepsData: Boolean = false,
    val emoji: String? = null,
    val emojiBefore: String? = null,
    /** Pins only: `false` takes the pin off. */
    val pinned: Boolean? = null,
    val system: SystemEntry? = null,
) {
    /** False for system entries, change entries and kinds of a later version. */
    val isMessage: Boolean get() = kind in setOf("text", "image", "file", "voice") || kind.startsWith("x-")
}

@Serializable
public data class Reaction(val emoji: String, val count: Long, val mine: Boolean)

/** An event of a group: `created`, `members.added`, `member.left` … */
@Serializable
public data class SystemEntry(
    val event: String = "",
    val title: String? = null,
    val members: List<String>? = null,
    val userId: String? = null,
    val role: String? = null,
    val history: String? = null,
    val post: String? = null,
    val add: String? = null,
    val join: String? = null,
    val rings: String? = null,
    /** The end of a restriction, or `forever`. */
    val until: String? = null,
)

/** The file of a message. */
@Serializable
public data class Media(
    val mediaId: String,
    /** Empty, as is the digest, in an encrypted message that this client can't open. */
    val mime: String = "",
    val bytes: Long,
    val sha256: String = "",
    val name: String? = null,
    val width: Long? = null,
    val height: Long? = null,
    val durationMs: Long? = null,
    val thumbhash: String? = null,
    val waveform: String? = null,
    /** The key of an encrypted file, for [Pigeonhole.download]. */
    val key: String? = null,
    /** A small image, in base64. */
    val thumbnail: String? = null,
)

/** A row of the chat list, or of the list of channels. */
@Serializable
public data class Row(
    val conversationId: String,
    /** `direct`, `note`, `group` or `channel`. */
    val kind: String,
    val peerId: String? = null,
    val title: String? = null,
    /** `owner`, `admin`, `member` or `none`. */
    val role: String? = null,
    val memberCount: Long? = null,
    val firstSeq: Long? = null,
    val history: String? = null,
    val post: String? = null,
    val add: String? = null,
    val join: String? = null,
    val rings: String? = null,
    /** In a channel: the last message that mentions the user, until it is read. */
    val mentionedSeq: Long? = null,
    val lastMessage: LastMessage? = null,
    val unread: Long,
    val mentions: Long? = null,
    val deliveredSeq: Long? = null,
    val readSeq: Long,
    val lastSeq: Long,
    /** A time, or `forever`. */
    val mutedUntil: String? = null,
    val muteMentions: Boolean = false,
    val archived: Boolean = false,
    val markedUnread: Boolean = false,
    val blocked: Boolean = false,
)

@Serializable
public data class LastMessage(
    val seq: Long,
    val senderId: String,
    val kind: String,
    val preview: String,
    val sentAt: Timestamp,
    val deleted: Boolean = false,
    val system: SystemEntry? = null,
)

/** A page of the chat list, or of channels. The next one begins at `nextCursor`, if there is one. */
@Serializable
public data class Rows(val conversations: List<Row>, val nextCursor: String? = null)

/** A page of a conversation. */
@Serializable
public data class History(
    val messages: List<Message>,
    val more: Boolean,
    val lastSeq: Long,
    val firstSeq: Long? = null,
    val members: List<Marks> = emptyList(),
)

/** How far a member has received and read. */
@Serializable
public data class Marks(val userId: String, val deliveredSeq: Long, val readSeq: Long)

/** A page of a group's marks. */
@Serializable
public data class AllMarks(
    val deliveredSeq: Long,
    val readSeq: Long,
    val members: List<Marks>,
    val nextCursor: String? = null,
)

@Serializable
public data class Members(val members: List<Member>, val nextCursor: String? = null)

@Serializable
public data class Member(val userId: String, val role: String, val joinedSeq: Long)

@Serializable
public data class Reactors(val reactions: List<Reactor>, val nextCursor: String? = null)

@Serializable
public data class Reactor(val userId: String, val emoji: String)

@Serializable
public data class Presence(val userId: String, val online: Boolean, val lastSeenAt: Timestamp? = null)

/** The name and the data of a user. `version` rises with each change. */
@Serializable
public data class Profile(
    val userId: String,
    val name: String? = null,
    val data: JsonObject? = null,
    val version: Long,
)

@Serializable
public data class Unread(val unread: Long, val mentions: Long? = null)

/** The entry of a stored message or change. */
@Serializable
public data class Stored(
    val conversationId: String,
    val seq: Long,
    val messageId: String,
    val sentAt: Timestamp,
    /** An earlier try had stored it. */
    val duplicate: Boolean = false,
    val version: Long? = null,
)

/**
 * Hours of each day, also past midnight, in minutes of the device's day. `offsetMin`: of its zone from UTC; register again
 * when it changes.
 */
public data class Quiet(val fromMin: Int, val toMin: Int, val offsetMin: Int)

/** The result of an addition of members. */
@Serializable
public data class Added(
    val added: List<String> = emptyList(),
    val already: List<String> = emptyList(),
    val notAdded: List<NotAdded> = emptyList(),
)

@Serializable
public data class NotAdded(val userId: String, val reason: String)

/** `live`: entries come as events. Else, and beside them, request the history every `pollMs`. */
@Serializable
public data class Watched(val live: Boolean, val lastSeq: Long, val pollMs: Long)

/**
 * A changed setting of a conversation, or of a user. `set` has only what changed: `muted_until`, `mute_mentions`,
 * `archived`, `unread`, `blocked`.
 */
@Serializable
public data class Settings(val conversationId: String? = null, val userId: String? = null, val set: JsonObject)
