"""Where is a message? Prints its lines of the functions' logs in order, from the local server or from a stack."""

import argparse
import json
import re
import time
import urllib.parse
from datetime import UTC, datetime, timedelta

import local_server

# Logs contain an id in this form.
LOGGED = re.compile("[0-9a-f]{16}")
# The functions that log a message.
FUNCTIONS = ("send", "group", "ingest", "admin", "drain", "read")
QUERY = 'fields @message | filter @message like "{}" | sort @timestamp asc | limit 10000'


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("conversation", help="its id, or what logs have in its place")
    options.add_argument("seq", type=int)
    options.add_argument("stack", nargs="?", default="", help="left out, the local server is asked")
    options.add_argument("--hours", type=float, default=24, help="how far back, of a stack (24)")
    options = options.parse_args()
    source = Stack(options.stack, options.hours) if options.stack else Local()
    conversation = options.conversation
    if not LOGGED.fullmatch(conversation):
        conversation = source.ask_admin({"op": "logged_as", "id": conversation})["logged_as"]
    print(f"{conversation} in the logs. All times are UTC, and of the functions' clocks.")
    # A function that crashes writes a line in another format.
    lines = [json.loads(line) for line in source.lines(conversation) if line.startswith("{")]
    steps = story(lines, conversation, options.seq)
    for at, step, more in steps:
        print(f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}  {step:12}  {more}")
    if not steps:
        print("No line says that it was stored: it may be older than the logs, or its function died just after.")
        print("The op `conversation` of `just admin` says how far the two have come.")


def story(lines, conversation, seq):
    """The steps of one message, with their times. If a user's mark reaches the message twice, the first time counts."""
    lines = sorted((line for line in lines if "outcome" in line), key=lambda line: line["timestamp"])
    of_it = [line for line in lines if line.get("conversation") == conversation and line["outcome"] == "ok"]
    writes = [line for line in of_it if "store_ms" in line and line.get("seq") == seq]
    steps = []
    for index, line in enumerate(writes):
        ended = datetime.fromisoformat(line["timestamp"])
        stored = ended - timedelta(milliseconds=line.get("fanout_ms", 0))
        socket = f", socket {line['connection_id']}" if "connection_id" in line else ""
        who = f"{line['route']} by {line.get('user', 'an operator')}{socket}, request {line['request_id']}"
        steps += [(stored, "sent again" if index else "stored", who), (ended, "posted", told(line))]
    rises = [("handed out", line, line.get("drained")) for line in lines]
    rises += [("acknowledged", line, line.get("acked")) for line in lines]
    rises += [("read", line, [f"{conversation}:{line['seq']}"]) for line in of_it if line["route"] == "read"]
    seen = {(word, line.get("user")) for line in writes for word in ("handed out", "acknowledged", "read")}
    for word, line, marks in rises:
        user = line.get("user")
        if (word, user) not in seen and up_to(marks or [], conversation) >= seq:
            seen.add((word, user))
            steps.append((datetime.fromisoformat(line["timestamp"]), word, f"by {user}, request {line['request_id']}"))
    return sorted(steps, key=lambda step: step[0])


def told(line):
    """The outcome of the frames that the same request posted."""
    # A line has no zeros.
    frames = [line.get(name, 0) for name in ("posted", "gone", "failed")]
    if not any(frames) and not line.get("left_pending"):
        return "none by this request: fanout posts to larger groups, and its lines name no conversation"
    left = f"; left pending for {line['left_pending']}" if "left_pending" in line else ""
    return "{} frames taken, {} gone, {} failed".format(*frames) + left


def up_to(marks, conversation):
    pairs = (mark.split(":") for mark in marks)
    return max((int(seq) for of, seq in pairs if of == conversation), default=0)


class Local:
    def ask_admin(self, request):
        return result(local_server.ask_admin(request))

    def lines(self, part):
        query = urllib.parse.urlencode({"with": part})
        return local_server.get(f"{local_server.pages()['log_url']}?{query}").splitlines()


class Stack:
    def __init__(self, name, hours=24):
        # Only a stack needs boto3. To trace on the local server, you install nothing.
        import boto3  # noqa: PLC0415

        self.aws = boto3.client
        self.name, self.since = name, datetime.now(UTC) - timedelta(hours=hours)

    def ask_admin(self, request):
        place = {"StackName": self.name, "LogicalResourceId": "AdminFunction"}
        found = self.aws("cloudformation").describe_stack_resource(**place)["StackResourceDetail"]
        function, payload = found["PhysicalResourceId"], json.dumps(request)
        return result(json.load(self.aws("lambda").invoke(FunctionName=function, Payload=payload)["Payload"]))

    def lines(self, part):
        logs = self.aws("logs")
        folder = f"/aws/lambda/{self.name}/"
        pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=folder)
        # Without a backend there is no `ingest`.
        groups = [group["logGroupName"] for page in pages for group in page["logGroups"]]
        query = logs.start_query(
            logGroupNames=[group for group in groups if group.removeprefix(folder) in FUNCTIONS],
            queryString=QUERY.format(part),
            startTime=int(self.since.timestamp()),
            endTime=int(time.time()),
        )
        while True:
            found = logs.get_query_results(queryId=query["queryId"])
            if found["status"] not in ("Scheduled", "Running"):
                break
            time.sleep(1)
        if found["status"] != "Complete":
            raise SystemExit(f"CloudWatch Logs did not answer the query: {found['status']}")
        messages = [field["value"] for row in found["results"] for field in row if field["field"] == "@message"]
        return [line for message in messages for line in message.splitlines()]


def result(answer):
    if "result" not in answer:
        raise SystemExit(f"The function admin answered {answer}")
    return answer["result"]


if __name__ == "__main__":
    main()
