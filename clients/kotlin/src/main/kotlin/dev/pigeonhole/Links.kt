package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.EdgeOutput
import dev.pigeonhole.ffi.TokenNeed as Need
import dev.pigeonhole.ffi.Why
import dev.pigeonhole.ffi.inspect
import java.io.IOException
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean
import kotlin.time.Duration.Companion.seconds
import kotlin.time.toJavaDuration
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.TimeoutCancellationException
import kotlinx.coroutines.channels.SendChannel
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeout
import kotlinx.coroutines.withTimeoutOrNull
import okhttp3.Call
import okhttp3.Callback
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener

private val TOKEN_WAIT = 10.seconds
private val CLOSE_WAIT = 1.seconds

/** API Gateway waits 29 s for a function. */
private val POST_WAIT = 30.seconds
private val JSON_TYPE = "application/json".toMediaType()

/** The sockets. Their frames go into `news`; while that is full, no socket is read. */
internal class Links(
    private val config: Config,
    private val deviceId: String,
    private val http: OkHttpClient,
    private val scope: CoroutineScope,
    private val news: SendChannel<EdgeInput>,
    private val token: suspend (TokenNeed) -> String,
) {
    private val open = ConcurrentHashMap<ULong, Link>()
    private val posting = ConcurrentHashMap.newKeySet<Call>()
    private val posts = http.newBuilder().callTimeout(POST_WAIT.toJavaDuration()).build()

    fun dial(number: ULong, need: Need) {
        val link = Link(number)
        open[number] = link
        link.dialing = scope.launch { dial(link, need) }
    }

    fun send(number: ULong, text: String) {
        open[number]?.socket?.send(text)
    }

    /** Sends a request over HTTP, with the token of this connection. */
    fun post(post: EdgeOutput.Post) {
        // A connection that is gone has no request under way.
        val token = open[post.link]?.token ?: return
        val request = Request.Builder().url("${config.httpUrl?.trimEnd('/')}/v1/${post.action}")
            .header("Authorization", "Bearer $token").header("X-Device-Id", deviceId)
            .post(post.text.toRequestBody(JSON_TYPE)).build()
        val call = posts.newCall(request)
        posting += call
        call.enqueue(object : Callback {
            override fun onResponse(call: Call, response: Response) = try {
                response.use { end(call, it.code.toUShort(), it.body.string()) }
            } catch (broken: IOException) {
                end(call, null, "")
            }

            override fun onFailure(call: Call, e: IOException) = end(call, null, "")

            private fun end(call: Call, status: UShort?, body: String) {
                // After the end of the client, nothing takes a report.
                if (posting.remove(call)) news.trySendBlocking(EdgeInput.Posted(post.link, post.request, status, body))
            }
        })
    }

    /** Without a report: the engine has decided it. */
    fun close(number: ULong) {
        open.remove(number)?.close()
    }

    fun numbers(): List<ULong> = open.keys.sorted()

    /** Closes all, and waits for the other side, for a short time. */
    suspend fun closeAll() {
        val links = numbers().mapNotNull { open.remove(it)?.apply { close() } }
        posting.forEach { if (posting.remove(it)) it.cancel() }
        withTimeoutOrNull(CLOSE_WAIT) { links.forEach { it.closed.await() } }
        links.forEach { it.socket?.cancel() }
    }

    private suspend fun dial(link: Link, need: Need) {
        val token = try {
            withTimeout(TOKEN_WAIT) { token(TokenNeed.of(need)) }
        } catch (late: TimeoutCancellationException) {
            return link.end(Why.NoToken("no token came within $TOKEN_WAIT"))
        } catch (cancelled: CancellationException) {
            throw cancelled
        } catch (error: Exception) {
            // The app's own code may throw anything.
            return link.end(Why.NoToken(error.toString()))
        }
        val info = inspect(token, System.currentTimeMillis().toULong())
        if (info.userId != null && info.userId != config.userId) {
            val problem = "the token is for the user \"${info.userId}\" (its sub), and the client for \"${config.userId}\""
            return link.end(Why.WrongUser(problem))
        }
        val separator = if ('?' in config.url) '&' else '?'
        val request = try {
            Request.Builder().url("${config.url}${separator}device_id=$deviceId")
                .header("Authorization", "Bearer $token").build()
        } catch (error: IllegalArgumentException) {
            // OkHttp's text would have the token in it.
            return link.end(Why.NoToken("the token has characters that no token has, or the address is none"))
        }
        link.token = token
        link.tokenLeft = info.leftMs
        link.socket = http.newWebSocket(request, link)
        if (open[link.number] !== link) link.close()
    }

    /** One connection. OkHttp calls a listener from one thread at a time. */
    private inner class Link(val number: ULong) : WebSocketListener() {
        @Volatile var socket: WebSocket? = null
        @Volatile var dialing: Job? = null
        @Volatile var token: String? = null
        @Volatile var tokenLeft: ULong? = null
        val closed = CompletableDeferred<Unit>()
        private val isOpen = AtomicBoolean()
        private val isClosed = AtomicBoolean()

        override fun onOpen(webSocket: WebSocket, response: Response) {
            isOpen.set(true)
            // A frame that the engine sends in the next turn needs it.
            socket = webSocket
            report(EdgeInput.Opened(number, tokenLeft))
        }

        override fun onMessage(webSocket: WebSocket, text: String) = report(EdgeInput.Frame(number, text))

        override fun onClosing(webSocket: WebSocket, code: Int, reason: String) {
            webSocket.close(1000, null)
            end(Why.Closed)
        }

        override fun onClosed(webSocket: WebSocket, code: Int, reason: String) = end(Why.Closed)

        override fun onFailure(webSocket: WebSocket, t: Throwable, response: Response?) {
            val reason = t.message ?: t.toString()
            end(
                when {
                    isOpen.get() -> Why.Lost(reason)
                    response != null -> Why.Status(response.code.toUShort())
                    else -> Why.Unreachable(reason)
                },
            )
        }

        fun close() {
            isClosed.set(true)
            dialing?.cancel()
            // A socket that is not open yet can't say goodbye.
            if (isOpen.get()) socket?.close(1000, null) else socket?.cancel()
            if (socket == null) closed.complete(Unit)
        }

        /** Reports the end, unless it was decided here. */
        fun end(why: Why) {
            open.remove(number, this)
            if (isClosed.compareAndSet(false, true)) news.trySendBlocking(EdgeInput.Ended(number, why))
            closed.complete(Unit)
        }

        private fun report(input: EdgeInput) {
            // A frame that comes while it closes may be the last reply. After the end, no turn reads it.
            news.trySendBlocking(input)
        }
    }
}
