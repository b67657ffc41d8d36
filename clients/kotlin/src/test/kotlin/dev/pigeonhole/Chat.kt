// A chat in the terminal: each line is a message, and /help lists the commands. Beside `cargo run`, in two terminals:
//
//     just kotlin-chat alice bob
//     just kotlin-chat bob alice
//
// With a folder as the fourth argument, after the URL, messages and outbox survive a restart, and /find finds them. With a
// file as the fifth, messages are encrypted from end to end. The file has the user's identity, and the program makes it the
// first time. The lines are those of the Rust client's chat, so that `just interop` drives both.

package dev.pigeonhole

import java.io.File
import java.net.URI
import java.util.Base64
import kotlin.system.exitProcess
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.collectLatest
import kotlinx.coroutines.flow.filterIsInstance
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

private const val HELP = """/reply N TEXT   /edit N TEXT   /delete N   /react N EMOJI   /save N PATH   (N: a message's number)
/older   /list   /find WORDS   /open USER|ID   /group TITLE USER...   /send PATH [TEXT]
/add USER...   /remove USER   /leave
/again   /dismiss   (what the server refused)
/devices   /forget DEVICE   /reset   (needs keys: your devices, and new keys for this conversation)"""

private class Chat(private val pigeonhole: Pigeonhole, private val me: String, private var peer: String) {
    private val list = pigeonhole.conversations()
    private val unanswered = ArrayList<Sent<Stored>>()
    private var room = roomOf(peer)
    private val view = MutableStateFlow(room.messages())

    private fun roomOf(name: String) =
        if (name.matches(Regex("(gr|ch)_.*"))) pigeonhole.conversation(name) else pigeonhole.direct(name)

    private fun open(name: String) {
        peer = name
        room = roomOf(name)
        view.value.close()
        view.value = room.messages()
    }

    /** Prints each item that is new or has changed. A window would draw all of them, by their keys. */
    suspend fun draw(): Unit = view.collectLatest { view ->
        var drawn = emptyMap<String, String>()
        view.items.collect { items ->
            val lines = items.associate { it.key to line(it) }
            lines.filter { (key, line) -> drawn[key] != line }.values.forEach(::println)
            drawn = lines
            // A terminal shows all of it.
            items.lastOrNull()?.let(view::seen)
        }
    }

    suspend fun states(): Nothing = pigeonhole.state.collect {
        when (it) {
            State.CaughtUp -> println("-- connected")
            is State.Offline -> println("-- offline: ${it.reason}")
            else -> println("-- ${it::class.simpleName}")
        }
    }

    suspend fun warnings(): Unit = pigeonhole.events.filterIsInstance<Event.Security>().collect {
        val what = if (it.what == "joined") "this device reads what is sent behind #${it.fromSeq}" else "$it"
        println("!! $what")
    }

    private fun line(item: Item): String = when (item) {
        is Item.Day -> "== ${item.day}"
        is Item.Unread -> "== ${item.count} unread"
        is Item.Gap -> "== …"
        is Item.System -> "-- ${item.senderId} ${item.event.event} ${item.event.members.orEmpty().joinToString()}"
        is Item.Unreadable -> {
            val why = if (item.why == "before_join") "sent before this device joined" else item.why
            "#${item.seq} ${item.senderId}: ($why)"
        }
        is Item.Other -> "-- ${harmless(item.message?.body.orEmpty())}"
        is Item.Message -> {
            val file = item.media?.let { "[${harmless(it.name.orEmpty())}, ${it.bytes} bytes] " }.orEmpty()
            val text = if (item.deletedBy != null) "(deleted)" else file + harmless(item.body)
            val lock = if (item.isSealed) "🔒 " else ""
            val extras = listOfNotNull(
                item.reply?.let { "re #${it.seq}" },
                item.editedAt?.let { "edited" },
                item.reactions.joinToString("") { it.emoji }.ifEmpty { null },
                item.refused?.let { "a change was refused: ${it.code}" },
                item.progress?.let(::tick),
            )
            val more = if (extras.isEmpty()) "" else " (${extras.joinToString(" · ")})"
            "#${item.seq ?: "-"} ${if (item.senderId == me) "you" else item.senderId}: $lock$text$more"
        }
    }

    private fun tick(progress: Progress): String = when (progress) {
        Progress.Waiting -> "…"
        Progress.Stored -> "✓"
        Progress.Delivered -> "✓✓"
        Progress.Read -> "✓✓ read"
        is Progress.Uploading -> "${100 * progress.done / progress.of} %"
        is Progress.Failed -> "!! refused: ${progress.code}"
        is Progress.Other -> progress.state
    }

    suspend fun type(typed: String) {
        val (command, rest) = typed.split(" ", limit = 2) + ""
        val (first, text) = rest.split(" ", limit = 2) + ""
        val messages = view.value.items.value.filterIsInstance<Item.Message>()
        val refused = messages.mapNotNull { it.refused?.clientMsgId ?: it.clientMsgId.takeIf { _ -> it.progress is Progress.Failed } }
        fun seq() = first.removePrefix("#").toLongOrNull() ?: throw PigeonholeException("usage", "name a message by its number")
        when {
            typed.isEmpty() -> pigeonhole.wake()
            !typed.startsWith("/") -> unanswered += room.send(typed)
            command == "/reply" -> unanswered += room.reply(seq(), text)
            command == "/edit" -> unanswered += room.edit(seq(), text)
            command == "/delete" -> unanswered += room.delete(seq())
            command == "/react" -> unanswered += room.react(seq(), text.ifEmpty { null })
            command == "/send" -> unanswered += room.sendFile(Attachment(File(first), "application/octet-stream", caption = text))
            command == "/save" -> messages.find { it.seq == seq() }?.media?.let { pigeonhole.download(it, File(text)) }
            command == "/open" -> open(first)
            command == "/older" -> view.value.older()
            command == "/list" -> list.rows.value.forEach {
                val lock = if (it.lock == "plain") "" else "🔒 "
                println("${it.conversationId} $lock${it.title ?: it.peerId} ${it.unread} unread: ${harmless(it.line?.text.orEmpty())}")
            }
            command == "/find" -> pigeonhole.search(rest).forEach { println("${it.conversationId} #${it.seq} ${harmless(it.body)}") }
            command == "/group" -> open(pigeonhole.createGroup(first, text.split(" ").filter(String::isNotEmpty)).stored().conversationId)
            command == "/add" -> room.add(rest.split(" ").filter(String::isNotEmpty)).stored()
            command == "/remove" -> room.remove(first).stored()
            command == "/leave" -> room.leave().stored()
            command == "/devices" -> pigeonhole.ownDevices().forEach { println("-- ${it.device}, last seen ${it.seenAt}") }
            command == "/forget" -> pigeonhole.removeDevice(first)
            command == "/reset" -> if (room.id.startsWith("gr_")) pigeonhole.resetGroup(room.id) else pigeonhole.reset(peer)
            command == "/again" -> refused.forEach { unanswered += pigeonhole.again(it) }
            command == "/dismiss" -> refused.forEach(pigeonhole::dismiss)
            command == "/help" -> println(HELP)
            else -> throw PigeonholeException("usage", "$command is not a command; /help lists them")
        }
    }

    /** Waits until the server has all requests, or has refused them. */
    suspend fun settle() = unanswered.forEach { sent -> runCatching { sent.stored() } }
}

/** Another user's text must not command the terminal. */
private fun harmless(text: String) = text.replace(Regex("[\\p{Cntrl}\u202a-\u202e\u2066-\u2069]"), "\ufffd")

/** A local server gives a token to any user; an app asks its backend. */
private suspend fun token(user: String, url: String): String = withContext(Dispatchers.IO) {
    System.getenv("PIGEONHOLE_TOKEN") ?: run {
        val page = URI(url.replaceFirst("ws", "http")).resolve("/token?user=$user").toURL().readText()
        json.parseToJsonElement(page).jsonObject.getValue("token").jsonPrimitive.content
    }
}

/** Reads the user's identity, or makes one. No other user of the machine may read the file. */
private fun keysIn(file: File): Keys {
    if (!file.createNewFile()) return Keys.import(Base64.getDecoder().decode(file.readText().trim()))
    file.setReadable(false, false)
    file.setReadable(true)
    return Keys.generate().also { file.writeText(Base64.getEncoder().encodeToString(it.export())) }
}

fun main(arguments: Array<String>) = runBlocking {
    if (arguments.size < 2) exitProcess(2.also { println("usage: ME PEER [URL [FOLDER [KEYS]]]") })
    val (me, peer) = arguments
    val url = arguments.getOrNull(2) ?: "ws://127.0.0.1:3001/v1"
    val folder = arguments.getOrNull(3)?.let(::File)
    val keys = arguments.getOrNull(4)?.let { keysIn(File(it)) }
    val deviceId = folder.takeIf { keys != null }?.let { "terminal-${it.name}" }
    val pigeonhole = Pigeonhole.open(Config(url, me, folder, deviceId = deviceId, encrypted = keys)) { token(me, url) }
    val chat = Chat(pigeonhole, me, peer)
    val shown = listOf(launch { chat.draw() }, launch { chat.states() }, launch { chat.warnings() })
    while (true) {
        val line = withContext(Dispatchers.IO) { readlnOrNull() } ?: break
        try {
            chat.type(line)
        } catch (error: PigeonholeException) {
            println("!! ${error.message}")
        }
    }
    chat.settle()
    shown.forEach { it.cancel() }
    pigeonhole.close()
}
