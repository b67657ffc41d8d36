package dev.pigeonhole

import dev.pigeonhole.ffi.Model
import kotlin.test.assertEquals
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** `timeline.yaml`: the timeline has no type in this client, and its messages are the client's. */
class TimelineTest {
    @TestFactory
    fun `every script of the timeline is played through the library`(): List<DynamicTest> =
        scenarios("timeline").map { scenario ->
            DynamicTest.dynamicTest(scenario.word("name")) {
                for (steps in variants(scenario)) {
                    Model.timeline(scenario.word("user")!!).use { model -> steps.forEach { take(model, it) } }
                }
            }
        }

    private fun take(model: Model, step: JsonObject) {
        fun take(name: String, what: JsonElement, now: Long = 0) =
            json.parseToJsonElement(model.take(name, what.toString(), now.toULong()))
        val (name, what) = step.entries.first()
        when (name) {
            "expect" -> for ((output, value) in what.jsonObject) {
                val found = when (output) {
                    "readers", "writing", "texts" -> take(output, value, value.jsonObject.long("now") ?: 0)
                    else -> json.parseToJsonElement(model.shown("{}", 0UL, 0)).jsonObject.getValue(output)
                }
                val drawn = if (output == "entries") JsonArray(found.jsonArray.map { text(brief(it.jsonObject)) }) else found
                assertEquals(value, drawn, "$step: $output")
            }
            "queued", "reacted" -> take(name, queued(what.jsonObject))
            else -> take(name, what, (what as? JsonObject)?.long("now") ?: 0)
        }
    }

    private fun queued(fields: JsonObject): JsonObject {
        val madeAt = fields["at"]?.let { mapOf("made_at" to it) }.orEmpty()
        return JsonObject(queuedOf(JsonObject(mapOf("conversation_id" to text("dm_ab")) + fields)) + madeAt)
    }

    private fun brief(entry: JsonObject): String {
        val message = entry["message"]?.let { json.decodeFromJsonElement<Message>(it) }
        val system = message?.system
        return when {
            "day" in entry -> "day ${entry.word("day")}"
            "unread" in entry -> "unread ${entry.long("unread")}"
            "gap" in entry -> entry.getValue("gap").jsonArray.joinToString("..", "gap ")
            message != null && system != null -> "${message.seq} ${message.senderId} ${system.event}"
            message != null -> listOfNotNull(
                message.seq,
                entry.word("tick")?.let { "own $it" } ?: message.senderId,
                message.version?.let { "edited ${message.body}" },
                message.deletedAt?.let { "deleted" },
                message.reactions.takeIf { it.isNotEmpty() }
                    ?.joinToString("+", "with ") { "${it.emoji}:${it.count}${if (it.mine) ":mine" else ""}" },
                quote(message.replyTo, entry["quote"]),
                "changing".takeIf { entry["changing"].toString() == "true" },
                entry.word("refused")?.let { "refused $it" },
            ).joinToString(" ")
            else -> {
                val unsent = entry.getValue("unsent").jsonObject
                val done = entry.long("done")?.takeIf { entry.word("tick") == "waiting" }
                val parts = listOf(unsent.word("client_msg_id"), "own", entry.word("tick"), done, entry.word("error"))
                (parts + quote(unsent.long("reply_to"), entry["quote"])).filterNotNull().joinToString(" ")
            }
        }
    }

    private fun quote(replyTo: Long?, quote: JsonElement?): String? {
        val message = quote?.takeIf { it != JsonNull }?.let { json.decodeFromJsonElement<Message>(it) }
        return when {
            replyTo == null -> null
            message == null -> "to nothing"
            else -> "to ${message.seq} ${if (message.deletedAt != null) "deleted" else message.body}"
        }
    }
}
