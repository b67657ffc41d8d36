package dev.pigeonhole

import java.io.File
import java.net.InetAddress
import java.net.ServerSocket
import java.nio.file.Files
import java.security.MessageDigest
import java.util.Base64
import kotlin.concurrent.thread
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.time.Duration
import kotlinx.coroutines.runBlocking
import okhttp3.OkHttpClient

class DownloadTest {
    private val sha256 = Base64.getEncoder().encodeToString(MessageDigest.getInstance("SHA-256").digest("hello".toByteArray()))
    private val hello = Media("m_1", "text/plain", 5, sha256)

    /** Replies to each connection with the next response. Returns the range of each request, and the files. */
    private fun download(vararg responses: String, media: Media = hello): Pair<List<String?>, List<String>> {
        val folder = Files.createTempDirectory("pigeonhole-download").toFile()
        val ranges = ArrayList<String?>()
        ServerSocket(0, 9, InetAddress.getLoopbackAddress()).use { socket ->
            val serving = thread {
                for (response in responses) {
                    socket.accept().use {
                        val head = generateSequence(it.getInputStream().bufferedReader()::readLine).takeWhile(String::isNotEmpty)
                        ranges += head.toList().find { line -> line.startsWith("Range: ") }?.removePrefix("Range: ")
                        it.getOutputStream().write("HTTP/1.1 $response".toByteArray())
                    }
                }
            }
            try {
                val url = "http://127.0.0.1:${socket.localPort}/object"
                runBlocking { Download(OkHttpClient(), media, File(folder, "to"), Duration.ZERO).run { url } }
                serving.join()
                assertEquals("hello", File(folder, "to").readText())
            } catch (refused: PigeonholeException) {
                serving.join()
                assertEquals("file", refused.code)
            }
        }
        return ranges to folder.list()!!.toList().also { folder.deleteRecursively() }
    }

    private fun whole(body: String) = "200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n$body"

    @Test
    fun `a broken download resumes where it stopped`() {
        val no = "403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        val rest = "206 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nlo"
        assertEquals(listOf(null, "bytes=3-", "bytes=3-") to listOf("to"), download(whole("hello".take(3)), no, rest))
        // All of the file, in place of its end.
        assertEquals(listOf(null, "bytes=3-") to listOf("to"), download(whole("hello".take(3)), whole("hello")))
    }

    @Test
    fun `a file that is not the message's never appears`() {
        assertEquals(listOf(null) to emptyList(), download(whole("hallo")))
        assertEquals(listOf(null) to emptyList(), download(whole("hello"), media = hello.copy(bytes = 4)))
        val never = Array(5) { "500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" }
        assertEquals(List(5) { null } to emptyList(), download(*never))
    }

    @Test
    fun `a folder that does not exist takes no file`() {
        val nowhere = Download(OkHttpClient(), hello, File("/nowhere/at/all"), Duration.ZERO)
        assertEquals("file", assertFailsWith<PigeonholeException> { runBlocking { nowhere.run { "http://127.0.0.1:1" } } }.code)
    }
}
