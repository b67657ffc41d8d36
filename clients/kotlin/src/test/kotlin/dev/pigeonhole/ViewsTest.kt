// Views over real sockets, against the local server.

package dev.pigeonhole

import dev.pigeonhole.ffi.EdgeInput
import dev.pigeonhole.ffi.Engine
import dev.pigeonhole.ffi.EngineSetup
import dev.pigeonhole.ffi.Fault
import dev.pigeonhole.ffi.NoHandle
import dev.pigeonhole.ffi.Turn
import java.io.File
import java.time.Instant
import java.time.ZoneId
import java.util.TimeZone
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertSame
import kotlin.test.assertTrue
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.filterIsInstance
import kotlinx.coroutines.flow.filterNotNull
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.receiveAsFlow
import kotlinx.coroutines.launch
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import okhttp3.OkHttpClient

private suspend fun <T : Any> View<T>.until(matches: (T) -> Boolean): T = shown.filterNotNull().first(matches)

private val Screen.messages get() = items.filterIsInstance<Item.Message>()

private val Screen.bodies get() = messages.map { it.body }

class ViewsTest {
    private suspend fun LocalServer.offline(user: String) =
        Pigeonhole.open(config(user, Keep.MESSAGES, NOWHERE)) { token(user) }

    @Test
    fun `an own message keeps its key over restart and storing, and is read when the other user has seen it`() = test { server ->
        val offline = server.offline("alice")
        val chat = offline.direct("bob")
        assertEquals("dm_cqnezuscwz7if3puu6f3iggubjvdq4gs", chat.id)
        val waiting = chat.messages()
        val id = chat.send("hi").clientMsgId
        val (day, item) = waiting.items.value
        assertIs<Item.Day>(day)
        assertEquals("c$id" to Progress.Waiting, item.key to (item as Item.Message).progress)
        assertNull(item.seq)
        assertEquals("bob", offline.conversations().until { it.rows.isNotEmpty() }.rows.single().peerId)
        offline.close()

        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.MESSAGES)
        val view = alice.direct("bob").messages()
        val list = bob.conversations()
        assertEquals(1, list.until { it.unread > 0 }.rows.single().unread)
        assertEquals("c$id", view.until { it.messages.single().progress == Progress.Delivered }.messages.single().key)
        val other = bob.direct("alice").messages(At.FirstUnread)
        // The separator comes with the row.
        val unread = other.until { it.items.size == 3 }
        assertEquals(listOf("Day", "Unread", "Message"), unread.items.map { it::class.simpleName })
        other.seen(unread.items.last())
        val read = view.until { it.messages.single().progress == Progress.Read }
        assertEquals(0, list.until { it.unread == 0L }.rows.single().unread)
        bob.direct("alice").reply(1, "hello").stored()
        val both = view.until { it.messages.size == 2 }
        assertEquals("hi", both.messages[1].reply?.message?.body)
        read.items.zip(both.items).forEach { (before, after) -> assertSame(before, after) }
        assertEquals(1, both.unread)
        alice.direct("bob").readAll()
        assertEquals(0, view.until { it.unread == 0L }.chat?.unread)
        alice.close()
        bob.close()
        assertEquals("closed", assertFailsWith<PigeonholeException> { alice.conversations() }.code)
    }

    @Test
    fun `views have the names of users once the app wants them`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = Pigeonhole.open(server.config("bob", Keep.MESSAGES, names = true)) { server.token("bob") }
        alice.setProfile(buildJsonObject { put("name", "Alice") })
        alice.direct("bob").send("hi").stored()
        bob.conversations().until { it.names == mapOf("alice" to "Alice") }
        bob.direct("alice").messages().until { it.names["alice"] == "Alice" }
        assertEquals(emptyMap(), alice.conversations().until { it.rows.isNotEmpty() }.names)
        val group = alice.createGroup("Trip", listOf("bob")).stored().conversationId
        bob.conversation(group).roster().until { it.names["alice"] == "Alice" }
        alice.close()
        bob.close()
    }

    @Test
    fun `a group of encrypted clients has a lock, and its members read it`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES, Keys.generate())
        val bob = server.open("bob", Keep.MESSAGES, Keys.generate())
        // From then on, others can encrypt for the device.
        while (bob.ownDevices().isEmpty()) delay(5)
        val group = alice.createGroup("Trip", listOf("bob")).stored().conversationId
        bob.conversations().until { list -> list.rows.any { it.conversationId == group && it.lock == "sealed" } }
        bob.conversation(group).send("hi").stored()
        val view = alice.conversation(group).messages()
        assertTrue(view.until { it.bodies == listOf("hi") }.messages.single().isSealed)
        alice.resetGroup(group)
        bob.events.filterIsInstance<Event.Security>().first { it.what == "reset" }
        alice.conversation(group).send("again").stored()
        assertEquals(listOf("hi", "again"), view.until { it.messages.size == 2 }.bodies)
        alice.close()
        bob.close()
    }

    @Test
    fun `without a network, list, conversations, drafts and search come from the store`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.OUTBOX)
        bob.direct("alice").send("tickets to the sea?").stored()
        bob.direct("alice").send("or mountains").stored()
        val group = bob.createGroup("Trip", listOf("alice")).stored().conversationId
        alice.conversations().until { list -> list.rows.any { it.conversationId == group } && list.unread == 2L }
        bob.close()
        alice.close()

        val offline = server.offline("alice")
        val list = offline.conversations()
        assertEquals(listOf("Trip", "bob"), list.until { it.rows.size == 2 }.rows.map { it.title ?: it.peerId })
        assertEquals("or mountains", list.rows.value[1].line?.text)
        list.select(Filter(words = "tri"))
        assertEquals(group, list.until { it.rows.size == 1 }.rows.single().conversationId)
        list.select(Filter(kinds = listOf("direct")))
        offline.direct("bob").draft("the s")
        assertEquals(Draft("the s"), list.until { it.rows.singleOrNull()?.draft != null }.rows.single().draft)
        val view = offline.conversation(offline.direct("bob").id).messages()
        assertEquals(listOf("tickets to the sea?", "or mountains"), view.until { it.messages.size == 2 }.bodies)
        assertEquals(listOf("tickets to the sea?"), offline.search("SEA tick").map { it.body })
        view.close()
        offline.direct("bob").send("the sea").clientMsgId
        list.until { it.rows.single().line?.text == "the sea" }
        assertEquals(2, view.items.value.filterIsInstance<Item.Message>().size)
        offline.close()
    }

    @Test
    fun `older messages come from the server on demand, and a view jumps and follows`() = test { server ->
        val bob = server.open("bob", Keep.OUTBOX)
        val last = (1..60).map { bob.direct("alice").send("message $it") }.last()
        assertEquals(60, last.stored().seq)
        bob.close()
        // Another device of bob's, which keeps nothing.
        val config = server.config("bob", Keep.MESSAGES).run { Config(url, userId) }
        val device = Pigeonhole.open(config) { server.token("bob") }
        val view = device.direct("alice").messages()
        val newest = view.until { it.messages.size == 50 && it.hasOlder }
        assertEquals("message 11", newest.bodies.first())
        view.older()
        val all = view.until { it.messages.size == 60 && !it.hasOlder }
        assertEquals("message 1", all.bodies.first())
        view.jump(At.Seq(5))
        val around = view.until { it.hasNewer }
        assertTrue("message 5" in around.bodies && "message 60" !in around.bodies)
        view.newer()
        assertEquals("message 60", view.until { !it.hasNewer }.bodies.last())
        device.close()
    }

    @Test
    fun `a refused message stays over a restart until it is dismissed or sent again`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.OUTBOX)
        val toBob = alice.direct("bob")
        toBob.send("hi").stored()
        bob.block("alice", true)
        val refused = toBob.send("are you there?")
        val code = assertFailsWith<PigeonholeException> { refused.stored() }.code
        val other = toBob.send("hello?")
        assertFailsWith<PigeonholeException> { other.stored() }
        alice.close()

        val offline = server.offline("alice")
        val view = offline.direct("bob").messages()
        val failed = view.until { it.messages.size == 3 }.messages.drop(1)
        assertEquals(listOf(refused, other).map { "c${it.clientMsgId}" }, failed.map { it.key })
        failed.forEach { assertEquals(Progress.Failed(code, canHelp = true), it.progress) }
        offline.dismiss(other.clientMsgId)
        view.until { it.messages.size == 2 }
        offline.close()

        bob.block("alice", false)
        val again = server.open("alice", Keep.MESSAGES)
        assertEquals(2, again.again(refused.clientMsgId).stored().seq)
        val stored = again.direct("bob").messages().until { it.messages.size == 2 }.messages[1]
        assertEquals("c${refused.clientMsgId}" to 2L, stored.key to stored.seq)
        val unknown = assertFailsWith<PigeonholeException> { again.again(other.clientMsgId).stored() }
        assertEquals("bad_request", unknown.code)
        again.close()
        bob.close()
    }

    @Test
    fun `a file, who is typing and who is online`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.MESSAGES)
        val plan = File(server.folder, "plan.txt").apply { writeText("Sea, then mountains") }
        val toBob = alice.direct("bob").messages()
        alice.direct("bob").sendFile(Attachment(plan, "text/plain", caption = "the plan"))
        val upload = toBob.items.value.filterIsInstance<Item.Message>().single().upload
        assertEquals(plan.absolutePath, upload?.source?.file)
        bob.conversations().until { it.rows.isNotEmpty() }
        val view = bob.direct("alice").messages()
        val media = view.until { it.messages.isNotEmpty() }.messages.single().media!!
        val copy = File(server.folder, "copy.txt")
        bob.download(media, copy)
        assertEquals("Sea, then mountains", copy.readText())
        copy.delete()
        val wrong = media.copy(sha256 = "A".repeat(43) + "=")
        assertEquals("file", assertFailsWith<PigeonholeException> { bob.download(wrong, copy) }.code)
        assertEquals(emptyList(), server.folder.list()!!.filter { it.startsWith("copy") })
        view.until { it.chat?.presence?.online == true }
        alice.direct("bob").typing()
        assertEquals(listOf("alice"), view.until { it.chat?.typing?.isNotEmpty() == true }.chat?.typing)
        alice.direct("bob").delete(1).stored()
        assertEquals("alice", view.until { it.messages.single().media == null }.messages.single().deletedBy)
        assertEquals("gone", assertFailsWith<PigeonholeException> { bob.download(media, copy) }.code)
        alice.close()
        view.until { it.chat?.presence?.online == false }
        bob.close()
    }

    @Test
    fun `a downloaded file stays over a restart, until its message is deleted`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.MESSAGES)
        val plan = File(server.folder, "plan.txt").apply { writeText("Sea, then mountains") }
        alice.direct("bob").sendFile(Attachment(plan, "text/plain", caption = "the plan")).stored()
        val chat = bob.direct("alice")
        val view = chat.messages()
        val item = view.until { it.messages.isNotEmpty() }.messages.single()
        assertNull(item.path)
        val file = chat.attachment(item)
        assertEquals(File(server.folder, "bob/media/${chat.id}-1"), file)
        assertEquals("Sea, then mountains", file.readText())
        assertEquals(file, view.until { it.messages.single().path != null }.messages.single().path)
        val part = File(file.parentFile, "${chat.id}-2123.part").apply { createNewFile() }
        bob.close()

        val offline = server.offline("bob")
        assertEquals(false, part.exists())
        val message = offline.search("plan").single()
        assertEquals(file, offline.attachment(message))
        val kept = offline.direct("alice").messages().until { it.messages.isNotEmpty() }.messages.single()
        assertEquals(file, kept.path)
        assertEquals(file, offline.direct("alice").attachment(kept))
        offline.close()

        val again = server.open("bob", Keep.MESSAGES)
        val shown = again.direct("alice").messages()
        alice.direct("bob").delete(1).stored()
        assertNull(shown.until { it.messages.singleOrNull()?.deletedBy != null }.messages.single().path)
        while (file.exists()) delay(10)
        assertEquals("gone", assertFailsWith<PigeonholeException> { again.attachment(message) }.code)
        assertEquals("bad_request", assertFailsWith<PigeonholeException> { again.attachment(message.copy(media = null)) }.code)
        again.close()
        val bot = server.open("bob", Keep.OUTBOX)
        assertEquals("config", assertFailsWith<PigeonholeException> { bot.attachment(message) }.code)
        bot.close()
        alice.close()
    }

    @Test
    fun `members come and go, and get roles and marks`() = test { server ->
        val alice = server.open("alice", Keep.MESSAGES)
        val bob = server.open("bob", Keep.MESSAGES)
        val group = alice.conversation(alice.createGroup("Trip", listOf("bob")).stored().conversationId)
        val view = alice.conversation(group.id).roster()
        val roles = { roster: RosterSnapshot -> roster.members.map { it.userId to it.role } }
        val both = view.until { it.members.size == 2 }
        assertEquals(group.id to listOf("alice" to "owner", "bob" to "member"), both.conversationId to roles(both))
        group.add(listOf("carol")).stored()
        val all = view.until { it.members.size == 3 }
        assertEquals(MemberRow("carol", "member", 2, 0, 0), all.members[2])
        assertEquals(all.members, view.members.value)
        val seq = group.send("tickets?").stored().seq
        bob.conversations().until { it.unread == 1L }
        bob.conversation(group.id).read(seq)
        val read = view.until { it.members[1].readSeq == seq }
        assertEquals(seq, read.members[1].deliveredSeq)
        assertSame(all.members[2], read.members[2])
        group.role("carol", "admin").stored()
        assertEquals(listOf("alice", "carol", "bob"), view.until { it.members[1].role == "admin" }.members.map { it.userId })
        group.remove("bob").stored()
        view.until { it.members.size == 2 }
        // The server's list, for the store.
        alice.conversation(group.id).roster().until { "carol" to "admin" in roles(it) }
        alice.close()

        val offline = server.offline("alice")
        val known = offline.conversation(group.id).roster().until { it.members.isNotEmpty() }
        assertEquals(listOf("alice" to "owner", "carol" to "admin"), roles(known))
        offline.close()
        bob.close()
    }

    @Test
    fun `a reader has what the client next to it has stored`() = test { server ->
        val folder = File(server.folder, "bob")
        assertEquals("store", assertFailsWith<PigeonholeException> { Reader.open(folder, "bob") }.code)
        val alice = server.open("alice", Keep.OUTBOX)
        val bob = server.open("bob", Keep.MESSAGES)
        alice.direct("bob").send("are you there?").stored()
        val chat = bob.direct("alice")
        val list = bob.conversations()
        list.until { it.unread == 1L }
        assertEquals("wrong_user", assertFailsWith<PigeonholeException> { Reader.open(folder, "alice") }.code)
        val reader = Reader.open(folder, "bob")
        assertEquals(Notice("alice", "alice", "are you there?"), reader.notice(chat.id, 1))
        assertEquals(Notice("alice", null, null), reader.notice(chat.id, 2))
        assertEquals(1, reader.unread())
        assertEquals(listOf("alice" to 1L), reader.chats().map { it.peerId to it.unread })
        alice.direct("bob").send("hello?").stored()
        list.until { it.unread == 2L }
        assertEquals(listOf("are you there?", "hello?"), reader.messages(chat.id).map { it.body })
        assertEquals(listOf("are you there?"), reader.messages(chat.id, before = 2).map { it.body })
        assertEquals(listOf("hello?"), reader.messages(chat.id, limit = 1).map { it.body })
        chat.read(1)
        assertNull(reader.notice(chat.id, 1))
        alice.direct("bob").delete(2).stored()
        list.until { it.unread == 0L }
        assertNull(reader.notice(chat.id, 2))
        assertEquals("bad_request", assertFailsWith<PigeonholeException> { reader.notice("two words", 1) }.code)
        reader.close()
        assertEquals("closed", assertFailsWith<PigeonholeException> { reader.unread() }.code)
        alice.close()
        bob.close()
    }

    @Test
    fun `days are those of the device's time zone, also after a journey`() = test { server ->
        val home = TimeZone.getDefault()
        try {
            TimeZone.setDefault(TimeZone.getTimeZone("Pacific/Kiritimati"))
            val alice = server.offline("alice")
            val view = alice.direct("bob").messages()
            alice.direct("bob").send("hi")
            val (day, message) = view.until { it.items.size == 2 }.items
            val at = (message as Item.Message).at
            assertEquals(at.atZone(ZoneId.systemDefault()).toLocalDate(), (day as Item.Day).day)
            // A whole day's distance.
            TimeZone.setDefault(TimeZone.getTimeZone("Pacific/Pago_Pago"))
            alice.wake()
            val there = view.until { it.items[0] != day }.items[0]
            assertEquals(at.atZone(ZoneId.systemDefault()).toLocalDate(), (there as Item.Day).day)
            alice.close()
        } finally {
            TimeZone.setDefault(home)
        }
    }

    @Test
    fun `a new engine draws the views that are open`() = test { server ->
        val scope = CoroutineScope(SupervisorJob() + Dispatchers.IO)
        val config = server.config("alice", Keep.MESSAGES).also { it.folder?.mkdirs() }
        var opened = 0
        val engine = { Breaking(Engine.open(EngineSetup(config.folder?.path, true, "alice", 1u, emptyMap(), null)), ++opened == 1) }
        val loop = Loop(engine, config, "device", OkHttpClient(), scope) { server.token("alice") }
        val running = scope.launch { loop.run() }
        val chats = loop.open(ChatList(loop, Filter()))
        val view = loop.open(MessagesView(loop, buildJsonObject { put("to", "bob") }, At.Newest))
        view.until { it.items.isEmpty() }
        loop.say(EdgeInput.Draft("""{"to": "bob"}""", """{"body": "it breaks here"}"""))
        loop.events.receiveAsFlow().filterIsInstance<Event.Restarted>().first()
        val request = """{"client_msg_id": "m1", "target": {"to": "bob"}, "body": "still here"}"""
        loop.ask { EdgeInput.Keep(it, request) }
        assertEquals("cm1", view.until { it.messages.isNotEmpty() }.messages.single().key)
        assertEquals("still here", chats.until { it.rows.isNotEmpty() }.rows.single().line?.text)
        assertEquals(2, opened)
        loop.say(EdgeInput.Closing)
        running.join()
        scope.cancel()
    }

    /** An engine whose first draft ends it, as a panic does. */
    private class Breaking(private val engine: Engine, private val breaks: Boolean) : Engine(NoHandle) {
        override fun turn(inputs: List<EdgeInput>, now: ULong, wall: Long): Turn {
            if (breaks && inputs.any { it is EdgeInput.Draft }) throw Fault.Failed("broken", "on purpose", false)
            return engine.turn(inputs, now, wall)
        }

        override fun flush() = engine.flush()

        override fun close() = engine.close()
    }

    @Test
    fun `the offsets of a zone are those of its transitions`() {
        val now = Instant.parse("2026-11-20T10:00:00Z")
        val berlin = offsetsOf(ZoneId.of("Europe/Berlin"), now)
        assertEquals(3600, berlin[Instant.parse("2026-10-25T01:00:00Z").toEpochMilli()])
        assertEquals(7200, berlin[Instant.parse("2027-03-28T01:00:00Z").toEpochMilli()])
        assertEquals(3600, berlin[Instant.parse("2016-11-20T10:00:00Z").toEpochMilli()])
        assertEquals(listOf(0), offsetsOf(ZoneId.of("UTC"), now).values.toList())
    }
}
