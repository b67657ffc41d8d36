package dev.pigeonhole

import dev.pigeonhole.ffi.openFile
import dev.pigeonhole.ffi.sealedBytes
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.nio.file.Files
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.StandardCopyOption.REPLACE_EXISTING
import java.util.concurrent.TimeUnit.SECONDS
import kotlin.coroutines.resume
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.delay
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import kotlinx.serialization.encodeToString
import okhttp3.Call
import okhttp3.Callback
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.Response

private const val TRIES = 5
private val PAUSE = 1.seconds

/** A download in progress, in a file next to its destination, which appears when the file is complete. */
internal class Download(
    http: OkHttpClient,
    private val media: Media,
    private val to: File,
    private val pause: Duration = PAUSE,
) {
    // No byte may stand still for longer.
    private val http = http.newBuilder().readTimeout(30, SECONDS).build()
    private val sealed = media.key?.let { json.encodeToString(media) }
    private val bytes = sealed?.let { public { sealedBytes(it).toLong() } } ?: media.bytes

    private sealed interface End {
        object All : End

        /** The URL is valid no more. */
        object UrlEnded : End

        /** The transfer broke. The received bytes are kept. */
        class Broken(val why: String) : End
        class Failed(val why: String) : End
    }

    /** `url` returns a new URL at each call. */
    suspend fun run(url: suspend () -> String) = withContext<Unit>(Dispatchers.IO) {
        try {
            // For this user alone, under a name that no other download has.
            val part = beside()
            val opened = if (sealed == null) part else beside()
            try {
                fetch(part, url)
                if (sealed != null) {
                    public { openFile(part.path, opened.path, sealed) }
                } else if (part.inputStream().use { hash(it, media.bytes) }.first != media.sha256) {
                    throw failed("the file is not what the message says")
                }
                Files.move(opened.toPath(), to.toPath(), ATOMIC_MOVE, REPLACE_EXISTING)
            } finally {
                part.delete()
                opened.delete()
            }
        } catch (unwritable: IOException) {
            throw failed(unwritable.message ?: unwritable.toString())
        }
    }

    private fun beside() = Files.createTempFile(to.absoluteFile.parentFile.toPath(), to.name, ".part").toFile()

    private suspend fun fetch(part: File, url: suspend () -> String) {
        var current = url()
        for (tries in 1..TRIES) {
            val end = tryOnce(part, current)
            when {
                end is End.All -> return
                end is End.Failed -> throw failed(end.why)
                end is End.Broken && tries < TRIES -> delay(pause * tries)
                end is End.UrlEnded && tries < TRIES -> {
                    // The URL was too old. If the next one is no better, the file has not been scanned yet.
                    delay(pause * (tries - 1))
                    current = url()
                }
                else -> throw failed((end as? End.Broken)?.why ?: "the file is not where the server says")
            }
        }
    }

    private suspend fun tryOnce(part: File, url: String): End = suspendCancellableCoroutine { waiting ->
        val done = part.length()
        // The digest is of the bytes as they were uploaded.
        val request = Request.Builder().url(url).header("Accept-Encoding", "identity")
        if (done > 0) request.header("Range", "bytes=$done-")
        val call = http.newCall(request.build())
        waiting.invokeOnCancellation { call.cancel() }
        call.enqueue(object : Callback {
            override fun onResponse(call: Call, response: Response) = waiting.resume(
                try {
                    response.use { read(it, part, done) }
                } catch (broken: IOException) {
                    End.Broken(broken.message ?: broken.toString())
                },
            )

            override fun onFailure(call: Call, e: IOException) = waiting.resume(End.Broken(e.message ?: e.toString()))
        })
    }

    private fun read(response: Response, part: File, done: Long): End {
        when (response.code) {
            // 200: all of the file, instead of the requested range.
            200, 206 -> {}
            403, 404 -> return End.UrlEnded
            else -> return End.Broken("HTTP ${response.code}")
        }
        FileOutputStream(part, response.code == 206).use { file ->
            var length = if (response.code == 206) done else 0
            val chunk = ByteArray(CHUNK_BYTES)
            val stream = response.body.byteStream()
            while (true) {
                val count = stream.read(chunk)
                if (count < 0) break
                length += count
                if (length > bytes) return End.Failed("the file is longer than the message says")
                try {
                    file.write(chunk, 0, count)
                } catch (unwritable: IOException) {
                    return End.Failed(unwritable.message ?: "the file can't be written")
                }
            }
            if (length < bytes) return End.Broken("the file ends early")
            file.fd.sync()
        }
        return End.All
    }

    private fun failed(why: String) = PigeonholeException("file", why)
}
