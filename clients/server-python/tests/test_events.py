import json
import unittest

from pigeonhole_server import Follower, NotAnEventError, each_of_batch, parse_event


def entry(seq, conversation_id="dm_x"):
    message = {"conversation_id": conversation_id, "seq": seq, "message_id": f"m{seq}", "sender_id": "alice"}
    message |= {"sent_at": "2026-11-20T10:00:00.000Z", "kind": "text", "body": f"text {seq}"}
    conversation = {"conversation_id": conversation_id, "kind": "direct", "members": ["alice", "bob"]}
    event = {"v": 1, "type": "entry", "id": f"{conversation_id}:{seq}", "stack": "pigeonhole"}
    return event | {"conversation": conversation, "message": message}


class Events(unittest.TestCase):
    def test_an_event_comes_as_a_text_as_an_object_and_in_eventbridges(self):
        event = entry(1)
        for got in (json.dumps(event), json.dumps(event).encode(), event, {"source": "pigeonhole", "detail": event}):
            self.assertEqual(parse_event(got), event)
        self.assertIsNone(parse_event(event | {"type": "later"}))
        unreadable = event | {"message": {"conversation_id": "dm_x", "seq": 1}}
        self.assertEqual(parse_event(unreadable), unreadable)

    def test_what_is_no_event_names_its_field(self):
        event = entry(1)
        wrong = [
            ("no JSON", "the event is no JSON"),
            ("[]", "the event must be an object"),
            (event | {"v": 2}, "v must be 1"),
            (event | {"id": ""}, "id must be a text"),
            (event | {"message": event["message"] | {"seq": 0}}, "message.seq must be a number from 1 on"),
            (event | {"message": event["message"] | {"seq": True}}, "message.seq must be a number from 1 on"),
            (event | {"message": event["message"] | {"sender_id": 7}}, "message.sender_id must be a text"),
            (event | {"message": entry(1, "dm_y")["message"]}, "message.conversation_id must be the conversation's"),
            (event | {"type": "report"}, "report_id must be a text"),
            (event | {"type": "job"}, "job_id must be a text"),
        ]
        for got, problem in wrong:
            with self.assertRaises(NotAnEventError) as caught:
                parse_event(got)
            self.assertEqual(str(caught.exception), problem)

    def test_after_a_failure_no_further_entry_of_its_conversation_is_processed(self):
        taken = []

        def take(event):
            if event["id"] == "dm_x:2":
                raise RuntimeError("the index is down")
            taken.append(event["id"])

        events = [entry(1), entry(2), entry(3), entry(1, "dm_y"), {"v": 1}]
        records = [{"messageId": f"r{place}", "body": json.dumps(event)} for place, event in enumerate(events)]
        with self.assertLogs("pigeonhole_server") as logged:
            answer = each_of_batch({"Records": records}, take)
        self.assertEqual(taken, ["dm_x:1", "dm_y:1"])
        self.assertEqual([failure["itemIdentifier"] for failure in answer["batchItemFailures"]], ["r1", "r2", "r4"])
        self.assertEqual(len(logged.records), 2)

    def test_a_follower_knows_what_has_come_in_any_order_and_what_lacks(self):
        follower = Follower({"dm_x": 3})
        self.assertTrue(follower.has(entry(3)))
        for seq in (4, 8, 6, 8, 2, 9):
            follower.add(entry(seq), 1000 + seq)
        self.assertEqual([follower.has(entry(seq)) for seq in range(4, 9)], [True, False, True, False, True])
        self.assertEqual(follower.holes(1005), [])
        self.assertEqual(follower.holes(1006), [("dm_x", 5, 5)])
        self.assertEqual(follower.holes(1009), [("dm_x", 5, 5), ("dm_x", 7, 7)])
        self.assertEqual(follower.lasts(), {"dm_x": 4})
        follower.add(entry(5), 1010)
        follower.add(entry(7), 1010)
        self.assertEqual(follower.lasts(), {"dm_x": 9})
        self.assertEqual(follower.holes(2000), [])

    def test_a_conversation_begins_with_the_entry_that_comes_first(self):
        follower = Follower()
        follower.add(entry(42))
        self.assertEqual([follower.has(entry(seq)) for seq in range(40, 44)], [False, False, True, False])
        follower.add(entry(41))
        self.assertEqual((follower.holes(), follower.lasts()), ([], {"dm_x": 42}))
