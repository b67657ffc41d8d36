// Rows and items as the scripts write them.

package dev.pigeonhole

import kotlin.test.assertEquals
import kotlin.test.fail
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.decodeFromJsonElement
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject

/** The types of the client have all that a view shows. */
internal fun assertShown(expected: JsonObject, shown: JsonObject, place: String) {
    val list = shown["chats"]?.jsonObject
    val screen = list ?: shown.getValue("messages").jsonObject
    val view = list ?: screen.getValue("messages").jsonObject
    for ((name, value) in expected - "view") {
        val found = when (name) {
            "rows" -> briefs(view.getValue("rows")) { brief(json.decodeFromJsonElement<ChatRow>(it)) }
            "items" -> briefs(view.getValue("items")) { brief(itemOf(it)) }
            "unread", "has_older", "has_newer" -> view.getValue(name)
            "names" -> screen[name] ?: JsonObject(emptyMap())
            "pins" -> JsonArray((view[name] as? JsonArray).orEmpty().map { pin(json.decodeFromJsonElement(it)) })
            else -> fail("$place: the view has no $name")
        }
        assertEquals(value, found, "$place: $name")
    }
}

private fun pin(pin: Reply) = JsonArray(listOf(JsonPrimitive(pin.seq), JsonPrimitive(pin.message?.body)))

private fun briefs(all: JsonElement, brief: (JsonObject) -> String) =
    JsonArray(all.jsonArray.map { JsonPrimitive(brief(it.jsonObject)) })

private fun brief(item: Item): String = when (item) {
    is Item.Day -> "d${item.day}"
    is Item.Unread -> "${item.key} ${item.count}"
    is Item.Gap -> "${item.key} to ${item.beforeSeq}"
    is Item.System -> "${item.key} ${item.senderId} ${item.event.event}"
    is Item.Unreadable -> "${item.key} ${item.senderId} ${item.why}"
    is Item.Other -> "${item.key} ${item.message?.senderId} ${item.message?.kind}"
    is Item.Message -> listOfNotNull(
        item.key,
        item.progress?.let { "own ${brief(it)}" } ?: item.senderId,
        item.kind.takeIf { it.startsWith("x-") },
        item.data?.toString(),
        item.editedAt?.let { "edited ${item.body}" },
        item.deletedBy?.let { "deleted by $it" },
        item.reactions.takeIf { it.isNotEmpty() }
            ?.joinToString("+", "with ") { "${it.emoji}:${it.count}${if (it.mine) ":mine" else ""}" },
        item.reply?.let { reply ->
            val message = reply.message
            if (message == null) "to nothing" else "to ${reply.seq} ${if (message.deletedAt != null) "deleted" else message.body}"
        },
        item.signals.takeIf { it.isNotEmpty() }?.joinToString("+", "signals ") { "${it.senderId}:${it.data}" },
        "changing".takeIf { item.isChanging },
        item.refused?.let { "refused ${it.code}${again(it.canHelp)}" },
    ).joinToString(" ")
}

private fun brief(progress: Progress): String = when (progress) {
    is Progress.Uploading -> "uploading ${progress.done}/${progress.of}"
    is Progress.Failed -> "failed ${progress.code}${again(progress.canHelp)}"
    is Progress.Other -> progress.state
    else -> progress.toString().lowercase()
}

private fun again(canHelp: Boolean) = if (canHelp) " again" else ""

private fun brief(row: ChatRow): String = listOfNotNull(
    row.key,
    row.title,
    "${row.unread} unread".takeIf { row.unread > 0 },
    "${row.mentions} mentions".takeIf { row.mentions > 0 },
    "muted".takeIf { row.isMuted },
    "pinned".takeIf { row.isPinned },
    "blocked".takeIf { row.isBlocked },
    "closed".takeIf { row.isClosed },
    "online".takeIf { row.presence?.online == true },
    row.failed?.let { "failed $it" },
    row.draft?.let { "draft ${it.body}" },
    row.typing.takeIf { it.isNotEmpty() }
        ?.flatMap { listOfNotNull(it, "types", row.texts[it]) }
        ?.joinToString(" "),
    row.line?.let { line ->
        val author = line.progress?.let { "own ${brief(it)}" } ?: line.senderId
        val kind = line.event?.event ?: line.kind.takeIf { it != "text" }
        val text = if (line.isDeleted) "deleted" else line.text.ifEmpty { null }
        listOfNotNull("|", line.seq, author, kind, text).joinToString(" ")
    },
).joinToString(" ")
