// One user of the soak with clients of all languages, which starts this program, and kills it at any time. The user
// sends messages "1", "2" … to each peer, and keeps a view of each conversation open.
//
// The arguments are `URL TOKEN USER FOLDER PEER,PEER… MESSAGES`, with the number of messages to each peer.
//
// The program writes `online` at each connection. `said PEER NUMBER` means that the outbox has the messages up to this
// one, and `all` that it has all of them. The input `report` prints a line of JSON for each peer, and then their number.
// The program ends after `end`.

package dev.pigeonhole

import java.io.File
import kotlin.system.exitProcess
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.filterNotNull
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.add
import kotlinx.serialization.json.addJsonArray
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray

/** Messages to a peer that wait for the server's reply. */
private const val UNDER_WAY_MAX = 8

/** Waits are shorter than usual where they would only lengthen the run. */
private val TIMING = mapOf(
    "retry_first" to 50.milliseconds,
    "reconnect_first" to 20.milliseconds,
    "reconnect_max" to 1.seconds,
    "lifetime" to 60.seconds,
    "lifetime_jitter" to 40.seconds,
)

private class Room(private val me: String, private val peer: String, private val chat: Conversation) {
    private val view = chat.messages()

    /** Sends the rest of the messages. */
    suspend fun talk(messages: Int) {
        val said = said()
        if (said > 0) println("said $peer $said")
        for (number in said + 1..messages) {
            val sent = chat.send("$number")
            println("said $peer $number")
            if (number % UNDER_WAY_MAX == 0) sent.stored()
        }
    }

    /** The number of the last own message, which is stored or in the outbox. */
    private suspend fun said(): Int {
        var screen = view.shown.filterNotNull().first()
        while (true) {
            val own = screen.items.lastOrNull { it is Item.Message && it.senderId == me }
            if (own is Item.Message) return own.body.toInt()
            if (!screen.hasOlder) return 0
            screen = older(screen)
        }
    }

    suspend fun read(): Nothing = view.items.collect { items ->
        items.lastOrNull { it is Item.Message && it.seq != null }?.let(view::seen)
    }

    /**
     * The whole conversation without its separators. A view shows a part of it, so this begins at the end, and puts what
     * is older before what it has.
     */
    suspend fun report(): JsonObject {
        view.jump(At.Newest)
        var screen = view.shown.filterNotNull().first { !it.hasNewer }
        val unread = screen.unread
        var items = drawn(screen)
        while (screen.hasOlder) {
            screen = older(screen)
            val first = items.firstOrNull()?.key
            items = drawn(screen).takeWhile { it.key != first } + items
        }
        return buildJsonObject {
            put("peer", peer)
            put("unread", unread)
            putJsonArray("items") {
                items.forEach {
                    addJsonArray {
                        val message = it as? Item.Message
                        add(message?.seq)
                        add(message?.senderId)
                        add(message?.body ?: it.toString())
                        add(message?.progress?.let { progress -> progress::class.simpleName?.lowercase() })
                    }
                }
            }
        }
    }

    private fun drawn(screen: Screen) = screen.items.filter { it !is Item.Day && it !is Item.Unread }

    private suspend fun older(screen: Screen): Screen {
        view.older()
        // A page that was lost must be requested again.
        withTimeoutOrNull(1.seconds) { view.shown.first { it != screen } }
        return view.shown.filterNotNull().first()
    }
}

fun main(arguments: Array<String>): Unit = runBlocking {
    val (url, token, me, folder, peers) = arguments
    val pigeonhole = Pigeonhole.open(Config(url, me, File(folder), timing = TIMING)) { token }
    launch { pigeonhole.state.collect { if (it == State.CaughtUp) println("online") } }
    val rooms = peers.split(",").map { Room(me, it, pigeonhole.direct(it)) }
    rooms.forEach { launch { it.read() } }
    launch {
        rooms.map { launch { it.talk(arguments[5].toInt()) } }.forEach { it.join() }
        println("all")
    }
    while (true) {
        when (withContext(Dispatchers.IO) { readlnOrNull() }) {
            "report" -> {
                rooms.forEach { println(it.report()) }
                println(pigeonhole.outbox().size)
            }
            else -> break
        }
    }
    pigeonhole.close()
    exitProcess(0)
}
