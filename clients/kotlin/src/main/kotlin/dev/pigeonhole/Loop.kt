package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.EdgeOutput
import dev.pigeonhole.ffi.Engine
import dev.pigeonhole.ffi.Fault
import dev.pigeonhole.ffi.Turn
import dev.pigeonhole.ffi.Why
import java.time.Instant
import java.time.ZoneId
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.selects.onTimeout
import kotlinx.coroutines.selects.select
import okhttp3.OkHttpClient

/** The most inputs of a turn, so that a call waits for one short turn. */
private const val INPUTS_MAX = 64

/** While this number of frames and reports wait, no socket is read. */
private const val NEWS_MAX = 64

/** The last events that wait for a collector, if the store has the messages. */
private const val EVENTS_MAX = 1000
private const val IDLE_MS = 3_600_000L
private const val RETRY_FIRST_MS = 500L
private const val RETRY_MAX_MS = 30_000L

/** Between two new engines. */
private val RESTART_PAUSE = 60.seconds

/** Runs the engine: one turn at a time, and then what came out of it. */
@OptIn(ExperimentalCoroutinesApi::class)
internal class Loop(
    private val openEngine: () -> Engine,
    private val config: Config,
    deviceId: String,
    http: OkHttpClient,
    scope: CoroutineScope,
    token: suspend (TokenNeed) -> String,
) {
    private class Call(val input: EdgeInput, val taken: CompletableDeferred<Unit>?)

    private val calls = Channel<Call>(Channel.UNLIMITED)
    private val news = Channel<EdgeInput>(NEWS_MAX)
    private val links = Links(config, deviceId, http, scope, news, token)
    private val puts = Puts(http, scope, news)
    private val answers = ConcurrentHashMap<ULong, CompletableDeferred<String>>()
    private val views = ConcurrentHashMap<ULong, View<*>>()
    private val lastNumber = AtomicLong()

    @Volatile private var engine = openEngine()
    private var restartedAt: Long? = null

    val events: Channel<Event> = when (config.keep) {
        Keep.MESSAGES -> Channel(EVENTS_MAX, BufferOverflow.DROP_OLDEST)
        Keep.OUTBOX -> Channel(Channel.UNLIMITED)
    }
    val state = MutableStateFlow<State>(State.Connecting)

    /** Puts a call into the next turn. The result is complete when the server has replied. */
    fun ask(taken: CompletableDeferred<Unit>? = null, input: (ULong) -> EdgeInput): CompletableDeferred<String> {
        val ask = lastNumber.incrementAndGet().toULong()
        val answer = CompletableDeferred<String>()
        answers[ask] = answer
        if (calls.trySend(Call(input(ask), taken)).isFailure) {
            answers.remove(ask)
            taken?.completeExceptionally(closed())
            answer.completeExceptionally(closed())
        }
        return answer
    }

    fun say(input: EdgeInput) {
        calls.trySend(Call(input, null))
    }

    fun newView(): ULong = lastNumber.incrementAndGet().toULong()

    fun <T : View<*>> open(view: T): T {
        if (config.keep != Keep.MESSAGES) throw PigeonholeException("config", "views need Keep.MESSAGES")
        views[view.number] = view
        if (calls.trySend(Call(opened(view), null)).isFailure) throw closed()
        return view
    }

    fun closeView(view: View<*>) {
        views.remove(view.number)
        say(EdgeInput.CloseView(view.number))
    }

    /** Tells the engine the device's time zone, for the days of views. */
    fun tellZone() = say(zone())

    fun outbox(): List<String> = engine.outbox()

    fun search(text: String, limit: Int): String = engine.search(text, limit.toUInt())

    fun devices(): String = engine.devices()

    fun safetyNumber(userId: String): String? = engine.safetyNumber(userId)

    /** Until [close]. */
    suspend fun run() {
        try {
            var wakeAt = turn(listOf(zone()))
            while (true) {
                val wait = (wakeAt?.let { it.toLong() - now() } ?: IDLE_MS).coerceIn(0, IDLE_MS)
                val batch = ArrayList<EdgeInput>()
                val taken = ArrayList<CompletableDeferred<Unit>>()
                var closing = false
                fun take(call: Call) {
                    batch += call.input
                    call.taken?.let { taken += it }
                    closing = closing || call.input is EdgeInput.Closing
                }
                // Calls come first.
                select {
                    calls.onReceive(::take)
                    news.onReceive { batch += it }
                    onTimeout(wait) {}
                }
                while (batch.size < INPUTS_MAX && !closing) take(calls.tryReceive().getOrNull() ?: break)
                while (batch.size < INPUTS_MAX) batch += news.tryReceive().getOrNull() ?: break
                wakeAt = try {
                    turn(batch)
                } catch (fault: Fault.Failed) {
                    taken.forEach { it.completeExceptionally(fault.public()) }
                    throw fault
                }
                taken.forEach { it.complete(Unit) }
                if (closing) return
            }
        } catch (fault: Fault.Failed) {
            end(fault.public())
        } finally {
            end(closed())
            links.closeAll()
            puts.close()
            runCatching { engine.flush() }
            engine.close()
            state.value = State.Closed
        }
    }

    private fun end(why: PigeonholeException) {
        calls.close()
        while (true) (calls.tryReceive().getOrNull() ?: break).taken?.completeExceptionally(why)
        answers.keys.forEach { answers.remove(it)?.completeExceptionally(why) }
        events.close()
    }

    /** Returns when the next turn is due. */
    private suspend fun turn(inputs: List<EdgeInput>): ULong? {
        val turn = try {
            engineTurn(inputs)
        } catch (fault: Fault.Failed) {
            if (fault.retryable) return again(fault)
            restart(fault)
            engineTurn(listOf(zone()) + views.values.map(::opened))
        }
        carryOut(turn)
        return turn.wakeAt
    }

    /** The store can't be written, of a full disk for example. Until it can, there is no connection. */
    private suspend fun again(fault: Fault.Failed): ULong? {
        val closed = links.numbers().onEach(links::close)
        state.value = State.Offline("store", fault.reason, null, null)
        var pause = RETRY_FIRST_MS
        while (true) {
            delay(pause)
            pause = minOf(2 * pause, RETRY_MAX_MS)
            val turn = try {
                engineTurn(emptyList())
            } catch (again: Fault.Failed) {
                if (again.retryable) continue
                throw again
            }
            carryOut(turn)
            return turn(closed.map { EdgeInput.Ended(it, Why.Store(fault.reason)) })
        }
    }

    /** After a panic, or damage of the store, another engine continues from the store. */
    private fun restart(fault: Fault.Failed) {
        val recently = restartedAt?.let { now() - it < RESTART_PAUSE.inWholeMilliseconds } ?: false
        restartedAt = now()
        links.numbers().forEach(links::close)
        engine.close()
        if (recently) throw fault
        engine = openEngine()
        // Their requests are in the outbox, or lost.
        answers.keys.forEach { answers.remove(it)?.completeExceptionally(fault.public()) }
        events.trySend(Event.Restarted)
    }

    private fun carryOut(turn: Turn) {
        for (output in turn.outputs) {
            when (output) {
                is EdgeOutput.Dial -> links.dial(output.link, output.need)
                is EdgeOutput.Send -> links.send(output.link, output.text)
                is EdgeOutput.Post -> links.post(output)
                is EdgeOutput.Close -> links.close(output.link)
                is EdgeOutput.Put -> puts.begin(output)
                is EdgeOutput.Abort -> puts.abort(output.clientMsgId)
                is EdgeOutput.Carry -> puts.carry(output)
                is EdgeOutput.Answered -> answers.remove(output.ask)?.complete(output.result)
                is EdgeOutput.Refused ->
                    answers.remove(output.ask)?.completeExceptionally(PigeonholeException(output.code, output.reason))
                is EdgeOutput.Event -> tell(output.event)
                is EdgeOutput.Show -> views[output.view]?.show(output.shown)
            }
        }
    }

    private fun tell(text: String) {
        val (name, fields) = fieldsOf(text) ?: return
        if (name == "state") {
            stateOf(fields) { it - now() }?.let { state.value = it }
        } else {
            events.trySend(eventOf(name, fields) ?: return)
        }
    }

    private fun engineTurn(inputs: List<EdgeInput>) = engine.turn(inputs, now().toULong(), System.currentTimeMillis())

    private fun opened(view: View<*>) = EdgeInput.Open(view.number, view.of.toString())

    private fun zone() = EdgeInput.Zone(offsetsOf(ZoneId.systemDefault(), Instant.now()))

    private fun closed() = PigeonholeException("closed", "the client is closed")

    private fun Fault.Failed.public() = PigeonholeException(code, reason)

    internal companion object {
        /** In milliseconds. On Android, `nanoTime` stands still in deep sleep, and `wake` makes up for it. */
        fun now(): Long = System.nanoTime() / 1_000_000 - START

        private val START = System.nanoTime() / 1_000_000
    }
}
