// One engine, in the hands of a script.

package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.EdgeOutput
import dev.pigeonhole.ffi.Engine
import dev.pigeonhole.ffi.EngineSetup
import dev.pigeonhole.ffi.Why
import java.io.File
import java.nio.file.Files
import kotlin.random.Random
import kotlin.random.nextULong
import kotlin.test.assertEquals
import kotlin.test.fail
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.encodeToJsonElement
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

private class Asked(val link: ULong, val by: String, val frame: JsonObject)

internal class Play(private val scenario: JsonObject) : AutoCloseable {
    private val isHttp = scenario["http"] == JsonPrimitive(true)
    private val folder: File = Files.createTempDirectory("pigeonhole-play").toFile()
    private var engine = open(scenario["saved"])
    private var now = 0L
    private var wakeAt: Long? = null
    private var dialing: ULong? = null
    private val open = ArrayList<ULong>()

    // The engine's outputs that no step has expected yet.
    private val dials = ArrayDeque<Pair<ULong, String>>()
    private val asks = ArrayDeque<Asked>()
    private val closes = ArrayDeque<ULong>()
    private val events = ArrayDeque<Pair<String, JsonObject>>()
    private val puts = ArrayDeque<EdgeOutput.Put>()
    private val aborts = ArrayDeque<String>()

    /** The newest content of each view that has changed. */
    private val shown = HashMap<ULong, JsonObject>()
    private val answers = HashMap<String, Pair<JsonElement?, String?>>()

    /** The requests that have a name. */
    private val named = HashMap<String, Asked>()

    /** The message whose bytes each URL takes. */
    private val putting = HashMap<String, String>()

    /** The names of the app's calls. */
    private val calls = HashMap<ULong, String>()
    private var lastAsk = 0UL

    init {
        turn()
    }

    override fun close() {
        engine.close()
        folder.deleteRecursively()
    }

    private fun open(saved: JsonElement?): Engine {
        // The app says so before anything else.
        val names = scenario["steps"]?.jsonArray.orEmpty().any { (it as? JsonObject)?.word("app") == "names" }
        val timing = scenario["timing"]?.jsonObject.orEmpty().mapValues { it.value.jsonPrimitive.content.toULong() }
        return Engine.open(EngineSetup(folder.path, scenario.word("keep") == "messages", "alice", Random.nextULong(), timing, saved?.toString(), names = names, http = isHttp))
    }

    fun take(step: JsonObject) {
        if (!expect(step)) {
            nothingElse("before $step")
            happen(step)
        }
    }

    fun nothingElse(at: String) {
        val left = listOf(dials, asks.map { it.frame }, closes, events, puts, aborts, answers.toList(), shown.toList())
        if (left.any { it.isNotEmpty() }) fail("“${scenario.word("name")}” $at: there are $left")
    }

    private fun turn(vararg inputs: EdgeInput) {
        val turn = engine.turn(inputs.toList(), now.toULong(), 0)
        wakeAt = turn.wakeAt?.toLong()
        for (output in turn.outputs) {
            when (output) {
                is EdgeOutput.Dial -> {
                    dialing = output.link
                    dials += output.link to output.need.name.lowercase()
                }
                is EdgeOutput.Send -> asks += Asked(output.link, "socket", json.parseToJsonElement(output.text).jsonObject)
                is EdgeOutput.Post -> {
                    val frame = json.parseToJsonElement(output.text).jsonObject
                    assertEquals(listOf(output.action, "${output.request}"), listOf(frame.word("action"), frame.word("id")))
                    asks += Asked(output.link, "http", frame)
                }
                is EdgeOutput.Close -> {
                    open -= output.link
                    closes += output.link
                }
                is EdgeOutput.Event -> events += fieldsOf(output.event)!!
                is EdgeOutput.Answered ->
                    answers[calls.remove(output.ask)!!] = json.parseToJsonElement(output.result) to null
                is EdgeOutput.Refused -> answers[calls.remove(output.ask)!!] = null to output.code
                is EdgeOutput.Put -> puts += output
                is EdgeOutput.Abort -> aborts += output.clientMsgId
                is EdgeOutput.Carry -> error("no client has keys here")
                is EdgeOutput.Show -> shown[output.view] = json.parseToJsonElement(output.shown).jsonObject
            }
        }
    }

    // Steps that happen to the client.

    private fun happen(step: JsonObject) {
        val verbs = listOf("app", "wait", "open", "fail", "end", "server", "raw", "answer", "put")
        val verb = verbs.firstOrNull { it in step } ?: fail("there is no such step: $step")
        val what = step.getValue(verb)
        when (verb) {
            "app" -> app(what, step.word("as").orEmpty())
            "wait" -> pass(what.jsonPrimitive.content.toLong())
            "open" -> {
                val link = dialed()
                open += link
                turn(EdgeInput.Opened(link, what.jsonObject.long("token_ms")?.toULong()))
            }
            "fail" -> turn(EdgeInput.Ended(dialed(), whyNotOpened(what.jsonObject)))
            "end" -> {
                val link = link(step)
                open -= link
                // A connection that ends without a goodbye has no code.
                turn(EdgeInput.Ended(link, if (what.jsonPrimitive.content == "1006") Why.Lost("") else Why.Closed))
            }
            "put" -> put(what.jsonObject)
            "server" -> turn(EdgeInput.Frame(link(step), what.toString()))
            "raw" -> turn(EdgeInput.Frame(link(step), what.jsonPrimitive.content))
            "answer" -> answer(named.getValue(what.jsonPrimitive.content), step)
        }
    }

    private fun dialed() = (dialing ?: fail("nothing is being dialled")).also { dialing = null }

    private fun whyNotOpened(what: JsonObject): Why = when (val reason = what.word("reason")) {
        "unreachable" -> Why.Unreachable("")
        "refused", "token_refused" -> Why.Status((what.long("status") ?: 0).toUShort())
        "no_token" -> Why.NoToken("")
        "wrong_user" -> Why.WrongUser("")
        else -> fail("$reason")
    }

    private fun app(what: JsonElement, name: String) {
        if (what is JsonPrimitive) {
            when (what.content) {
                "restart" -> {
                    engine.close()
                    engine = open(null)
                    dialing = null
                    open.clear()
                    putting.clear()
                    turn()
                }
                "close" -> turn(EdgeInput.Closing)
                "wake" -> turn(EdgeInput.Wake)
                "names" -> {}
                else -> fail("there is no such step: $what")
            }
            return
        }
        val (does, value) = what.jsonObject.entries.first()
        if (value is JsonPrimitive) {
            val id = value.content
            return turn(if (does == "again") EdgeInput.Again(ask(name), id) else EdgeInput.Dismiss(id))
        }
        val fields = value.jsonObject
        fun id() = fields.word("conversation_id")!!
        fun seq() = fields.long("seq")!!.toULong()
        when (does) {
            "send" -> keep(fields)
            "reply" -> keep(JsonObject(fields + ("reply_to" to fields.getValue("seq"))))
            "show" -> turn(EdgeInput.Open(view(fields), content(fields)))
            "act" -> turn(EdgeInput.Act(view(fields), content(fields)))
            "hide" -> turn(EdgeInput.CloseView(view(fields)))
            "draft" -> {
                val draft = fields.word("body")?.let { JsonObject(mapOf("body" to text(it))).toString() }
                turn(EdgeInput.Draft(JsonObject(fields - "body").toString(), draft))
            }
            "typing" -> turn(EdgeInput.Typing(id()))
            "read" -> turn(EdgeInput.Read(ask(name), id(), seq()))
            "done" -> turn(EdgeInput.Done(id(), seq()))
            "cancel" -> turn(EdgeInput.Cancel(ask(name), fields.word("client_msg_id")!!))
            "watch" -> turn(EdgeInput.Watch(ask(name), id(), fields.long("after_seq")?.toULong()))
            "unwatch" -> turn(EdgeInput.Unwatch(id()))
            else -> if ("client_msg_id" in fields) {
                val change = fields.filterKeys { it == "client_msg_id" || it == "conversation_id" }
                keep(JsonObject(change + (does to JsonObject(fields - "client_msg_id"))))
            } else {
                turn(EdgeInput.Ask(ask(name), JsonObject(fields + ("action" to text(does))).toString()))
            }
        }
    }

    private fun view(fields: JsonObject) = fields.long("view")!!.toULong()

    /** The content of a view, or an act in it. */
    private fun content(fields: JsonObject) = JsonObject(fields - "view").toString()

    private fun keep(fields: JsonObject) =
        turn(EdgeInput.Keep(ask(fields.word("client_msg_id")!!), queuedOf(fields).toString()))

    private fun ask(name: String): ULong {
        lastAsk++
        calls[lastAsk] = name
        return lastAsk
    }

    /** Ends a PUT with the result of the step. */
    private fun put(what: JsonObject) {
        val url = what.word("url")!!
        val id = putting.getValue(url)
        val sent = what.long("sent")
        if (sent != null) return turn(EdgeInput.PutSent(id, sent.toULong()))
        putting.remove(url)
        turn(EdgeInput.PutEnded(id, what.long("status")?.toUShort(), if ("unreadable" in what) "no" else null))
    }

    private fun pass(ms: Long) {
        val end = now + ms
        while (true) {
            now = maxOf(now, wakeAt?.takeIf { it < end } ?: break)
            turn()
            nothingElse("${end - now} ms before the end")
        }
        now = end
        turn()
    }

    private fun link(step: JsonObject): ULong = step.long("link")?.toULong() ?: open.last()

    private fun answer(asked: Asked, step: JsonObject) {
        val (kind, field) = if ("error" in step) "error" to "error" else "reply" to "result"
        val broken = step["broken"]
        val isWithout = broken == null && field !in step
        val frame = if (isWithout) mapOf("message" to text("Too Many Requests")) else mapOf(
            "type" to text(kind),
            "action" to asked.frame.getValue("action"),
            "id" to (asked.frame["id"] ?: JsonNull),
            field to (broken ?: step.getValue(field)),
        )
        val body = JsonObject(frame).toString()
        if (asked.by == "socket") return turn(EdgeInput.Frame(asked.link, body))
        val status = if ("status" in step) step.long("status")?.toUShort() else 200U.toUShort()
        turn(EdgeInput.Posted(asked.link, asked.frame.word("id")!!.toULong(), status, body))
    }

    // Steps that the client is expected to do. `false`: it is none.

    private fun expect(step: JsonObject): Boolean {
        when {
            "dials" in step -> {
                val (_, need) = next(step) { dials.removeFirstOrNull() }
                assertWithin(step["dials"], JsonObject(mapOf("need" to text(need))), "$step")
            }
            "asks" in step -> expectRequest(step, step.getValue("asks").jsonObject)
            "puts" in step -> {
                val put = next(step) { puts.removeFirstOrNull() }
                val found = mapOf(
                    "file" to text(put.path),
                    "offset" to JsonPrimitive(put.offset.toLong()),
                    "bytes" to JsonPrimitive(put.bytes.toLong()),
                    "url" to text(put.url),
                    "headers" to JsonObject(put.headers.mapValues { text(it.value) }),
                )
                assertEquals<JsonElement?>(step["puts"], JsonObject(found))
                putting[put.url] = put.clientMsgId
            }
            "aborts" in step -> assertEquals(step.word("aborts"), aborts.removeFirstOrNull(), "$step")
            "closes" in step -> assertEquals(step.long("closes")?.toULong(), closes.removeFirstOrNull(), "$step")
            "told" in step -> {
                val told = step.getValue("told")
                (told as? JsonArray ?: listOf(told)).forEach { expectEvent(step, it.jsonObject) }
            }
            "shows" in step -> {
                val expected = step.getValue("shows").jsonObject
                val found = shown.remove(view(expected)) ?: fail("“${scenario.word("name")}” $step: $shown")
                assertShown(expected, found, "“${scenario.word("name")}” $step")
            }
            "answered" in step -> {
                val (ok, code) = answers.remove(step.word("answered")) ?: fail("“${scenario.word("name")}” $step: $answers")
                assertEquals(step.word("error"), code, "$step")
                assertWithin(step["ok"], ok, "$step")
            }
            "saved" in step -> expectSaved(step.getValue("saved").jsonObject)
            "outbox" in step -> {
                val found = engine.outbox().map { json.parseToJsonElement(it).jsonObject }
                val expected = step.getValue("outbox").jsonArray
                val ids = { request: JsonObject -> request.getValue("client_msg_id") }
                assertEquals(
                    expected.toList(),
                    found.mapIndexed { at, it -> if (expected.getOrNull(at) is JsonObject) plainQueued(it) else ids(it) },
                )
            }
            "stats" in step -> assertWithin(step["stats"], counters(), "$step")
            else -> return false
        }
        return true
    }

    private fun counters(): JsonObject = engine.counters().run {
        val all = mapOf(
            "sent" to sent, "answered" to answered, "resent" to resent, "failed" to failed, "received" to received,
            "duplicates_dropped" to duplicatesDropped, "gaps_repaired" to gapsRepaired, "reconnects" to reconnects,
        )
        JsonObject(all.mapValues { JsonPrimitive(it.value.toLong()) })
    }

    private fun expectRequest(step: JsonObject, request: JsonObject) {
        val wanted = comparable(request)
        val asked = next(step) { asks.firstOrNull { comparable(it.frame) == wanted }?.also(asks::remove) }
        assertEquals(step.word("by") ?: "socket", asked.by, "$step")
        step.long("link")?.let { assertEquals(it.toULong(), asked.link, "$step") }
        step.word("again")?.let { assertEquals(named.getValue(it).frame["id"], asked.frame["id"], "$step") }
        step.word("as")?.let { named[it] = asked }
        if ("result" in step || "error" in step) answer(asked, step)
    }

    private fun expectEvent(step: JsonObject, told: JsonObject) {
        val (name, fields) = next(step) { events.removeFirstOrNull() }
        assertWithin(told, plainEvent(name, fields), "“${scenario.word("name")}”, $step")
        val event = if (name == "state") null else eventOf(name, fields) ?: fail("there is no event $name")
        when (event) {
            // The types of the client have all that the server sends.
            is Event.Entry -> {
                val message = event.message
                assertEquals(fields["entry"], json.encodeToJsonElement(message))
                if (step["done"] != JsonPrimitive(false)) {
                    turn(EdgeInput.Done(message.conversationId, message.seq.toULong()))
                }
            }
            is Event.RowChanged -> assertEquals<JsonElement>(fields, json.encodeToJsonElement(event.row))
        }
    }

    private fun expectSaved(expected: JsonObject) {
        val found = json.parseToJsonElement(engine.saved()).jsonObject
        val ids = found.getValue("outbox").jsonArray.map { it.jsonObject.getValue("client_msg_id") }
        val saved = JsonObject(found + ("outbox" to JsonArray(ids)))
        fun JsonObject.whole() = filterValues { it != JsonNull && it != JsonArray(emptyList()) }
        assertEquals(expected.whole(), saved.whole(), "“${scenario.word("name")}”")
    }

    /** Takes the expected output if it is present, or comes within the time that the step allows. */
    private fun <T> next(step: JsonObject, take: () -> T?): T {
        val within = step.long("within")
        val end = now + (within ?: 0)
        while (true) {
            take()?.let { return it }
            val next = wakeAt
            if (within == null || next == null || next > end) {
                nothingElse("it has not: $step")
                fail("“${scenario.word("name")}” it has not: $step")
            }
            now = maxOf(now, next)
            turn()
        }
    }
}
