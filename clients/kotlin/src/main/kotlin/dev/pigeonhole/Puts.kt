package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.EdgeOutput
import dev.pigeonhole.ffi.Fault
import dev.pigeonhole.ffi.sealedPart
import java.io.EOFException
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException
import java.io.RandomAccessFile
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit.SECONDS
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.channels.SendChannel
import kotlinx.coroutines.channels.trySendBlocking
import okhttp3.Call
import okhttp3.Callback
import okhttp3.MediaType
import okhttp3.MediaType.Companion.toMediaTypeOrNull
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okio.BufferedSink

internal const val CHUNK_BYTES = 64 * 1024

/** An earlier try has put the bytes. */
private const val PRECONDITION_FAILED = 412

/** Uploads in progress. */
internal class Puts(http: OkHttpClient, private val scope: CoroutineScope, private val news: SendChannel<EdgeInput>) {
    // No byte may stand still for longer.
    private val http = http.newBuilder().writeTimeout(30, SECONDS).readTimeout(30, SECONDS).build()
    private val underWay = ConcurrentHashMap<String, Call>()

    fun begin(put: EdgeOutput.Put) {
        val body = Part(put) { news.trySendBlocking(EdgeInput.PutSent(put.clientMsgId, it.toULong())) }
        val request = Request.Builder().url(put.url).put(body)
        // The headers are signed: all of them, and no others. OkHttp sets the length, and the body has the type.
        put.headers.filterKeys { !it.equals("content-length", true) }.forEach { (name, value) -> request.header(name, value) }
        val call = http.newCall(request.build())
        underWay[put.clientMsgId] = call
        call.enqueue(object : Callback {
            override fun onResponse(call: Call, response: Response) =
                response.use { end(call, put.clientMsgId, EdgeInput.PutEnded(put.clientMsgId, it.code.toUShort(), null)) }

            override fun onFailure(call: Call, e: IOException) {
                // Nothing else can bring a file back. All other failures pass.
                val unreadable = body.unreadable
                end(call, put.clientMsgId, EdgeInput.PutEnded(put.clientMsgId, null, unreadable))
            }
        })
    }

    fun abort(clientMsgId: String) {
        underWay.remove(clientMsgId)?.cancel()
    }

    /** Carries a file of the encryption, in memory. */
    fun carry(file: EdgeOutput.Carry) {
        val request = Request.Builder().url(file.url)
        file.headers.filterKeys { !it.equals("content-length", true) }.forEach { (name, value) -> request.header(name, value) }
        // The headers have the type.
        file.put?.let { request.put(it.toRequestBody(null)) }
        val call = http.newCall(request.build())
        val name = "carry ${file.carry}"
        underWay[name] = call
        call.enqueue(object : Callback {
            override fun onResponse(call: Call, response: Response) = response.use {
                end(call, name, EdgeInput.Carried(file.carry, carried(file, it)))
            }

            override fun onFailure(call: Call, e: IOException) = end(call, name, EdgeInput.Carried(file.carry, null))
        })
    }

    private fun carried(file: EdgeOutput.Carry, response: Response): ByteArray? = when {
        file.put != null -> ByteArray(0).takeIf { response.isSuccessful || response.code == PRECONDITION_FAILED }
        !response.isSuccessful -> null
        else -> try {
            val source = response.body.source()
            if (source.request(file.bytes.toLong() + 1)) null else source.readByteArray()
        } catch (broken: IOException) {
            null
        }
    }

    fun close() = underWay.keys.forEach(::abort)

    private fun end(call: Call, name: String, input: EdgeInput) {
        // An aborted upload has nothing to report.
        if (underWay.remove(name, call)) news.trySendBlocking(input)
    }

    private class Part(private val put: EdgeOutput.Put, private val sent: (Long) -> Unit) : RequestBody() {
        @Volatile var unreadable: String? = null

        override fun contentType(): MediaType? =
            put.headers.entries.firstOrNull { it.key.equals("content-type", true) }?.value?.toMediaTypeOrNull()

        private fun writeSealed(sink: BufferedSink, sealed: String) {
            val part = try {
                sealedPart(put.path, put.offset, put.bytes, sealed)
            } catch (fault: Fault.Failed) {
                unreadable = fault.reason
                throw IOException(fault.reason)
            }
            for (from in part.indices step CHUNK_BYTES) {
                val count = minOf(CHUNK_BYTES, part.size - from)
                sink.write(part, from, count)
                sent(from.toLong() + count)
            }
        }

        override fun contentLength() = put.bytes.toLong()

        override fun writeTo(sink: BufferedSink) {
            put.sealed?.let { return writeSealed(sink, it) }
            val file = try {
                RandomAccessFile(File(put.path), "r")
            } catch (gone: FileNotFoundException) {
                throw gone.also { unreadable = it.message }
            }
            file.use {
                val chunk = ByteArray(CHUNK_BYTES)
                var left = put.bytes.toLong()
                it.seek(put.offset.toLong())
                while (left > 0) {
                    val count = it.read(chunk, 0, minOf(left, chunk.size.toLong()).toInt())
                    if (count < 0) throw EOFException("the file is shorter than it was").also { e -> unreadable = e.message }
                    sink.write(chunk, 0, count)
                    left -= count
                    sent(put.bytes.toLong() - left)
                }
            }
        }
    }
}
