package dev.pigeonhole

import dev.pigeonhole.ffi.Model
import java.time.Instant
import kotlin.test.assertEquals
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** `chat.yaml`, through a library that exports the model by itself. The packed library has it in views only. */
class ModelTest {
    @TestFactory
    fun `every script of the chat model is played through the library`(): List<DynamicTest> =
        scenarios("chat").map { scenario ->
            DynamicTest.dynamicTest(scenario.word("name")) {
                for (steps in variants(scenario)) {
                    val isList = "list" in steps[0]
                    val model = if (isList) Model.list("alice") else viewOf(steps[0].getValue("open").jsonObject)
                    model.use { ModelPlay(it, isList, steps[0]["open"]?.jsonObject?.word("conversation_id") ?: "dm_ab").play(steps.drop(1)) }
                }
            }
        }

    private fun viewOf(open: JsonObject): Model =
        Model.view("alice", open.word("conversation_id") ?: "dm_ab", at(open["at"]).toString(), (open["zone"] ?: JsonArray(emptyList())).toString())
}

/** A message is named by its `seq`. */
private fun at(of: JsonElement?): JsonElement =
    if (of is JsonPrimitive && of.isString) of else JsonObject(mapOf("seq" to of!!))

private class ModelPlay(private val model: Model, private val isList: Boolean, private val id: String) {
    private var version = 0L

    fun play(steps: List<JsonObject>) = steps.forEach { step ->
        val (name, what) = step.entries.first()
        when (name) {
            "expect" -> expect(what.jsonObject, "$step")
            "messages" -> entries(what.jsonObject).forEach { take("message", it) }
            "seen", "read_all" -> {
                val read = take(name, what)
                assertEquals(what.jsonObject.getValue("read"), read, "$step")
            }
            "pins" -> assertEquals(what.jsonObject.getValue("unpinned"), take(name, what), "$step")
            "direct" -> assertEquals(what.jsonObject.getValue("key"), take(name, what.jsonObject.getValue("peer_id")), "$step")
            else -> take(name, input(name, what), (what as? JsonObject)?.long("now") ?: 0)
        }
    }

    private fun take(name: String, what: JsonElement, now: Long = 0): JsonElement =
        json.parseToJsonElement(model.take(name, what.toString(), now.toULong()))

    /** A step, as the library takes it. */
    private fun input(name: String, what: JsonElement): JsonElement = when (name) {
        "queued" -> request(what.jsonObject)
        "failed", "reacted" -> {
            val code = what.jsonObject["code"]?.let { mapOf("code" to it) }.orEmpty()
            JsonObject(code + ("request" to request(JsonObject(what.jsonObject - "code"))))
        }
        "receipt" -> JsonObject(
            mapOf("conversation_id" to text(id), "at" to text("2026-11-20T10:00:00.000Z")) + what.jsonObject,
        )
        "typing" -> JsonObject(mapOf("conversation_id" to text(id)) + what.jsonObject)
        "page", "loaded" -> {
            val fields = what.jsonObject
            val messages = fields["messages"]?.jsonArray.orEmpty() + entries(fields["ranges"]?.jsonObject.orEmpty())
            val sorted = messages.map { it.jsonObject }.sortedBy { it.long("seq") }
            val members = if (name == "page") mapOf("members" to JsonArray(emptyList())) else emptyMap()
            JsonObject(members + (fields - "ranges") + ("messages" to JsonArray(sorted)))
        }
        "jump" -> at(what)
        "draft" -> {
            val text = what.jsonObject.getValue("text")
            val draft = if (text == JsonNull) text else JsonObject(mapOf("body" to text))
            JsonObject(mapOf("key" to what.jsonObject.getValue("key"), "draft" to draft))
        }
        else -> what
    }

    private fun request(fields: JsonObject): JsonObject {
        val here = if ("create" in fields || "to" in fields) emptyMap() else mapOf("conversation_id" to text(id))
        val madeAt = fields["at"]?.let { mapOf("made_at" to it) }.orEmpty()
        return JsonObject(queuedOf(JsonObject(here + fields)) + madeAt)
    }

    /** All messages of each range. */
    private fun entries(ranges: Map<String, JsonElement>): List<JsonObject> = ranges.flatMap { (sender, range) ->
        val (first, last) = range.jsonArray.map { it.jsonPrimitive.long }
        (first..last).map { seq ->
            JsonObject(
                mapOf(
                    "conversation_id" to text(id), "seq" to JsonPrimitive(seq), "sender_id" to text(sender),
                    "message_id" to text("0198b7a0-0000-7000-8000-%012d".format(seq)), "kind" to text("text"),
                    "body" to text("$sender $seq"),
                    "sent_at" to text(Instant.parse("2026-11-20T10:00:00Z").plusSeconds(seq).toString()),
                ),
            )
        }
    }

    private fun expect(expected: JsonObject, place: String) {
        val names = listOf("archived", "kinds", "words")
        val filter = JsonObject(expected.filterKeys { it in names })
        val wall = expected.word("at")?.let { Instant.parse(it).toEpochMilli() } ?: 0
        val shown = json.parseToJsonElement(model.shown(filter.toString(), (expected.long("now") ?: 0).toULong(), wall)).jsonObject
        val items = shown["items"]?.jsonArray.orEmpty().map { itemOf(it.jsonObject) }
        for ((name, value) in expected - names - listOf("at", "now")) {
            val found = when (name) {
                "changed" -> JsonPrimitive(shown.long("version")!! > version)
                "requests" -> json.parseToJsonElement(model.requests())
                "runs" -> runs(items)
                "entries" -> {
                    val stored = items.filter { (it as? Item.Message)?.seq != null || it is Item.System || it is Item.Other }
                    JsonArray(listOf(text(stored.first().key), text(stored.last().key), JsonPrimitive(stored.size)))
                }
                else -> {
                    val view = if (isList) "chats" to shown else "messages" to JsonObject(mapOf("messages" to shown))
                    assertShown(JsonObject(mapOf(name to value)), JsonObject(mapOf(view)), place)
                    continue
                }
            }
            assertEquals(value, found, "$place: $name")
        }
        version = shown.long("version")!!
    }

    /** The keys of each run. */
    private fun runs(items: List<Item>): JsonElement {
        val runs = ArrayList<ArrayList<JsonElement>>()
        for (item in items.filterIsInstance<Item.Message>()) {
            if (item.run.isFirst) runs += ArrayList<JsonElement>()
            runs.last() += text(item.key)
        }
        return JsonArray(runs.map(::JsonArray))
    }
}
