package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.Engine
import dev.pigeonhole.ffi.Encrypted
import dev.pigeonhole.ffi.EngineSetup
import dev.pigeonhole.ffi.directConversationId
import java.io.File
import java.nio.file.Files
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.util.UUID
import java.util.concurrent.TimeUnit.SECONDS
import kotlin.random.Random
import kotlin.random.nextULong
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Job
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.add
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject
import okhttp3.HttpUrl.Companion.toHttpUrlOrNull
import okhttp3.OkHttpClient

private const val PAGE_MAX = 50

/**
 * A user's client. The client connects by itself, and sends each request as soon as it has a connection.
 *
 * All functions may be called from any thread. A coroutine that is cancelled takes no request back.
 */
public class Pigeonhole private constructor(
    private val config: Config,
    private val http: OkHttpClient,
    private val scope: CoroutineScope,
    private val loop: Loop,
) {
    private lateinit var running: Job
    internal val isEncrypted get() = config.encrypted != null

    /** How the connection is doing. */
    public val state: StateFlow<State> = loop.state.asStateFlow()

    /**
     * The events, in their order, for one collector. The flow ends with [close].
     *
     * With [Keep.MESSAGES], an app needs no collector: at most the last 1,000 events wait for one.
     *
     * With [Keep.OUTBOX], the client acknowledges a message when the collector returns: an app that stores messages does
     * so first. After a crash, an unfinished message comes again.
     */
    public val events: Flow<Event> = flow {
        for (event in loop.events) {
            emit(event)
            if (event is Event.Entry && config.keep == Keep.OUTBOX) {
                loop.say(EdgeInput.Done(event.message.conversationId, event.message.seq.toULong()))
            }
        }
    }

    /** Opens a view of the chat list. */
    public fun conversations(filter: Filter = Filter()): ChatList = loop.open(ChatList(loop, filter))

    /** The direct conversation with a user, which need not exist yet. */
    public fun direct(userId: String): Conversation =
        Conversation(this, public { directConversationId(config.userId, userId) }, target("to", userId))

    /** A conversation by its id, from a message or a row of the chat list. */
    public fun conversation(id: String): Conversation = Conversation(this, id, target("conversation_id", id))

    private fun target(kind: String, id: String) = buildJsonObject { put(kind, id) }

    /** The newest messages of the store that have all words, the newest first. The last word may be incomplete. */
    public suspend fun search(text: String, limit: Int = 50): List<Message> = withContext(Dispatchers.IO) {
        json.decodeFromString(public { loop.search(text, limit) })
    }

    /** Tries a message or a change again that the server refused for good, and that a view shows as failed. */
    public suspend fun again(clientMsgId: String): Sent<Stored> =
        queue(clientMsgId, { EdgeInput.Again(it, clientMsgId) }) { json.decodeFromString<Stored>(it) }

    /** Discards a message or a change that the server refused for good. */
    public fun dismiss(clientMsgId: String): Unit = loop.say(EdgeInput.Dismiss(clientMsgId))

    /**
     * Downloads a message's file to `to`, which appears only when it is complete and its digest is the message's. A
     * broken download resumes where it stopped, up to five times.
     *
     * The code of the exception is `gone` if the message is deleted. The code is `file` if the file can't be fetched or
     * written, or has another digest.
     */
    public suspend fun download(media: Media, to: File): Unit = Download(http, media, to).run {
        ask<Urls>("download") { putJsonArray("media_ids") { add(media.mediaId) } }.items.firstOrNull()?.url
            ?: throw PigeonholeException("gone", "the message is deleted")
    }

    /**
     * Returns the file of a message's attachment in the client's folder, and downloads it first if it is not there. Then
     * items of views have its [path][Item.Message.path]. The client removes the file when the message is deleted or no
     * longer stored.
     *
     * The codes of the exception are those of [download]; `bad_request`: the message has no attachment; `config`: the
     * client has no folder, or keeps no messages.
     */
    public suspend fun attachment(message: Message): File =
        attachment(message.conversationId, message.seq, message.media, null)

    /** `known`: the engine has this path already. */
    internal suspend fun attachment(id: String, seq: Long?, media: Media?, known: File?): File {
        val folder = config.folder?.takeIf { config.keep == Keep.MESSAGES }
            ?: throw PigeonholeException("config", "attachments need a folder and Keep.MESSAGES")
        if (seq == null || media == null) throw PigeonholeException("bad_request", "the message has no attachment")
        // A conversation's id can have any character that is printed.
        val name = id.replace(Regex("[^A-Za-z0-9_-]"), "")
        val file = File(mediaOf(folder), "$name-$seq").absoluteFile
        val isHere = withContext(Dispatchers.IO) {
            file.parentFile.mkdirs()
            file.length() == media.bytes
        }
        if (!isHere) download(media, file)
        if (!isHere || file != known) loop.say(EdgeInput.Place(id, seq.toULong(), file.path))
        return file
    }

    /**
     * Creates a group through the outbox; the user is its owner. The result has its id. With [Config.encrypted], the group is
     * [encrypted] and has no service in it. A server without encrypted groups fails it with `forbidden`.
     */
    public suspend fun createGroup(
        title: String,
        members: List<String>,
        set: GroupSettings = GroupSettings(),
        encrypted: Boolean = config.encrypted != null,
    ): Sent<Stored> = create("group", title, members, set, encrypted)

    /** Creates a channel, which any number of users read, and its admins write. */
    public suspend fun createChannel(
        title: String,
        members: List<String> = emptyList(),
        set: GroupSettings = GroupSettings(),
    ): Sent<Stored> = create("channel", title, members, set)

    private suspend fun create(
        kind: String,
        title: String,
        members: List<String>,
        set: GroupSettings,
        encrypted: Boolean = false,
    ): Sent<Stored> =
        keep<Stored>("create") {
            if (encrypted) put("encrypted", true)
            if (kind != "group") put("kind", kind)
            put("title", title)
            putJsonArray("members") { members.forEach { add(it) } }
            set.into(this)
        }

    /** A page of the chat list, the first one or the one at a `nextCursor`. Channels are in [channels]. */
    public suspend fun chats(cursor: String? = null): Rows = ask<Rows>("inbox") {
        put("limit", PAGE_MAX)
        cursor?.let { put("cursor", it) }
    }

    /** A page of the user's channels. */
    public suspend fun channels(cursor: String? = null): Rows = ask("channels") { cursor?.let { put("cursor", it) } }

    /** Makes the user a member of an open channel, or of a group that the user has left. */
    public suspend fun join(conversationId: String): Conversation {
        call("join") { put("conversation_id", conversationId) }
        return conversation(conversationId)
    }

    /** Returns which users are online, of those with whom the user has a direct conversation. */
    public suspend fun presence(userIds: List<String>): List<Presence> =
        ask<Present>("presence") { putJsonArray("user_ids") { userIds.forEach { add(it) } } }.users

    /** Returns the profiles of these users and services, at most 50, that have one. */
    public suspend fun profiles(userIds: List<String>): List<Profile> {
        val all = mutableListOf<Profile>()
        var left = userIds
        while (left.isNotEmpty()) {
            val page = ask<Profiles>("profiles") { putJsonArray("user_ids") { left.forEach { add(it) } } }
            all += page.profiles
            left = page.left
        }
        return all
    }

    /** Changes the user's own profile: `name` and `data`. A field that is left out stays, and `null` removes it. */
    public suspend fun setProfile(set: JsonObject) {
        call("profile") { put("set", set) }
    }

    /** Neither of the two can write to the other. */
    public suspend fun block(userId: String, blocked: Boolean) {
        call("settings") {
            put("user_id", userId)
            putJsonObject("set") { put("blocked", blocked) }
        }
    }

    /**
     * Reports messages, a conversation or a user to the operator: `spam`, `abuse`, `sexual`, `violence`, `illegal` or
     * `other`. `claimed` is the text of an encrypted message. Returns the report's id, which is the same for the same
     * report.
     */
    public suspend fun report(
        reason: String,
        conversationId: String? = null,
        seqs: List<Long> = emptyList(),
        userId: String? = null,
        note: String? = null,
        claimed: String? = null,
    ): String = ask<Reported>("report") {
        put("reason", reason)
        conversationId?.let { put("conversation_id", it) }
        if (seqs.isNotEmpty()) putJsonArray("seqs") { seqs.forEach { add(it) } }
        userId?.let { put("user_id", it) }
        note?.let { put("note", it) }
        claimed?.let { put("claimed", it) }
    }.reportId

    /**
     * Registers this device for push notifications by FCM, after each start and at each new token. `null`, at a logout,
     * ends that. With `unread`, messages that another device has received push too. Nothing rings in the hours of `quiet`.
     */
    public suspend fun registerDevice(
        fcmToken: String?,
        preview: Boolean = true,
        unread: Boolean = false,
        quiet: Quiet? = null,
    ) {
        call("device") {
            if (fcmToken == null) return@call put("token", JsonNull).let {}
            put("platform", "fcm")
            put("token", fcmToken)
            put("preview", preview)
            put("when", if (unread) "unread" else "pending")
            if (quiet != null) {
                putJsonObject("quiet") {
                    put("from_min", quiet.fromMin)
                    put("to_min", quiet.toMin)
                    put("offset_min", quiet.offsetMin)
                }
            }
        }
    }

    /**
     * The safety number of the user and this one, the same for both. `null`: the other's keys are not known yet. Two users
     * whose numbers are equal have no other reader.
     */
    public suspend fun safetyNumber(userId: String): String? = withContext(Dispatchers.IO) {
        public { loop.safetyNumber(userId) }
    }

    /** The user has compared the numbers. From now on, a change of the other's keys holds messages until [accept]. */
    public fun verify(userId: String): Unit = trust("verify", userId)

    /** The user knows of the other's new keys, and the messages that waited leave. */
    public fun accept(userId: String): Unit = trust("accept", userId)

    /** Begins the encryption of the conversation with this user anew. */
    public fun reset(userId: String): Unit = trust("reset", userId)

    /** Begins the encryption of this group anew. */
    public fun resetGroup(conversationId: String): Unit = trust("reset_group", conversationId)

    /** The user's devices that have keys, as the server listed them after the last connect. */
    public suspend fun ownDevices(): List<OwnDevice> = withContext(Dispatchers.IO) {
        json.decodeFromString(public { loop.devices() })
    }

    /** The user no longer has this device. The client removes it from each conversation. */
    public fun removeDevice(deviceId: String): Unit = trust("remove", deviceId)

    private fun trust(what: String, whom: String) =
        loop.say(EdgeInput.Trust(buildJsonObject { put(what, whom) }.toString()))

    /** The requests that have no reply, oldest first, as the outbox has them. */
    public suspend fun outbox(): List<JsonObject> = withContext(Dispatchers.IO) {
        public { loop.outbox() }.map { json.parseToJsonElement(it) as JsonObject }
    }

    /** The app is in the foreground, or the network or the time zone has changed: reconnects wait no longer. */
    public fun wake() {
        loop.tellZone()
        loop.say(EdgeInput.Wake)
    }

    /** Stops the upload of a message's file. `false`: it is uploaded already. */
    public suspend fun cancel(clientMsgId: String): Boolean =
        loop.ask { EdgeInput.Cancel(it, clientMsgId) }.await().toBoolean()

    /** Acknowledges what the app has finished with, and closes the connection. The outbox keeps its content. */
    public suspend fun close() {
        loop.say(EdgeInput.Closing)
        running.join()
        scope.cancel()
        // Idle threads of the client's own HTTP client would keep a program running for a minute.
        if (config.http == null) http.dispatcher.executorService.shutdown()
    }

    internal fun messages(target: JsonObject, at: At) = loop.open(MessagesView(loop, target, at))

    internal fun roster(id: String) = loop.open(RosterView(loop, id))

    internal fun say(input: EdgeInput) = loop.say(input)

    internal fun call(input: (ULong) -> EdgeInput): CompletableDeferred<String> = loop.ask(input = input)

    internal suspend fun call(action: String, fields: JsonObjectBuilder.() -> Unit): String {
        val request = buildJsonObject {
            put("action", action)
            fields()
        }
        return loop.ask { EdgeInput.Ask(it, request.toString()) }.await()
    }

    internal suspend inline fun <reified T> ask(action: String, noinline fields: JsonObjectBuilder.() -> Unit): T =
        json.decodeFromString(call(action, fields))

    /** Puts a message into the outbox. */
    internal suspend fun message(target: JsonObject, fields: JsonObjectBuilder.() -> Unit): Sent<Stored> =
        outboxed({
            put("target", target)
            fields()
        }) { json.decodeFromString<Stored>(it) }

    /** Puts another request that the server stores into the outbox. */
    internal suspend inline fun <reified T> keep(action: String, noinline fields: JsonObjectBuilder.() -> Unit): Sent<T> =
        outboxed({ putJsonObject(action, fields) }) { json.decodeFromString<T>(it) }

    internal suspend fun <T> outboxed(fields: JsonObjectBuilder.() -> Unit, read: (String) -> T): Sent<T> {
        val clientMsgId = UUID.randomUUID().toString()
        val request = buildJsonObject {
            put("client_msg_id", clientMsgId)
            fields()
        }
        return queue(clientMsgId, { EdgeInput.Keep(it, request.toString()) }, read)
    }

    /** Returns when the outbox has the request. */
    private suspend fun <T> queue(clientMsgId: String, input: (ULong) -> EdgeInput, read: (String) -> T): Sent<T> {
        val taken = CompletableDeferred<Unit>()
        val answer = loop.ask(taken, input)
        taken.await()
        return Sent(clientMsgId, answer, read)
    }

    public companion object {
        /**
         * Continues from the folder, and connects in the background. Without a network, the client waits for one.
         *
         * The client calls `token` before each connection; its `sub` must be the user's id. An exception of it counts as
         * no token.
         */
        public suspend fun open(config: Config, token: suspend (TokenNeed) -> String): Pigeonhole =
            withContext(Dispatchers.IO) {
                if (!Regex("wss?://[^/].*").matches(config.url)) {
                    throw PigeonholeException("config", "${config.url} is no WebSocket address, such as wss://…")
                }
                config.folder?.mkdirs()
                val deviceId = config.deviceId ?: config.folder?.let(::deviceOf) ?: UUID.randomUUID().toString()
                if (!Regex("[A-Za-z0-9_-]{1,64}").matches(deviceId)) {
                    throw PigeonholeException("config", "the device id has 1 to 64 of A-Za-z0-9_-")
                }
                if (config.httpUrl != null && config.httpUrl.toHttpUrlOrNull() == null) {
                    throw PigeonholeException("config", "httpUrl is no address for HTTP: it begins with https://")
                }
                val http = config.http ?: OkHttpClient.Builder().connectTimeout(10, SECONDS).readTimeout(10, SECONDS).build()
                val engine = {
                    val timing = config.timing.mapValues { it.value.inWholeMilliseconds.toULong() }
                    val messages = config.keep == Keep.MESSAGES
                    val folder = config.folder?.absolutePath
                    val encrypted = config.encrypted?.let { Encrypted(it.export(), deviceId) }
                    Engine.open(EngineSetup(folder, messages, config.userId, Random.nextULong(), timing, null, encrypted, config.names, config.httpUrl != null))
                }
                val scope = CoroutineScope(SupervisorJob() + Dispatchers.IO)
                val loop = public { Loop(engine, config, deviceId, http, scope, token) }
                // A program that was killed has left parts of downloads.
                config.folder?.let { mediaOf(it).listFiles { part -> part.extension == "part" } }?.forEach(File::delete)
                Pigeonhole(config, http, scope, loop).apply {
                    running = scope.launch(Dispatchers.IO.limitedParallelism(1)) { loop.run() }
                }
            }

        /** The name of this installation, which must not go along to another device. */
        private fun deviceOf(folder: File): String {
            val file = File(folder, "device")
            if (file.length() == 0L) {
                // A program that is killed here leaves no part of a name.
                val written = File(folder, "device.new").apply { writeText(UUID.randomUUID().toString()) }
                Files.move(written.toPath(), file.toPath(), ATOMIC_MOVE)
            }
            return file.readText()
        }

        /** The folder of downloaded attachments. */
        private fun mediaOf(folder: File) = File(folder, "media")
    }
}

/** The rules of a new group or channel. A missing rule has the protocol's default. */
public data class GroupSettings(
    /** The entries that a new member sees: those since the user `joined`, or `all`. */
    val history: String? = null,
    /** The members who write: `all` or `admins`. */
    val post: String? = null,
    /** The members who add others: `all` or `admins`. */
    val add: String? = null,
    /** In a channel: who may join, `open` or `admins`. */
    val join: String? = null,
    /** In a channel: whether its messages send push notifications, `off` or `mentions`. */
    val rings: String? = null,
) {
    internal fun into(request: JsonObjectBuilder) {
        history?.let { request.put("history", it) }
        post?.let { request.put("post", it) }
        add?.let { request.put("add", it) }
        join?.let { request.put("join", it) }
        rings?.let { request.put("rings", it) }
    }
}

@kotlinx.serialization.Serializable
private data class Urls(val items: List<Url>) {
    @kotlinx.serialization.Serializable
    data class Url(val url: String)
}

@kotlinx.serialization.Serializable
private data class Present(val users: List<Presence>)

@kotlinx.serialization.Serializable
private data class Profiles(val profiles: List<Profile>, val left: List<String>)

@kotlinx.serialization.Serializable
private data class Reported(@kotlinx.serialization.SerialName("report_id") val reportId: String)

/** A message or a change in the outbox. The client sends the request, whether the app waits or not. */
public class Sent<T> internal constructor(
    /** The id of this request; the entry that it becomes has it too. */
    public val clientMsgId: String,
    private val answer: CompletableDeferred<String>,
    private val read: (String) -> T,
) {
    /** Waits until the server has stored it, however long there is no connection. Throws if the server refuses it. */
    public suspend fun stored(): T = read(answer.await())
}
