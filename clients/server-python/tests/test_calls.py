import http.server
import json
import threading
import unittest

from pigeonhole_server import Admin, Queue, RefusedError, Service, over_http

MESSAGE = {"to": "bob", "client_msg_id": "m1", "body": "hi"}
ENTRY = {"conversation_id": "dm_x", "seq": 1, "message_id": "m", "sent_at": "2026-11-20T10:00:00.000Z"}


class Server:
    """Returns these replies one after another, and notes the requests."""

    def __init__(self, *replies):
        self.requests, self.replies = [], list(replies)
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                served.requests.append((self.path, self.headers["Authorization"], body))
                status, reply = served.replies.pop(0)
                text = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Calls(unittest.TestCase):
    def test_a_service_calls_over_http_with_a_token_and_repeats_what_may_succeed(self):
        conflict = {"type": "error", "error": {"code": "conflict", "message": "others wrote", "retryable": True}}
        replies = [
            (503, {"message": "Service Unavailable"}),
            (409, conflict),
            (200, {"type": "reply", "result": ENTRY}),
        ]
        tokens = iter("abc")
        with Server(*replies) as server:
            orders = Service("@orders", over_http(f"{server.url}/", lambda: next(tokens)))
            self.assertEqual(orders.send(**MESSAGE), ENTRY)
        expected = [("/v1/services/send", f"Bearer {token}", {"kind": "text", **MESSAGE}) for token in "abc"]
        self.assertEqual(server.requests, expected)

    def test_a_refusal_has_its_code_and_is_not_repeated(self):
        rejected = {"code": "rejected", "message": "the filter", "reason": "no links"}
        later = {"code": "rate_limited", "message": "later", "retry_after_ms": 60_000}
        replies = [(403, {"error": rejected}), (403, {"message": "Forbidden"}), (429, {"error": later})]
        refused = []
        with Server(*replies) as server:
            orders = Service("@orders", over_http(server.url, lambda: "t"))
            for _ in replies:
                with self.assertRaises(RefusedError) as caught:
                    orders.send(**MESSAGE)
                refused.append((caught.exception.code, caught.exception.reason))
        self.assertEqual(refused, [("rejected", "no links"), ("forbidden", None), ("rate_limited", None)])
        self.assertEqual(len(server.requests), 3)

    def test_reports_come_of_all_pages(self):
        pages = [
            (200, {"result": {"reports": [{"report_id": "r_1"}], "next_cursor": "r_1"}}),
            (200, {"result": {"reports": [{"report_id": "r_2"}], "next_cursor": None}}),
        ]
        with Server(*pages) as server:
            reports = list(Admin(over_http(server.url, lambda: "t")).reports("2026-11"))
        self.assertEqual([report["report_id"] for report in reports], ["r_1", "r_2"])
        self.assertEqual(
            [body for *_, body in server.requests], [{"month": "2026-11"}, {"month": "2026-11", "cursor": "r_1"}]
        )

    def test_a_message_that_the_server_would_refuse_stops_all_of_them(self):
        # Without a client, nothing can go out.
        queue = Queue(None, "queue", "@orders")
        wrong = [
            ({"to": "@orders"}, "to: must be a user"),
            ({"client_msg_id": "with space"}, "client_msg_id: must have visible ASCII characters only"),
            ({"client_msg_id": "m" * 65}, "client_msg_id: is too long"),
            ({"client_msg_id": "operator:1"}, "client_msg_id: must not begin with operator:"),
            ({"body": "ä" * 8_193}, "body: has more than 16384 bytes"),
            ({"body": "\u0001" * 6_000}, "body: as JSON, is above 32768 bytes"),
        ]
        for fields, problem in wrong:
            with self.assertRaises(ValueError) as caught:
                queue.publish(MESSAGE, {**MESSAGE, **fields})
            self.assertEqual(str(caught.exception), problem)
