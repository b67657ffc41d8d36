"""A case of support, from its group to its end: `python support.py bob 7`. Prints what each call gave.

ADMIN_FUNCTION is the stack's output AdminFunctionName. docs/backend.md has the environment for `cargo run`."""

import json
import os
import sys

import boto3
from pigeonhole_server import Admin, RefusedError, Service, by_lambda

user, number = sys.argv[1:]
calls = by_lambda(boto3.client("lambda"), os.environ["ADMIN_FUNCTION"])
support, admin = Service("@support", calls), Admin(calls)


def key(step: str) -> str:
    """Returns an id that is derived from the case, so that a repeated job changes nothing."""
    return f"case-{number}-{step}"


group = support.create_group(client_msg_id=key("opened"), title=f"Case {number}", members=[user])
case = group["conversation_id"]
added = support.add(conversation_id=case, client_msg_id=key("expert"), members=["carol"])["added"]
sent = support.send(conversation_id=case, client_msg_id=key("hello"), body="Carol looks into it.")
support.restrict(conversation_id=case, client_msg_id=key("calm"), user_id=user, until="forever")
support.remove(conversation_id=case, client_msg_id=key("closed"), user_id="carol")
version = support.profile("@support", {"name": "Support"})["version"]
admin.ask("delete_message", conversation_id=case, seq=sent["seq"])
waits = admin.ask("pending", user_id=user)["conversations"]
try:
    refused = support.add(conversation_id=case, client_msg_id=key("hello"), members=["dave"])
except RefusedError as error:
    refused = error.code
print(json.dumps([group["seq"], added, sent["seq"], version > 0, waits[-1]["last_seq"], refused]))
