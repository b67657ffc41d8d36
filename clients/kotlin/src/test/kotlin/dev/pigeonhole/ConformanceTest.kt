package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.Engine
import dev.pigeonhole.ffi.EngineSetup
import java.io.File
import java.nio.file.Files
import kotlin.test.assertEquals
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** The scripts of the session. */
private val FILES = listOf(
    "catching-up", "changing", "channels", "connecting", "data", "fuse", "groups", "http", "media", "names", "receiving", "registering",
    "replacing", "sending", "services", "settings", "store",
)

/** `ModelTest` and `TimelineTest` play these. */
private val OTHERS = listOf("chat", "timeline")

private fun caughtUp(by: String) = listOf(
    """{"dials": {"need": "connect"}}""",
    """{"told": {"state": "connecting"}}""",
    """{"open": {}}""",
    """{"told": {"state": "online"}}""",
    """{"asks": {"action": "drain"}, "by": "$by", "result": {"messages": [], "more": false}}""",
    """{"asks": {"action": "inbox", "limit": 50}, "by": "$by", "result": {"conversations": [], "next_cursor": null}}""",
    """{"told": {"state": "caught_up"}}""",
).map { json.parseToJsonElement(it).jsonObject }

class ConformanceTest {
    @TestFactory
    fun `every script is played through the library`(): List<DynamicTest> {
        val found = File("conformance").list()!!.filter { it.endsWith(".yaml") }.map { it.removeSuffix(".yaml") }
        assertEquals((FILES + OTHERS + "search").toSet(), found.toSet())
        return FILES.map { name ->
            DynamicTest.dynamicTest(name) {
                for (scenario in scenarios(name)) {
                    for (steps in variants(scenario)) {
                        Play(scenario).use { play ->
                            val by = if ("http" in scenario) "http" else "socket"
                            if ("begin" in scenario) caughtUp(by).forEach(play::take)
                            steps.forEach(play::take)
                            play.nothingElse("at the end")
                        }
                    }
                }
            }
        }
    }

    @TestFactory
    fun `each search finds what the script names`(): List<DynamicTest> = scenarios("search").map { scenario ->
        DynamicTest.dynamicTest(scenario.word("name")) {
            val folder = Files.createTempDirectory("pigeonhole-search").toFile()
            Engine.open(EngineSetup(folder.path, true, "alice", 1UL, emptyMap(), null)).use { engine ->
                engine.turn(emptyList(), 0UL, 0)
                engine.turn(listOf(EdgeInput.Opened(1UL, null)), 0UL, 0)
                val result = mapOf("messages" to JsonArray(entries(scenario)), "more" to JsonPrimitive(false))
                val reply = mapOf("type" to text("reply"), "action" to text("drain"), "id" to text("1"))
                val frame = JsonObject(reply + ("result" to JsonObject(result)))
                engine.turn(listOf(EdgeInput.Frame(1UL, frame.toString())), 0UL, 0)
                for ((words, seqs) in scenario.getValue("finds").jsonObject) {
                    val found = json.parseToJsonElement(engine.search(words, 9U)).jsonArray
                    assertEquals<JsonElement>(seqs, JsonArray(found.map { it.jsonObject.getValue("seq") }), words)
                }
            }
            folder.deleteRecursively()
        }
    }

    private fun entries(scenario: JsonObject): List<JsonObject> {
        val entries = ArrayList<JsonObject>()
        fun add(kind: String, body: JsonElement, more: Map<String, JsonElement> = emptyMap()) {
            val seq = entries.size + 1
            val fields = mapOf(
                "conversation_id" to text("dm_ab"), "seq" to JsonPrimitive(seq), "message_id" to text("m$seq"),
                "sender_id" to text("bob"), "kind" to text(kind), "body" to body,
                "sent_at" to text("2026-11-20T10:00:0$seq.000Z"),
            )
            entries += JsonObject(fields + more)
        }
        scenario.getValue("messages").jsonObject.values.forEach { add("text", it) }
        for (change in scenario["changes"]?.jsonArray.orEmpty().map { it.jsonObject }) {
            val (kind, target) = (change - "body").entries.first()
            add(kind, change["body"] ?: text(""), mapOf("target_seq" to target, "version" to JsonPrimitive(entries.size + 1)))
        }
        return entries
    }
}
