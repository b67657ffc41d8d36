// Puts what a message carries, also while no screen of the app is there, to begin with; docs/clients.md has what comes before and after. It
// needs androidx.work:work-runtime and OkHttp.
//
// Enqueue it as unique work by the `client_msg_id`, which is also its tag to cancel it by, with NetworkType.CONNECTED and an exponential backoff.

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

    /** Some ten minutes, off the main thread. What is there by then stays: the next run is told what is missing. */
    override fun doWork(): Result = try {
        val file = File(inputData.getString("path")!!)
        val mediaId = inputData.getString("media_id")!!
        while (true) {
            // At most eight at a time, and none once all of it is there. Its URLs are good for a quarter of an hour.
            val puts = missing(mediaId)
            if (puts.isEmpty()) break
            puts.forEach { put(file, it) }
        }
        if (send(mediaId)) Result.success() else Result.retry()
    } catch (gone: Gone) {
        // It was sent, or has ended. What the outbox holds says which: announce it anew, or leave it.
        Result.failure()
    } catch (lost: IOException) {
        Result.retry()
    }

    class Put(val offset: Long, val bytes: Long, val url: String, val headers: Map<String, String>)
    class Gone : Exception()

    /** 412: it is there already. Anything else, such as a URL that has ended, is asked for again, later each time. */
    private fun put(file: File, put: Put) {
        if (isStopped) throw IOException("cancelled, or not now")
        val request = Request.Builder().url(put.url).put(Part(file, put))
        // They are signed: all of them, and no others. The length is OkHttp's to set, and the type is the body's.
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

    /** Your own: `upload` with the `media_id`; its `url` as one Put of the whole, or its `parts`. `gone` is thrown as Gone. */
    private fun missing(mediaId: String): List<Put> = emptyList()

    /** Your own: `uploaded`, and then the message from the outbox. `false`: `not_ready`, or no connection. */
    private fun send(mediaId: String): Boolean = true
}
