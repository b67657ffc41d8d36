// The items of a conversation and the rows of the chat list, which an interface draws.

package dev.pigeonhole

import java.io.File
import java.time.DateTimeException
import java.time.LocalDate
import kotlinx.serialization.DeserializationStrategy
import kotlinx.serialization.KSerializer
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import kotlinx.serialization.descriptors.PrimitiveKind
import kotlinx.serialization.descriptors.PrimitiveSerialDescriptor
import kotlinx.serialization.encoding.Decoder
import kotlinx.serialization.encoding.Encoder
import kotlinx.serialization.json.JsonContentPolymorphicSerializer
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.contentOrNull
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.jsonObject

/** One thing to draw in a conversation. An item that did not change is the same object in the next list. */
public sealed interface Item {
    /** Stays the same wherever the item moves, and is another one for each item of a view. */
    public val key: String

    /** A new day. */
    public data class Day(override val key: String, val day: LocalDate) : Item

    /** The unread separator. The first unread message follows; `count` is the number when the view was opened. */
    @Serializable
    public data class Unread(override val key: String, val count: Long) : Item

    /** Entries between these two are missing. The view has requested them. */
    @Serializable
    public data class Gap(override val key: String, val afterSeq: Long, val beforeSeq: Long) : Item

    /** An event of the group, which `senderId` caused. */
    @Serializable
    public data class System(
        override val key: String,
        val seq: Long,
        val senderId: String,
        val at: Timestamp,
        val event: SystemEntry,
    ) : Item

    /** A message, stored or not. */
    @Serializable
    public data class Message(
        override val key: String,
        /** `null` until the server has stored it. */
        val seq: Long? = null,
        /** The id of an own message's request. */
        val clientMsgId: String? = null,
        val senderId: String,
        /** When the server stored it; until then, when the user wrote it. */
        val at: Timestamp,
        /** `text`, `image`, `file`, `voice` or `x-NAME`. An app that does not know an own kind shows the text. */
        val kind: String,
        /** The text, with the user's latest edit. Empty if the message is deleted. */
        val body: String,
        /** The app's own data. */
        val data: JsonObject? = null,
        /** The silent entries of own kinds that reply to the message, oldest first, as far as the view has them. */
        val signals: List<Signal> = emptyList(),
        /** The file of a stored message. */
        val media: Media? = null,
        /** The file on this device, after [Conversation.attachment]. */
        @Serializable(Path::class) val path: File? = null,
        /** The file of a message that is not stored. */
        val upload: Upload? = null,
        val mentions: List<String> = emptyList(),
        /** The message that this one replies to. */
        val reply: Reply? = null,
        val editedAt: Timestamp? = null,
        /** The user who deleted it. Text, file and reactions are gone. */
        val deletedBy: String? = null,
        /** The most frequent first. */
        val reactions: List<Reaction> = emptyList(),
        /** The message came encrypted. */
        val isSealed: Boolean = false,
        /** How far an own message has come. `null`: another user wrote it. */
        val progress: Progress? = null,
        /** Own changes of it have no reply yet. The item shows them already. */
        val isChanging: Boolean = false,
        /** The last own change that the server refused for good, until it is dismissed. The item does not show it. */
        val refused: Refused? = null,
        val run: Run,
    ) : Item

    /**
     * An encrypted message that this device can't read. `why` is `before_join`, `forged`, `broken`, `plain_behind_birth`,
     * `later` (it opens once all before it has come) or `not_encrypted` (this client has no [Config.encrypted]).
     */
    @Serializable
    public data class Unreadable(
        override val key: String,
        val seq: Long,
        val senderId: String,
        val at: Timestamp,
        val why: String,
    ) : Item

    /** An entry of a kind that this version does not know. `message`: an app may know it, or show its body. */
    public data class Other(override val key: String, val message: dev.pigeonhole.Message?) : Item
}

/** How far an own message has come. */
@Serializable(ProgressForm::class)
public sealed interface Progress {
    /** The message waits for the server. */
    @Serializable
    public data object Waiting : Progress

    /** Its file is being uploaded: `done` bytes of `of`. `done` can fall when the client repeats a part. */
    @Serializable
    public data class Uploading(val done: Long, val of: Long) : Progress

    /** The server has it. */
    @Serializable
    public data object Stored : Progress

    /** A device of each other member has it. */
    @Serializable
    public data object Delivered : Progress

    /** Each other member has read it. */
    @Serializable
    public data object Read : Progress

    /** The server refused it for good. [Pigeonhole.again] can succeed if `canHelp`. Otherwise, only an edit helps. */
    @Serializable
    public data class Failed(val code: String, val canHelp: Boolean) : Progress

    /** A state that this version does not know. */
    @Serializable
    public data class Other(val state: String) : Progress
}

internal object ProgressForm : JsonContentPolymorphicSerializer<Progress>(Progress::class) {
    override fun selectDeserializer(element: JsonElement): DeserializationStrategy<Progress> =
        when (element.jsonObject.word("state")) {
            "waiting" -> Progress.Waiting.serializer()
            "uploading" -> Progress.Uploading.serializer()
            "stored" -> Progress.Stored.serializer()
            "delivered" -> Progress.Delivered.serializer()
            "read" -> Progress.Read.serializer()
            "failed" -> Progress.Failed.serializer()
            else -> Progress.Other.serializer()
        }
}

/** The file of a message that is not stored. */
@Serializable
public data class Upload(
    val source: Source,
    val mime: String,
    val bytes: Long,
    val name: String? = null,
    val width: Long? = null,
    val height: Long? = null,
    val durationMs: Long? = null,
    val thumbhash: String? = null,
    val waveform: String? = null,
    /** Base64. */
    val thumbnail: String? = null,
) {
    /** The path of the file on this device. */
    @Serializable
    public data class Source(val file: String? = null)
}

/** The target of a reply. `message` is its current state, perhaps deleted. `null`: it has not come. */
@Serializable
public data class Reply(val seq: Long, val message: Message? = null)

/** A change that the server refused for good. As [Progress.Failed]. */
@Serializable
public data class Refused(val clientMsgId: String, val code: String, val canHelp: Boolean)

/** The place of a message in a run of one user's messages. The first one has the name, the last one the picture. */
@Serializable
public data class Run(val isFirst: Boolean, val isLast: Boolean)

/** One conversation of the chat list. A row that did not change is the same object in the next list. */
@Serializable
public data class ChatRow(
    /** Names the conversation for as long as the view is open, before and after it has an id. */
    val key: String,
    /** `null` until the server has stored the first message or the new group. */
    val conversationId: String? = null,
    /** `direct`, `note`, `group` or `channel`. */
    val kind: String,
    val peerId: String? = null,
    val title: String? = null,
    /** `owner`, `admin`, `member` or `none`. */
    val role: String? = null,
    /** Until then, or `forever`, the user may only read in the group or channel. */
    val restrictedUntil: String? = null,
    /** The user was removed or has left, and can't write. */
    val isClosed: Boolean,
    /** The server refused to create the group, with this code. */
    val failed: String? = null,
    /** The last message. */
    val line: Line? = null,
    val unread: Long,
    /** The unread messages that mention the user. */
    val mentions: Long,
    val isMuted: Boolean,
    val isPinned: Boolean,
    val isArchived: Boolean,
    /** The user has marked it as unread, and has read nothing since. */
    val isMarkedUnread: Boolean,
    val isBlocked: Boolean,
    /** The text that the user has begun. */
    val draft: Draft? = null,
    /** The other users who are typing. */
    val typing: List<String> = emptyList(),
    /** The texts that services are writing, as far as they are, by the service's id. */
    val texts: Map<String, String> = emptyMap(),
    /** Whether the peer is online, in an open conversation. */
    val presence: Presence? = null,
    /** `plain`, `sealed`, `joining`, or `changed`: the keys of a verified user changed, and messages wait. */
    val lock: String = "plain",
)

/** The last message of a conversation. */
@Serializable
public data class Line(
    /** `null`: the message is not stored. */
    val seq: Long? = null,
    val senderId: String,
    val at: Timestamp,
    val kind: String,
    /** The first characters of the text. */
    val text: String,
    val isDeleted: Boolean,
    /** The event of a system entry. */
    val event: SystemEntry? = null,
    /** How far an own message has come. */
    val progress: Progress? = null,
)

/** A member of a group or channel. A row that did not change is the same object in the next list. */
@Serializable
public data class MemberRow(
    val userId: String,
    /** `owner`, `admin` or `member`. */
    val role: String,
    /** The entry with which the member joined. */
    val joinedSeq: Long,
    /** A device of the member has received every entry up to this one. */
    val deliveredSeq: Long,
    /** The member has read every entry up to this one. */
    val readSeq: Long,
)

/** A silent entry of an app's own kind (`xs-NAME`) that replies to a message, such as a vote. */
@Serializable
public data class Signal(val seq: Long, val senderId: String, val kind: String, val data: JsonObject? = null)

/** A text that the user has begun. */
@Serializable
public data class Draft(val body: String, val replyTo: Long? = null, val mentions: List<String> = emptyList())

internal object Path : KSerializer<File> {
    override val descriptor = PrimitiveSerialDescriptor("Path", PrimitiveKind.STRING)
    override fun serialize(encoder: Encoder, value: File) = encoder.encodeString(value.path)
    override fun deserialize(decoder: Decoder): File = File(decoder.decodeString())
}

internal fun JsonObject.word(name: String): String? = (this[name] as? JsonPrimitive)?.contentOrNull

/** Reads an item of the engine. An item that this version can't read is an [Item.Other]. */
internal fun itemOf(fields: JsonObject): Item {
    val key = fields.word("key").orEmpty()
    return try {
        when (fields.word("type")) {
            "day" -> Item.Day(key, LocalDate.parse(fields.word("day")))
            "unread" -> json.decodeFromJsonElement<Item.Unread>(fields)
            "gap" -> json.decodeFromJsonElement<Item.Gap>(fields)
            "system" -> json.decodeFromJsonElement<Item.System>(fields)
            "message" -> json.decodeFromJsonElement<Item.Message>(fields)
            "unreadable" -> json.decodeFromJsonElement<Item.Unreadable>(fields)
            "other" -> Item.Other(key, json.decodeFromJsonElement<Message>(fields))
            else -> Item.Other(key, null)
        }
    } catch (unreadable: SerializationException) {
        Item.Other(key, null)
    } catch (unreadable: DateTimeException) {
        Item.Other(key, null)
    }
}
