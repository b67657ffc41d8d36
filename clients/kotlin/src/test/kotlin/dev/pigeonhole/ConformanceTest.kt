package dev.pigeonhole

import java.io.File
import kotlin.test.assertEquals
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** The scripts of the session. */
private val FILES = listOf(
    "catching-up", "changing", "channels", "connecting", "groups", "media", "receiving", "registering", "replacing",
    "sending", "services", "settings",
)

/** Scripts of parts of the core that the engine does not export one by one. */
private val NOT_EXPORTED = listOf("chat", "search", "store", "timeline")

private val CAUGHT_UP = listOf(
    """{"dials": {"need": "connect"}}""",
    """{"told": {"state": "connecting"}}""",
    """{"open": {}}""",
    """{"told": {"state": "online"}}""",
    """{"asks": {"action": "drain"}, "result": {"messages": [], "more": false}}""",
    """{"asks": {"action": "inbox", "limit": 50}, "result": {"conversations": [], "next_cursor": null}}""",
    """{"told": {"state": "caught_up"}}""",
).map { json.parseToJsonElement(it).jsonObject }

class ConformanceTest {
    @TestFactory
    fun `every script is played through the library`(): List<DynamicTest> {
        val found = File("conformance").list()!!.filter { it.endsWith(".yaml") }.map { it.removeSuffix(".yaml") }
        assertEquals((FILES + NOT_EXPORTED).toSet(), found.toSet())
        return FILES.map { name ->
            DynamicTest.dynamicTest(name) {
                for (scenario in scenarios(name)) {
                    for (steps in variants(scenario)) {
                        Play(scenario).use { play ->
                            if ("begin" in scenario) CAUGHT_UP.forEach(play::take)
                            steps.forEach(play::take)
                            play.nothingElse("at the end")
                        }
                    }
                }
            }
        }
    }
}
