// A sample that uploads a message's attachment, also while no screen of the app is open; docs/clients.md describes the
// steps before and after. The sample needs androidx.work:work-runtime and OkHttp.
//
// Enqueue it as unique work with the `client_msg_id` as its name and as its tag, by which you cancel it. Use
// NetworkType.CONNECTED and an exponential backoff.

package chat.pigeonhole.sample

import android.content.Context
import androidx.work.Worker
import androidx.work.WorkerParameters
import java.io.File
import java.io.IOException
import java.io.RandomAccessFile
import java.util.concurrent.TimeUnit.SECONDS
import okhttp3.MediaType.Companion.toMediaTypeOrNull
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okio.BufferedSink

class UploadWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
    private val http = OkHttpClient.Builder().writeTimeout(30, SECONDS).build()

    /**
     * Runs for at most ten minutes or so, off the main thread. Uploaded parts stay: the next run requests what is
     * missing.
     */
    override fun doWork(): Result = try {
        val file = File(inputData.getString("path")!!)
        val mediaId = inputData.getString("media_id")!!
        while (true) {
            // At most eight at a time, and none when all parts are uploaded. The URLs are valid for 15 minutes.
            val puts = missing(mediaId)
            if (puts.isEmpty()) break
            puts.forEach { put(file, it) }
        }
        if (send(mediaId)) Result.success() else Result.retry()
    } catch (gone: Gone) {
        // The message was sent, or the announcement has expired. The outbox shows which: announce the file again, or
        // stop.
        Result.failure()
    } catch (lost: IOException) {
        Result.retry()
    }

    class Put(val offset: Long, val bytes: Long, val url: String, val headers: Map<String, String>)
    class Gone : Exception()

    /**
     * Uploads one part. Status 412 means that S3 has the part already. After any other failure, such as an expired URL,
     * the next run requests a new URL after a longer wait.
     */
    private fun put(file: File, put: Put) {
        if (isStopped) throw IOException("cancelled, or not now")
        val request = Request.Builder().url(put.url).put(Part(file, put))
        // The headers are signed: send all of them, and no others. OkHttp sets the length, and the body has the type.
        put.headers.filterKeys { !it.equals("content-length", true) }.forEach { (name, value) -> request.header(name, value) }
        http.newCall(request.build()).execute().use {
            if (!it.isSuccessful && it.code != 412) throw IOException("${it.code}")
        }
    }

    private class Part(private val file: File, private val put: Put) : RequestBody() {
        override fun contentType() = put.headers.entries.firstOrNull { it.key.equals("content-type", true) }?.value?.toMediaTypeOrNull()
        override fun contentLength() = put.bytes
        override fun writeTo(sink: BufferedSink) = RandomAccessFile(file, "r").use {
            val chunk = ByteArray(64 * 1024)
            it.seek(put.offset)
            var left = put.bytes
            while (left > 0) {
                val count = it.read(chunk, 0, minOf(left, chunk.size.toLong()).toInt())
                if (count < 0) throw IOException("the file has changed")
                sink.write(chunk, 0, count)
                left -= count
            }
        }
    }

    /**
     * Write this function for your app: call `upload` with the `media_id`, and return its `url` as one Put of the whole
     * file, or its `parts`. Throw Gone for the error `gone`.
     */
    private fun missing(mediaId: String): List<Put> = emptyList()

    /** Your own: `uploaded`, and then the message from the outbox. `false`: `not_ready`, or no connection. */
    private fun send(mediaId: String): Boolean = true
}
