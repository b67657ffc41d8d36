// A sample client for Pigeonhole; docs/clients.md has the rules that it follows. OkHttp 3.13 or later; org.json is part
// of Android.

import java.util.TreeMap
import java.util.UUID
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit.MILLISECONDS
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import org.json.JSONArray
import org.json.JSONObject

class Pigeonhole(
    private val url: String, // wss://….amazonaws.com/v1?device_id=…, one id for each installation
    private val me: String,
    private val token: () -> String, // called before each connection
    private val show: (JSONObject) -> Unit, // each message once, in order, then acknowledged; a deleted one is empty
    private val change: (JSONObject) -> Unit, // each change entry, in order; changes the message `target_seq`
    private val tick: (conversation: String, user: String, seq: Long, read: Boolean) -> Unit, // read includes delivered
    private val failed: (clientMsgId: String, why: String) -> Unit
) : WebSocketListener() {
    private class Asked(val request: Map<String, Any>, var since: Long?) { // null: put off, so no reply is owed
        var at = 0L // time of the last `typing`
        var wait = 5_000L
    }

    private class Conversation {
        var shown: Long? = null // up to here; null: new on this device, and its start is not known yet
        var last = 0L // the server has messages up to here
        val early = TreeMap<Long, JSONObject>() // what came before its turn
        var askAt = 0L // not before this for what is missing
        var pause = 1_000L
        fun isWhole() = (shown ?: -1) >= last
    }

    private val http = OkHttpClient()
    private val thread = Executors.newSingleThreadScheduledExecutor()
    private var socket: WebSocket? = null
    private var attempt = 0
    private var isReplaced = false // one connection too many: the next one is the user's to open
    private var heardAt = 0L
    private var pingAt = 0L

    // Keep these three, of the conversations what is `shown`, where a restart finds them.
    private val outbox = LinkedHashMap<String, Map<String, Any>>()
    private val conversations = HashMap<String, Conversation>()
    private var since: String? = null // of the last chat list that this device has come up to, the newest time

    private val unacked = HashMap<String, Long>()
    private val reads = HashMap<String, Long>()
    private val asked = LinkedHashMap<String, Asked>() // what has no reply yet, by its id
    private val page = HashMap<String, Long>() // up to where the last drained page goes
    private var isPaging = false // another one follows, once this one is shown
    private var again = false // something may have become pending after the page that is on its way was read
    private val listed = HashSet<String>()
    private var newest: String? = null // what `since` becomes once all that the chat list names is shown
    private var isListed = false

    init {
        thread.execute { connect() }
        thread.scheduleWithFixedDelay({ everySecond() }, 1000, 1000, MILLISECONDS)
    }

    fun send(to: String, body: String) = thread.execute {
        val id = UUID.randomUUID().toString()
        outbox[id] = mapOf("to" to to, "client_msg_id" to id, "kind" to "text", "body" to body)
        sendNext()
    }

    fun read(conversation: String, seq: Long) = thread.execute { reads[conversation] = maxOf(seq, reads[conversation] ?: 0) }

    /** The app is in the foreground again, where timers have stood still. */
    fun wake() = thread.execute {
        if (isReplaced) connect()
        pingAt = 0
        everySecond()
    }

    fun close() = thread.execute {
        thread.shutdownNow()
        socket?.close(1000, null)
    }

    private fun connect() = try {
        isReplaced = false
        heardAt = now() // No frame can have come yet on this connection.
        val request = Request.Builder().url(url).header("Authorization", "Bearer ${token()}").build()
        socket = http.newWebSocket(request, this)
    } catch (noToken: Exception) {
        connectLater(socket)
    }

    private fun connectLater(lost: WebSocket?, status: Int = 0) {
        if (lost != socket) return
        socket = null
        if (isReplaced) return
        val isBusy = status == 429 || status >= 500
        val ceiling = minOf(if (isBusy) 300_000L else 30_000L, 500L shl minOf(attempt++, 10))
        thread.schedule({ connect() }, (Math.random() * ceiling).toLong(), MILLISECONDS)
    }

    override fun onOpen(webSocket: WebSocket, response: Response) = onThread {
        heardAt = now()
        pingAt = now() + 300_000
        asked.remove("inbox") // The client reads the chat list again, after the drain.
        asked.values.forEach { say(it.apply { since = now(); wait = 5_000 }) }
        drain()
        sendNext()
    }
    override fun onMessage(webSocket: WebSocket, text: String) = onThread { onFrame(JSONObject(text)) }
    override fun onClosing(webSocket: WebSocket, code: Int, reason: String) = webSocket.cancel()
    override fun onClosed(webSocket: WebSocket, code: Int, reason: String) = onThread { connectLater(webSocket) }
    override fun onFailure(webSocket: WebSocket, t: Throwable, response: Response?) = onThread {
        // In the text, because OkHttp 3 and 4 name the response's field differently.
        connectLater(webSocket, Regex("'(\\d{3}) ").find(t.message ?: "")?.groupValues?.get(1)?.toInt() ?: 0)
    }

    private fun onThread(what: () -> Unit) {
        if (!thread.isShutdown) thread.execute(what)
    }

    private fun everySecond() {
        repair()
        if ("ack" !in asked) marks()?.let { ask("ack", "ack", mapOf("up_to" to it)) }
        reads.forEach { (id, seq) -> ask("read", "read $id", mapOf("conversation_id" to id, "seq" to seq)) }
        if (now() > pingAt) ask("ping", "ping").also { pingAt = now() + 300_000 }
        asked.values.filter { now() - it.at > it.wait }.forEach { say(it.apply { wait = minOf(2 * wait, 40_000) }) }
        val owedSince = asked.values.mapNotNull { it.since }.minOrNull() ?: now()
        if (now() - maxOf(owedSince, heardAt) > 15_000) socket?.cancel()
    }

    private fun ask(action: String, id: String, fields: Map<String, Any> = emptyMap()) {
        if (id !in asked) asked[id] = Asked(fields + mapOf("action" to action, "id" to id), now()).also { say(it) }
    }

    private fun say(it: Asked) {
        it.at = now()
        it.since = it.since ?: now()
        socket?.send(JSONObject(it.request).toString())
    }

    private fun sendNext() {
        val (id, message) = outbox.entries.firstOrNull() ?: return
        ask("send", id, message)
    }

    private fun drain() {
        again = "drain" in asked
        if (again) return
        isPaging = false
        val ack = marks()
        ask("drain", "drain", if (ack == null) emptyMap() else mapOf("ack" to ack))
    }

    private fun list(cursor: String?) {
        val fields = mutableMapOf<String, Any>("limit" to 50)
        cursor?.let { fields["cursor"] = it }
        since?.let { fields["since"] = it.removeSuffix("Z") + "+00:01" } // A minute before.
        ask("inbox", "inbox", fields)
    }

    private fun repair() {
        if ("drain" in asked) return // Which is likely to bring what is missing.
        for ((id, it) in conversations) {
            val shown = it.shown
            if (it.isWhole() || now() < it.askAt || shown == null && outbox.isNotEmpty()) continue
            val side = if (shown == null) mapOf("limit" to 1) else mapOf("after_seq" to shown, "limit" to 100)
            ask("history", id, side + mapOf("conversation_id" to id))
        }
    }

    private fun marks(): JSONArray? {
        val marks = unacked.entries.take(25).map { JSONObject(mapOf("conversation_id" to it.key, "seq" to it.value)) }
        marks.forEach { unacked.remove(it.getString("conversation_id")) }
        return if (marks.isEmpty()) null else JSONArray(marks)
    }

    private fun onFrame(frame: JSONObject) {
        heardAt = now()
        when (frame.optString("type")) {
            "messages.new" -> frame.getJSONArray("messages").objects().forEach { arrived(it) }
            "receipt.delivered", "receipt.read" -> tick(frame.getString("conversation_id"), frame.getString("user_id"),
                frame.getLong("seq"), frame.getString("type") == "receipt.read")
            "reply" -> asked.remove(frame.optString("id"))?.let { answered(it.request, frame.getJSONObject("result")) }
            "connection.replaced" -> {
                isReplaced = true
                socket?.cancel()
            }
            "error" -> {
                val error = frame.getJSONObject("error")
                if (error.getString("code") == "token_expired") {
                    socket?.cancel()
                    return // Where each token is, it is dialled later each time.
                }
                refused(frame.optString("id"), error)
            }
            else -> return // from API Gateway, or newer than this client: requests without a reply are repeated later
        }
        attempt = 0
        if (isPaging && page.all { (id, seq) -> (conversations[id]?.shown ?: -1) >= seq }) drain()
        if (isListed && conversations.values.all { it.isWhole() }) {
            since = newest ?: since
            isListed = false
        }
    }

    private fun answered(request: Map<String, Any>, result: JSONObject) {
        when (request["action"]) {
            "drain" -> drained(result.getJSONArray("messages").objects(), result.getBoolean("more"))
            "inbox" -> listed(result)
            "history" -> repaired(request["id"] as String, "after_seq" in request, result)
            "send" -> {
                outbox.remove(request["client_msg_id"])
                listOf("client_msg_id", "kind", "body").forEach { result.put(it, request[it]) }
                arrived(result.put("sender_id", me))
                sendNext()
            }
            "read" -> if (reads[request["conversation_id"]] == request["seq"]) reads.remove(request["conversation_id"])
            "ping" -> if (result.getBoolean("pending")) drain()
        }
    }

    private fun refused(id: String, error: JSONObject) {
        if (error.getBoolean("retryable")) {
            // Later each time, and not before the server wishes.
            asked[id]?.let {
                it.at = now()
                it.wait = maxOf(minOf(2 * it.wait, 40_000), minOf(error.optLong("retry_after_ms"), 300_000))
                it.since = null
            }
            return
        }
        val request = asked.remove(id)?.request ?: return
        when (request["action"]) {
            "send" -> {
                outbox.remove(id)
                failed(id, error.getString("message"))
                sendNext()
            }
            "drain" -> if ("ack" in request) drain() // One entry of it was refused, the others stand.
            "history" -> {
                conversations.remove(id) // No longer a member: nothing of it will come.
                page.remove(id)
            }
            "read" -> reads.remove(request["conversation_id"])
        }
    }

    private fun drained(messages: List<JSONObject>, more: Boolean) {
        messages.forEach { arrived(it, drained = true) }
        if (again) return drain()
        isPaging = more
        page.clear()
        messages.forEach { page[it.getString("conversation_id")] = it.getLong("seq") }
        if (!more) {
            listed.clear()
            newest = null
            list(null)
        }
    }

    private fun listed(result: JSONObject) {
        for (row in result.getJSONArray("conversations").objects()) {
            val it = conversation(row.getString("conversation_id"))
            it.last = maxOf(it.last, row.getLong("last_seq"))
            begin(it, row.getLong("delivered_seq"))
            skipTo(it, row.optLong("first_seq", 1))
            listed += row.getString("conversation_id")
            newest = listOfNotNull(newest, row.optJSONObject("last_message")?.getString("sent_at")).maxOrNull()
        }
        // The first list can be long; what this device doesn't know need not be compared with anything.
        val isEnough = since == null && listed.containsAll(conversations.keys)
        if (result.isNull("next_cursor") || isEnough) isListed = true else list(result.getString("next_cursor"))
        repair()
    }

    private fun repaired(id: String, isAfter: Boolean, result: JSONObject) {
        val it = conversation(id)
        val before = it.shown
        it.last = maxOf(it.last, result.getLong("last_seq"))
        // A group's page has no mark of this user: the conversation starts with the first entry that came.
        val own = result.getJSONArray("members").objects().find { member -> member.getString("user_id") == me }
        if (!isAfter) begin(it, own?.getLong("delivered_seq") ?: it.last)
        skipTo(it, result.optLong("first_seq", 1))
        if (isAfter) result.getJSONArray("messages").objects().forEach { arrived(it) }
        val isProgress = it.shown != before
        it.askAt = if (isProgress) 0 else now() + it.pause
        it.pause = if (isProgress) 1_000 else minOf(2 * it.pause, 30_000)
        repair()
    }

    private fun arrived(message: JSONObject, drained: Boolean = false) {
        val (id, seq) = Pair(message.getString("conversation_id"), message.getLong("seq"))
        val it = conversation(id)
        it.last = maxOf(it.last, seq)
        if (seq > it.shown ?: 0) it.early[seq] = message
        if (drained || seq == 1L) begin(it, seq - 1) // Another device has acknowledged the earlier entries.
        showNext(it)
        it.shown?.let { shown -> if (shown >= seq) unacked[id] = shown } // Again as well: the ack may have been lost.
    }

    /**
     * Starts after this seq, or before the first entry that has come. An own message without a reply may be earlier,
     * too.
     */
    private fun begin(it: Conversation, after: Long) {
        if (it.shown != null || outbox.isNotEmpty()) return
        it.shown = minOf(after, (it.early.keys.firstOrNull() ?: Long.MAX_VALUE) - 1)
        showNext(it)
    }

    /** Skips the entries of a group that this user may not see, after a (new) join: none of them is missing. */
    private fun skipTo(it: Conversation, first: Long) {
        it.shown = maxOf(it.shown ?: return, first - 1)
        it.early.headMap(first).clear()
        showNext(it)
    }

    private fun showNext(it: Conversation) {
        while (it.shown != null && it.early.keys.firstOrNull() == it.shown!! + 1) {
            val message = it.early.pollFirstEntry().value
            if (message.getString("kind") in MESSAGES) show(message) else change(message)
            it.shown = message.getLong("seq")
            unacked[message.getString("conversation_id")] = message.getLong("seq")
        }
    }

    private fun conversation(id: String) = conversations.getOrPut(id) { Conversation() }

    private fun JSONArray.objects() = (0 until length()).map { getJSONObject(it) }

    private fun now() = System.nanoTime() / 1_000_000

    private companion object {
        val MESSAGES = setOf("text", "image", "file", "voice") // other kinds are no messages
    }
}
