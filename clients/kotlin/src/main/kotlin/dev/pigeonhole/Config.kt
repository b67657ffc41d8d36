package dev.pigeonhole

import dev.pigeonhole.ffi.Fault
import dev.pigeonhole.ffi.generateKeys
import java.io.File
import kotlin.time.Duration
import okhttp3.OkHttpClient

/** Where to connect, as which user, and what to keep where. */
public class Config(
    /** The WebSocket API, its stage included: `wss://….amazonaws.com/v1`. */
    public val url: String,
    /** The user that the tokens are for (their `sub`). */
    public val userId: String,
    /** A folder of this user and installation alone, which is created. `null`: nothing survives the client. */
    public val folder: File? = null,
    /** Messages, or the outbox alone. */
    public val keep: Keep = Keep.MESSAGES,
    /** Names this installation: 1 to 64 of `A-Za-z0-9_-`. Default: random, and kept in the folder. */
    public val deviceId: String? = null,
    /** The app's own HTTP client, for its certificates and proxies. */
    public val http: OkHttpClient? = null,
    /** Other times than the usual ones, for tests: `ack_every` and the others of the core's `Timing`. */
    public val timing: Map<String, Duration> = emptyMap(),
    /** Encrypts direct conversations and new groups from end to end. Needs a folder and [Keep.MESSAGES]. */
    public val encrypted: Keys? = null,
    /** The snapshots of views have the names of the users in them, if the server has profiles. */
    public val names: Boolean = false,
    /**
     * The stack's `HttpUrl`, if its `HttpApi` is on. Requests then go over HTTP, which costs less, while HTTP works. Events
     * come by the socket alone.
     */
    public val httpUrl: String? = null,
)

/**
 * The private key of a user's identity. Its holder is the user, so an app keeps it in the Android Keystore or alike. All
 * devices of a user have the same.
 */
public class Keys private constructor(private val seed: ByteArray) {
    /** Returns the 32 bytes to keep, or to carry to another device of the user. */
    public fun export(): ByteArray = seed.copyOf()

    public companion object {
        /** Makes a new identity. */
        public fun generate(): Keys = Keys(public { generateKeys() })

        /** Takes what [export] returned. */
        public fun import(seed: ByteArray): Keys = Keys(seed.copyOf())
    }
}

/** A device of the user that has keys. `known` is false if it has another identity than the user. */
@kotlinx.serialization.Serializable
public data class OwnDevice(val device: String, val known: Boolean, val left: Long, val seenAt: Timestamp)

/** The content of the client's store, which survives a restart in a folder. */
public enum class Keep {
    /** Messages, the chat list and the outbox, for views. The client acknowledges a message once the store has it. */
    MESSAGES,

    /** The outbox, for a bot, or an app with a store of its own. [Pigeonhole.events] acknowledges the messages. */
    OUTBOX,
}

/** The token that a connection takes. */
public enum class TokenNeed {
    /** A cached one will do. */
    CONNECT,

    /** The server refused the last one: get a new one. */
    REFUSED,

    /** The last one has expired, or is about to: get a new one. */
    EXPIRED,
    ;

    internal companion object {
        fun of(need: dev.pigeonhole.ffi.TokenNeed) = valueOf(need.name)
    }
}

/**
 * A permanent failure; the client retries temporary ones itself. `code` is one of the protocol, such as `not_member`, or
 * `config`, `bad_request`, `too_large`, `file`, `cancelled`, `unwatched`, `closed`, `store`, `locked`, `newer`,
 * `wrong_user`, `broken`.
 */
public class PigeonholeException(public val code: String, reason: String) : Exception("$reason ($code)")

/** Makes a fault of the engine an exception of the client. */
internal inline fun <T> public(call: () -> T): T = try {
    call()
} catch (fault: Fault.Failed) {
    throw PigeonholeException(fault.code, fault.reason)
} catch (destroyed: IllegalStateException) {
    throw PigeonholeException("closed", "the client or the reader is closed")
}
