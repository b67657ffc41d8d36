package dev.pigeonhole

import dev.pigeonhole.ffi.sealFile
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.security.MessageDigest
import java.util.Base64
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.add
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject

/** By the protocol, a file up to this size is one object, and a larger one has parts. */
private const val WHOLE_BYTES_MAX = 16L * 1024 * 1024
private const val PART_BYTES = 8 * 1024 * 1024

/** A file for [Conversation.sendFile]. The file must not change until the message is stored. */
public class Attachment(
    public val file: File,
    /** Its media type. */
    public val mime: String,
    /** `image` (with `width` and `height`), `voice` (with `durationMs`) or `file` (with `name`). */
    public val kind: String = "file",
    public val name: String? = if (kind == "file") file.name else null,
    public val caption: String = "",
    public val width: Int? = null,
    public val height: Int? = null,
    public val durationMs: Long? = null,
    public val thumbhash: String? = null,
    public val waveform: String? = null,
    /** A small image of at most 4 KiB. Only an encrypted message has it. */
    public val thumbnail: ByteArray? = null,
) {
    /** Reads all of the file, for the form in which the outbox has it. */
    internal suspend fun announced(encrypted: Boolean): JsonObject = withContext(Dispatchers.IO) {
        val (sha256, parts) = try {
            file.inputStream().use { hash(it, file.length()) }
        } catch (error: IOException) {
            throw PigeonholeException("file", error.message ?: "the file can't be read")
        }
        buildJsonObject {
            putJsonObject("source") { put("file", file.absolutePath) }
            put("kind", kind)
            put("mime", mime)
            put("bytes", file.length())
            put("sha256", sha256)
            if (parts.isNotEmpty()) putJsonArray("parts") { parts.forEach { add(it) } }
            name?.let { put("name", it) }
            width?.let { put("width", it) }
            height?.let { put("height", it) }
            durationMs?.let { put("duration_ms", it) }
            thumbhash?.let { put("thumbhash", it) }
            waveform?.let { put("waveform", it) }
            thumbnail?.let { put("thumbnail", Base64.getEncoder().encodeToString(it)) }
            if (encrypted) put("sealed", json.parseToJsonElement(public { sealFile(file.path) }))
        }
    }
}

/** SHA-256 as the protocol has it: of the whole, or of the digests of the parts. */
internal fun hash(bytes: InputStream, length: Long): Pair<String, List<String>> {
    fun sha256() = MessageDigest.getInstance("SHA-256")
    val base64 = Base64.getEncoder()
    if (length <= WHOLE_BYTES_MAX) {
        val whole = sha256()
        val chunk = ByteArray(64 * 1024)
        generateSequence { bytes.read(chunk).takeIf { it >= 0 } }.forEach { whole.update(chunk, 0, it) }
        return base64.encodeToString(whole.digest()) to emptyList()
    }
    val parts = generateSequence { bytes.readNBytes(PART_BYTES).takeIf { it.isNotEmpty() } }.map { sha256().digest(it) }.toList()
    val whole = sha256().apply { parts.forEach(::update) }.digest()
    return base64.encodeToString(whole) to parts.map(base64::encodeToString)
}
