// The language of the scripts in conformance/, whose README explains it.

package dev.pigeonhole

import java.io.File
import kotlin.test.assertEquals
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.yaml.snakeyaml.Yaml

internal fun scenarios(name: String): List<JsonObject> =
    plain(Yaml().load<Any>(File("conformance/$name.yaml").readText())).jsonArray.map { it.jsonObject }

private fun plain(yaml: Any?): JsonElement = when (yaml) {
    null -> JsonNull
    is Map<*, *> -> JsonObject(yaml.entries.associate { (key, value) -> key.toString() to plain(value) })
    is List<*> -> JsonArray(yaml.map(::plain))
    is Boolean -> JsonPrimitive(yaml)
    is Number -> JsonPrimitive(yaml.toLong())
    else -> JsonPrimitive(yaml.toString())
}

/** The steps for each value of `each`, with everything written out. */
internal fun variants(scenario: JsonObject): List<List<JsonObject>> {
    val steps = scenario.getValue("steps").jsonArray
    val (name, values) = scenario["each"]?.jsonObject?.entries?.first()?.toPair() ?: Pair("", JsonArray(listOf(JsonNull)))
    return values.jsonArray.map { value -> steps.map { expand(it, if (name == "") "" else "$$name", value).jsonObject } }
}

private fun expand(script: JsonElement, name: String, value: JsonElement): JsonElement = when {
    script is JsonArray -> JsonArray(script.map { expand(it, name, value) })
    script is JsonObject -> JsonObject(script.mapValues { expand(it.value, name, value) })
    script !is JsonPrimitive || !script.isString -> script
    name != "" && script.content == name -> value
    else -> expandMessage(script.content) ?: script
}

/** `$bob 5 in dm_ab`, `$stored 5`, and what may follow. */
private fun expandMessage(text: String): JsonObject? {
    val words = text.removePrefix("$").takeIf { it != text }?.split(" ") ?: return null
    val who = words[0]
    val seq = words.getOrNull(1)?.toLongOrNull() ?: return null
    val pairs = words.drop(2).chunked(2).onEach { if (it.size < 2) return null }.map { (word, value) -> word to value }
    val named = pairs.toMap()
    fun at(number: Long) = text("${named["on"] ?: "2026-11-20"}T10:00:${"%02d".format(number)}.000Z")
    val message = linkedMapOf<String, JsonElement>(
        "conversation_id" to text(named["in"] ?: "dm_ab"),
        "seq" to JsonPrimitive(seq),
        "message_id" to text("0198b7a0-0000-7000-8000-0000000000${"%02d".format(seq)}"),
        "sent_at" to at(seq),
    )
    if (who == "stored") {
        message["duplicate"] = JsonPrimitive(false)
    } else {
        message += mapOf("sender_id" to text(who), "kind" to text("text"), "body" to text("$who $seq"))
    }
    fun system(vararg fields: Pair<String, JsonElement>) {
        message += mapOf("kind" to text("system"), "body" to text(""), "system" to JsonObject(fields.toMap()))
    }
    // `body` may stand before the word that empties it.
    for ((word, value) in pairs.sortedBy { it.first == "body" }) {
        fun change(kind: String) {
            message += mapOf("kind" to text(kind), "target_seq" to JsonPrimitive(value.toLong()), "body" to text(""))
        }
        when (word) {
            "in", "on" -> {}
            "as" -> message["client_msg_id"] = text(value)
            "body" -> message["body"] = text(value)
            "answers" -> message["reply_to"] = JsonPrimitive(value.toLong())
            "version" -> message["version"] = JsonPrimitive(value.toLong())
            "edited" -> message["edited_at"] = at(value.toLong())
            "deleted" -> message += mapOf("body" to text(""), "deleted_at" to at(value.toLong()), "deleted_by" to text(who))
            "reactions" -> message["reactions"] = JsonArray(value.split("+").map(::reaction))
            "edits" -> change("edit")
            "deletes" -> change("delete")
            "reacts" -> change("reaction")
            "emoji" -> message["emoji"] = text(value)
            "before" -> message["emoji_before"] = text(value)
            "upto" -> message["reactions_seq"] = JsonPrimitive(value.toLong())
            "mentions" -> message["mentions"] = users(value)
            "created" -> system("event" to text("created"), "title" to text(value), "members" to JsonArray(emptyList()))
            "members" -> message["system"] = JsonObject(message.getValue("system").jsonObject + ("members" to users(value)))
            "adds" -> system("event" to text("members.added"), "members" to users(value))
            "removes" -> system("event" to text("members.removed"), "members" to users(value))
            "leaves" -> system("event" to text("member.left"))
            "makes" -> {
                val (user, role) = value.split(":")
                system("event" to text("role.changed"), "user_id" to text(user), "role" to text(role))
            }
            "renames" -> system("event" to text("info.changed"), "title" to text(value))
            else -> return null
        }
    }
    return JsonObject(message)
}

internal fun text(text: String): JsonElement = JsonPrimitive(text)

private fun users(text: String) = JsonArray(text.split("+").map(::text))

private fun reaction(text: String): JsonElement {
    val parts = text.split(":")
    return buildJsonObject {
        put("emoji", JsonPrimitive(parts[0]))
        put("count", JsonPrimitive(parts[1].toLong()))
        put("mine", JsonPrimitive(parts.getOrNull(2) == "mine"))
    }
}

/** The outbox's form of a request: the conversation is in the change, or in `target`. */
internal fun queuedOf(fields: JsonObject): JsonObject {
    val kept = fields.filter { (name, value) -> value != JsonNull && name != "at" }.toMutableMap()
    val place = listOf("to", "conversation_id").mapNotNull { name -> kept.remove(name)?.let { name to it } }.toMap()
    val change = kept.entries.firstOrNull { it.value is JsonObject && "body" !in fields }
    if (change != null) {
        kept[change.key] = JsonObject(change.value.jsonObject + place)
    } else {
        kept["target"] = JsonObject(place)
    }
    return JsonObject(kept)
}

/** And the other way round. */
internal fun plainQueued(queued: JsonObject): JsonObject {
    val fields = queued.toMutableMap()
    val target = fields.remove("target")?.jsonObject
        ?: fields.values.filterIsInstance<JsonObject>().firstNotNullOfOrNull { it["conversation_id"] }
            ?.let { JsonObject(mapOf("conversation_id" to it)) }
    val without = fields.mapValues { (_, value) -> if (value is JsonObject) JsonObject(value - "conversation_id") else value }
    return JsonObject(without + target.orEmpty())
}

/** An event of the engine, as the scripts write it. */
internal fun plainEvent(name: String, fields: JsonObject): JsonObject = when (name) {
    "message" -> JsonObject(mapOf("message" to fields.getValue("entry"), "missed" to fields.getValue("missed")))
    "set_aside" -> JsonObject(mapOf("storage" to fields.getValue("path")))
    "state" -> JsonObject(mapOf("state" to fields.getValue("is")) + fields.filterKeys { it == "why" })
    "failed" -> named(name, plainQueued(fields.getValue("request").jsonObject) + ("code" to fields.getValue("code")))
    "reacted" -> named(name, plainQueued(fields.getValue("request").jsonObject))
    else -> named(name, fields)
}

private fun named(name: String, fields: Map<String, JsonElement>) = JsonObject(mapOf(name to JsonObject(fields)))

/** Independent of the id, and of the order of marks. */
internal fun comparable(request: JsonObject): JsonObject = JsonObject(
    (request - "id").mapValues { (name, value) ->
        if (name in setOf("up_to", "ack") && value is JsonArray) {
            JsonArray(value.sortedBy { it.jsonObject["conversation_id"].toString() })
        } else {
            value
        }
    },
)

/** All that is expected is found, at whatever depth; there may be more. */
internal fun assertWithin(expected: JsonElement?, found: JsonElement?, place: String) {
    when (expected) {
        null, JsonNull -> {}
        is JsonObject -> expected.forEach { (name, value) ->
            assertWithin(value, (found as? JsonObject)?.get(name), "$place: $name")
        }
        else -> assertEquals(expected, found, place)
    }
}

internal fun JsonObject.long(name: String): Long? = this[name]?.takeIf { it != JsonNull }?.jsonPrimitive?.content?.toLong()
