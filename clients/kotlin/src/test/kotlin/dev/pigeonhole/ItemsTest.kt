package dev.pigeonhole

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertNotSame
import kotlin.test.assertSame
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject

class ItemsTest {
    private fun item(fields: String) = itemOf(json.parseToJsonElement(fields).jsonObject)

    private fun message(progress: String) =
        """{"key": "c1", "type": "message", "sender_id": "alice", "at": "2026-11-20T10:00:00.000Z", "kind": "text",
        "body": "hi", "progress": $progress, "run": {"is_first": true, "is_last": true}, "later": 1}"""

    @Test
    fun `an item of a later version is another one`() {
        assertEquals(Item.Other("p1", null), item("""{"key": "p1", "type": "poll", "question": "?"}"""))
        // A known one that lacks what this version needs.
        assertEquals(Item.Other("s1", null), item("""{"key": "s1", "type": "gap"}"""))
        assertEquals(Item.Other("d1", null), item("""{"key": "d1", "type": "day", "day": "today"}"""))
        assertEquals("hi", (item(message("null")) as Item.Message).body)
        val other = """{"key": "s2", "type": "other", "conversation_id": "dm_ab", "seq": 2, "message_id": "m",
            "sender_id": "bob", "kind": "x-poll", "body": "a poll", "sent_at": "2026-11-20T10:00:00.000Z"}"""
        assertEquals("x-poll", (item(other) as Item.Other).message?.kind)
    }

    @Test
    fun `every progress has a type, and that of a later version is another one`() {
        for ((state, progress) in listOf(
            "waiting" to Progress.Waiting, "stored" to Progress.Stored, "delivered" to Progress.Delivered,
            "read" to Progress.Read, "translated" to Progress.Other("translated"),
        )) {
            assertEquals(progress, (item(message("""{"state": "$state"}""")) as Item.Message).progress)
        }
        val uploading = message("""{"state": "uploading", "done": 1, "of": 2}""")
        assertEquals(Progress.Uploading(1, 2), (item(uploading) as Item.Message).progress)
        val failed = message("""{"state": "failed", "code": "gone", "can_help": false}""")
        assertEquals(Progress.Failed("gone", canHelp = false), (item(failed) as Item.Message).progress)
    }

    @Test
    fun `only what changed is a new object`() {
        val drawn = Drawn(read = ::itemOf)
        fun draw(first: Int, second: Int) = drawn.all(
            json.parseToJsonElement(
                """[{"key": "u", "type": "unread", "count": $first}, {"key": "g1", "type": "gap", "after_seq": $second,
                "before_seq": 9}]""",
            ).jsonArray,
        )
        val before = draw(1, 3)
        val after = draw(1, 4)
        assertSame(before[0], after[0])
        assertNotSame(before[1], after[1])
        assertEquals(Item.Gap("g1", 4, 9), after[1])
    }
}
