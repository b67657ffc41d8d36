package dev.pigeonhole

import java.io.File
import java.net.URI
import java.nio.file.Files
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** The local server that `cargo build --bin pigeonhole` builds, and a folder for its clients. */
internal class LocalServer : AutoCloseable {
    private val server = ProcessBuilder("target/debug/pigeonhole", "--port", "0").redirectErrorStream(true).start()
    val url: String
    val folder: File = Files.createTempDirectory("pigeonhole-kotlin").toFile()

    init {
        val lines = server.inputStream.bufferedReader()
        url = generateSequence(lines::readLine).firstNotNullOf { Regex("^  socket +(ws://.*)$").find(it)?.groupValues?.get(1) }
        // Its log must not fill the pipe, which breaks at its end.
        Thread { runCatching { lines.forEachLine {} } }.apply { isDaemon = true }.start()
    }

    override fun close() {
        server.destroy()
        server.waitFor(10, TimeUnit.SECONDS)
        folder.deleteRecursively()
    }

    fun token(user: String): String {
        val page = URI(url.replaceFirst("ws", "http")).resolve("/token?user=$user").toURL().readText()
        return json.parseToJsonElement(page).jsonObject.getValue("token").jsonPrimitive.content
    }

    fun config(user: String, keep: Keep, address: String = url, keys: Keys? = null, names: Boolean = false) =
        Config(address, user, File(folder, user), keep, timing = mapOf("ack_every" to 100.milliseconds), encrypted = keys, names = names)

    suspend fun open(user: String, keep: Keep, keys: Keys? = null): Pigeonhole =
        Pigeonhole.open(config(user, keep, keys = keys)) { token(user) }
}

/** An address without a server. */
internal const val NOWHERE = "ws://127.0.0.1:1/v1"

internal fun <T> test(what: suspend (LocalServer) -> T) = runBlocking {
    LocalServer().use { server -> withTimeout(60.seconds) { what(server) } }
}
