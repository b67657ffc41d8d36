// Lets tools/scripts/lossy.py use the client: one command per input line, one result per output line, with tabs between
// fields.

package dev.pigeonhole

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking

private fun say(vararg fields: Any) = println(fields.joinToString("\t"))

private suspend fun show(user: String, client: Pigeonhole) = client.events.collect { event ->
    when (event) {
        is Event.Entry -> event.message.run { say(user, "shown", conversationId, seq, body) }
        is Event.Failed -> say(user, "failed", event.reason)
    }
}

fun main(arguments: Array<String>) = runBlocking(Dispatchers.Default) {
    // Maven has begun the first line with a colour.
    println()
    val clients = HashMap<String, Pigeonhole>()
    for (line in generateSequence(::readlnOrNull)) {
        val fields = line.split("\t")
        val user = fields[0]
        val client = clients.getOrPut(user) {
            Pigeonhole.open(Config(arguments[0], user, keep = Keep.OUTBOX)) { user }.also { launch { show(user, it) } }
        }
        when (fields[1]) {
            "send" -> client.direct(fields[2]).send(fields[3])
            // The reply comes when there is a connection, or never.
            "read" -> launch { runCatching { client.conversation(fields[2]).read(fields[3].toLong()) } }
            "wake" -> client.wake()
            else -> error("there is no command ${fields[1]}")
        }
    }
    clients.values.forEach { it.close() }
}
