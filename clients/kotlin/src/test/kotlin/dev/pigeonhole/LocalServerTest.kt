// Clients over real sockets, against the local server that `cargo build --bin pigeonhole` builds.

package dev.pigeonhole

import java.io.File
import java.util.concurrent.ConcurrentLinkedQueue
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlinx.coroutines.flow.filterIsInstance
import kotlinx.coroutines.flow.first
import okhttp3.OkHttpClient

class LocalServerTest {
    private suspend fun Pigeonhole.entry(matches: (Message) -> Boolean): Message =
        events.filterIsInstance<Event.Entry>().first { matches(it.message) }.message

    @Test
    fun `a message goes from one client to another, and its ticks come back`() = test { server ->
        val alice = server.open("alice", Keep.OUTBOX)
        val bob = server.open("bob", Keep.OUTBOX)
        val stored = alice.direct("bob").send("hi").stored()
        assertEquals(1, stored.seq)
        assertEquals("hi", bob.entry { it.senderId == "alice" }.body)
        bob.direct("alice").reply(1, "hello").stored()
        assertEquals(1, alice.entry { it.senderId == "bob" }.replyTo)
        bob.direct("alice").read(1)
        assertEquals(1, alice.events.filterIsInstance<Event.Receipt>().first { it.kind == "read" }.seq)
        val chat = alice.direct("bob")
        chat.edit(1, "hi!").stored()
        chat.react(2, "👍").stored()
        val page = chat.history()
        assertEquals(listOf("hi!" to 2L, "hello" to null), page.messages.filter { it.isMessage }.map { it.body to it.version })
        assertEquals(listOf(Reaction("👍", 1, true)), page.messages[1].reactions)
        chat.delete(1).stored()
        assertEquals("alice", chat.history().messages[0].deletedBy)
        assertEquals("dm_", alice.chats().conversations.single().conversationId.take(3))
        assertEquals("config", assertFailsWith<PigeonholeException> { alice.conversations() }.code)
        alice.close()
        bob.close()
        assertEquals(State.Closed, alice.state.value)
        assertEquals("closed", assertFailsWith<PigeonholeException> { chat.send("late") }.code)
        assertEquals("closed", assertFailsWith<PigeonholeException> { alice.outbox() }.code)
    }

    @Test
    fun `requests go over HTTP, and by the socket without it`() = test { server ->
        val bob = server.open("bob", Keep.OUTBOX)
        val posts = ConcurrentLinkedQueue<String>()
        val http = OkHttpClient.Builder().addInterceptor { chain ->
            if (chain.request().method == "POST") posts += chain.request().url.toString()
            chain.proceed(chain.request())
        }.build()
        val works = server.url.replaceFirst("ws", "http").removeSuffix("/v1")
        for (url in listOf(works, "http://127.0.0.1:1")) {
            val place = File(server.folder, "alice ${url.takeLast(1)}")
            val config = Config(server.url, "alice", place, Keep.OUTBOX, http = http, httpUrl = url)
            val alice = Pigeonhole.open(config) { server.token("alice") }
            alice.direct("bob").send(url).stored()
            assertEquals(url, bob.entry { it.isMessage }.body)
            alice.close()
        }
        assertEquals(1, posts.count { it == "$works/v1/send" })
        val config = Config(server.url, "alice", httpUrl = "nowhere")
        assertEquals("config", assertFailsWith<PigeonholeException> { Pigeonhole.open(config) { "" } }.code)
        bob.close()
    }

    @Test
    fun `a message that was sent offline survives a restart`() = test { server ->
        val nowhere = server.config("alice", Keep.OUTBOX, NOWHERE)
        val offline = Pigeonhole.open(nowhere) { server.token("alice") }
        offline.direct("bob").send("from the cellar")
        offline.state.first { it is State.Offline && it.why == "unreachable" }
        assertEquals(1, offline.outbox().size)
        assertEquals("locked", assertFailsWith<PigeonholeException> { Pigeonhole.open(nowhere) { "" } }.code)
        offline.close()
        val alice = server.open("alice", Keep.OUTBOX)
        val bob = server.open("bob", Keep.OUTBOX)
        assertEquals("from the cellar", bob.entry { it.isMessage }.body)
        alice.close()
        bob.close()
    }

    @Test
    fun `groups, channels and files`() = test { server ->
        val alice = server.open("alice", Keep.OUTBOX)
        val bob = server.open("bob", Keep.OUTBOX)
        val group = alice.conversation(alice.createGroup("Trip", listOf("bob")).stored().conversationId)
        assertEquals("created", bob.entry { it.kind == "system" }.system?.event)
        group.send("@bob, tickets?", mentions = listOf("bob")).stored()
        assertEquals(listOf("bob"), bob.entry { it.isMessage }.mentions)
        assertEquals(listOf("carol"), group.add(listOf("carol")).stored().added)
        assertEquals(setOf("alice", "bob", "carol"), group.members().members.map { it.userId }.toSet())
        val picture = File(server.folder, "plan.txt").apply { writeText("Sea, then mountains") }
        group.sendFile(Attachment(picture, "text/plain", caption = "the plan")).stored()
        val media = bob.entry { it.kind == "file" }.media!!
        assertEquals("plan.txt" to 19L, media.name to media.bytes)
        val copy = File(server.folder, "copy.txt")
        bob.download(media, copy)
        assertEquals("Sea, then mountains", copy.readText())
        val id = alice.createChannel("News", set = GroupSettings(join = "open")).stored().conversationId
        val channel = bob.join(id)
        channel.watch()
        alice.conversation(id).send("first post").stored()
        assertEquals("first post", bob.entry { it.conversationId == id && it.isMessage }.body)
        assertEquals(id, bob.channels().conversations.single().conversationId)
        assertEquals("forbidden", assertFailsWith<PigeonholeException> { channel.send("me too").stored() }.code)
        alice.close()
        bob.close()
    }

    @Test
    fun `a client whose app names the device makes its folder`() = test { server ->
        val place = File(server.folder, "new/alice")
        Pigeonhole.open(Config(server.url, "alice", place, deviceId = "phone")) { server.token("alice") }.close()
        assertEquals(true, File(place, "store").exists())
    }

    @Test
    fun `a client that was killed as it named its device starts again`() = test { server ->
        val place = File(server.folder, "alice").apply { mkdirs() }
        File(place, "device").createNewFile()
        server.open("alice", Keep.OUTBOX).close()
        assertEquals(36, File(place, "device").length())
        assertEquals(false, File(place, "device.new").exists())
    }

    @Test
    fun `the token of another user dials nothing`() = test { server ->
        val alice = Pigeonhole.open(server.config("alice", Keep.OUTBOX)) { server.token("bob") }
        val offline = alice.state.first { it is State.Offline } as State.Offline
        assertEquals("wrong_user", offline.why)
        alice.close()
    }

    @Test
    fun `a damaged store is set aside, and the client goes on`() = test { server ->
        val alice = server.open("alice", Keep.OUTBOX)
        alice.state.first { it == State.CaughtUp }
        alice.close()
        File(server.folder, "alice/store").writeBytes(ByteArray(8192) { 7 })
        val again = server.open("alice", Keep.OUTBOX)
        assertEquals(true, File(again.events.filterIsInstance<Event.SetAside>().first().path).exists())
        again.direct("bob").send("still here").stored()
        again.close()
    }
}
