// A chat in the terminal: each line is a message, and /help lists the commands. Beside `cargo run`, in two terminals:
//
//     just kotlin-chat alice bob
//     just kotlin-chat bob alice

package dev.pigeonhole

import java.io.File
import java.net.URI
import kotlin.system.exitProcess
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

private const val HELP = """/reply N TEXT   /edit N TEXT   /delete N   /react N EMOJI   /older   /list
/group TITLE USER...   /open USER|ID   /send PATH   (N is a message's number)"""

private class Chat(private val pigeonhole: Pigeonhole, private val me: String, peer: String) {
    private var room = roomOf(peer)
    private var oldest: Long? = null

    private fun roomOf(name: String) =
        if (name.startsWith("gr_") || name.startsWith("ch_")) pigeonhole.conversation(name) else pigeonhole.direct(name)

    suspend fun show() = pigeonhole.events.collect { event ->
        when (event) {
            is Event.Entry -> {
                val message = event.message
                val here = room.id == message.conversationId
                println((if (here) "" else "~ ${message.conversationId} ") + line(message))
                // A terminal shows all of it.
                if (here && message.isMessage && message.senderId != me) room.read(message.seq)
            }
            is Event.Receipt -> if (event.userId != me) println("-- ${event.kind} up to #${event.seq} by ${event.userId}")
            is Event.Failed -> println("!! not sent: ${event.reason}")
            is Event.Uploading -> println("-- ${event.done} of ${event.bytes} bytes are uploaded")
        }
    }

    suspend fun states(): Nothing = pigeonhole.state.collect { state ->
        when (state) {
            is State.CaughtUp -> println("-- connected")
            is State.Offline -> println("-- offline: ${state.reason}")
            is State.Replaced -> println("-- one connection too many; an empty line connects again")
            else -> {}
        }
    }

    private fun line(message: Message): String {
        val who = if (message.senderId == me) "you" else message.senderId
        val body = harmless(message.body)
        return when {
            message.deletedAt != null -> "#${message.seq} $who: (deleted)"
            message.kind == "edit" -> "-- $who changed #${message.targetSeq}: $body"
            message.kind == "delete" -> "-- $who deleted #${message.targetSeq}"
            message.kind == "reaction" -> "-- $who reacted to #${message.targetSeq} with ${message.emoji ?: "nothing"}"
            message.system != null -> "-- $who ${message.system?.event} ${message.system?.members.orEmpty().joinToString()}"
            message.media != null -> "#${message.seq} $who: [${harmless(message.media?.name.orEmpty())}] $body"
            else -> "#${message.seq} $who: $body"
        }
    }

    suspend fun line(typed: String) {
        val (command, rest) = typed.split(" ", limit = 2) + ""
        val (first, text) = rest.split(" ", limit = 2) + ""
        fun seq() = first.removePrefix("#").toLongOrNull() ?: throw PigeonholeException("usage", "name a message by its number")
        when {
            typed.isEmpty() -> pigeonhole.wake()
            !typed.startsWith("/") -> room.send(typed)
            command == "/reply" -> room.reply(seq(), text)
            command == "/edit" -> room.edit(seq(), text)
            command == "/delete" -> room.delete(seq())
            command == "/react" -> room.react(seq(), text.ifEmpty { null })
            command == "/send" -> room.sendFile(Attachment(File(first), "application/octet-stream", caption = text))
            command == "/open" -> {
                room = roomOf(first)
                oldest = null
                if (room.id != null) older()
            }
            command == "/older" -> older()
            command == "/list" -> pigeonhole.chats().conversations.forEach {
                println("${it.conversationId} ${it.title ?: it.peerId} ${it.unread} unread: ${harmless(it.lastMessage?.preview.orEmpty())}")
            }
            command == "/group" -> {
                val group = pigeonhole.createGroup(first, text.split(" ").filter { it.isNotEmpty() }).stored()
                room = pigeonhole.conversation(group.conversationId)
                println("-- ${group.conversationId}")
            }
            else -> println(HELP)
        }
    }

    private suspend fun older() {
        val page = room.history(before = oldest)
        oldest = page.messages.firstOrNull()?.seq ?: oldest
        page.messages.filter { it.isMessage || it.system != null }.forEach { println(line(it)) }
    }
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

fun main(arguments: Array<String>) = runBlocking {
    if (arguments.size < 2) exitProcess(2.also { println("usage: ME PEER [URL]") })
    val (me, peer) = arguments
    val url = arguments.getOrNull(2) ?: "ws://127.0.0.1:3001/v1"
    val pigeonhole = Pigeonhole.open(Config(url, me)) { token(me, url) }
    val chat = Chat(pigeonhole, me, peer)
    launch(Dispatchers.Default) { chat.show() }
    val states = launch(Dispatchers.Default) { chat.states() }
    pigeonhole.state.first { it == State.CaughtUp }
    while (true) {
        val line = withContext(Dispatchers.IO) { readlnOrNull() } ?: break
        try {
            chat.line(line)
        } catch (error: PigeonholeException) {
            println("!! ${error.message}")
        }
    }
    // The outbox is in memory: the program ends when the server has all of it.
    while (pigeonhole.outbox().isNotEmpty()) delay(50)
    states.cancel()
    pigeonhole.close()
}
