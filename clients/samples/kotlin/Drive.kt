// Lets tools/scripts/samples.py use the class: one command per input line, one result per output line, with tabs
// between fields.

import kotlin.system.exitProcess
import org.json.JSONObject

@Synchronized
private fun say(vararg fields: Any) = println(fields.joinToString("\t"))

private fun shown(user: String, entry: JSONObject) =
    say(user, "shown", entry.getString("conversation_id"), entry.getLong("seq"), entry.getString("body"))

private fun client(url: String, user: String) = Pigeonhole(
    url,
    user,
    token = { user },
    show = { shown(user, it) },
    change = { shown(user, it) },
    tick = { conversation, from, seq, read -> say(user, "tick", conversation, from, seq, read) },
    failed = { _, why -> say(user, "failed", why) }
)

fun main(arguments: Array<String>) {
    val clients = HashMap<String, Pigeonhole>()
    for (line in generateSequence(::readlnOrNull)) {
        val fields = line.split("\t")
        val client = clients.getOrPut(fields[0]) { client(arguments[0], fields[0]) }
        when (fields[1]) {
            "send" -> client.send(to = fields[2], body = fields[3])
            "read" -> client.read(fields[2], fields[3].toLong())
            "wake" -> client.wake()
        }
    }
    clients.values.forEach { it.close() }
    exitProcess(0)
}
