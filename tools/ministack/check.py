"""Deploys to MiniStack, refuses bad parameters, tests end to end, updates with the data kept, and deletes.

The end-to-end tests are one for each route and event source mapping: what a deployment can break. The local server has
all of them. With --all, all that MiniStack can run.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from botocore.exceptions import ClientError

from stack import EVENTS, NAME, ROOT, MiniStack, Sns, Stack, build

# Together, these tests call every route and every other function. `every_route_is_called` checks that.
TESTS = [
    "backend::poison_is_a_dead_letter_with_its_reason_and_nothing_behind_it_is_held_up",
    "backend::what_a_backend_puts_into_the_queue_reaches_the_user",
    "changes::changes_reach_who_is_connected",
    "channels::a_channel_is_open_or_admins_add",
    "channels::a_post_is_seen_by_who_watches_and_read_by_the_others",
    "client::a_picture_and_a_file_in_parts_arrive_as_they_were_sent",
    "client::three_clients_in_a_group_which_one_of_them_leaves_and_joins_again",
    "client::two_clients_change_what_they_said_and_see_the_same",
    "connecting::a_token_comes_in_a_header",
    "connecting::without_a_good_token_there_is_no_socket",
    "draining::a_connection_cut_in_the_middle_of_a_drain_loses_nothing",
    "errors::a_token_that_expires_while_connected_ends_service_not_the_socket",
    "errors::unknown_actions_are_answered_even_the_gateways_own_names",
    "groups::who_is_removed_hears_that_and_nothing_more",
    "keys::each_package_goes_to_one_claim_and_the_device_hears_when_few_are_left",
    "sealed::a_conversation_is_sealed_and_both_read_what_the_other_writes",
    "limits::the_seventeenth_connection_closes_the_first",
    "media::a_forwarded_picture_outlives_the_first",
    "phones::a_phone_rings_again_in_the_place_of_the_first_time_and_is_cleared",
    "presence::who_writes_is_seen_writing_and_has_no_answer",
    "presence::who_wrote_to_each_other_see_who_is_there",
    "retries::the_same_message_ten_times_at_once_from_two_devices_is_one",
    "settings::a_second_device_hears_of_settings",
    "settings::a_name_is_seen_by_others_and_told_to_the_users_own_devices",
    "groups::a_restricted_member_only_reads_until_an_admin_ends_it",
    "settings::a_report_has_an_id_which_its_repetition_has_too",
]
# The functions that no route calls, as their log lines name them. A job of `jobs` takes longer than this check.
OTHERS = {"fanout", "ingest", "notify", "publish", "sweep"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="run all tests that MiniStack can run")
    of_all = parser.parse_args().all
    binaries = build()
    with MiniStack(port=0) as aws, Sns(binaries) as sns:
        stack = Stack(aws, sns, binaries)
        try:
            say("creating the stack")
            stack.deploy()
            bad_parameters_are_refused(stack)
            say("the end-to-end tests")
            end_to_end(stack, of_all)
            every_route_is_called(stack)
            # Their log lines have the names of the socket's routes.
            http_replies(stack)
            an_update_keeps_the_data(stack)
            a_message_is_traced(stack)
            all_of_it_goes(stack)
        except BaseException:
            stack.save_logs()
            raise
    say("created, tested, updated and deleted: nothing is left")


def bad_parameters_are_refused(stack):
    good = {
        "JwksUrl": "https://login.example.com/keys",
        "TokenIssuer": "https://login.example.com",
        "TokenAudience": "pigeonhole",
        "LogKey": "0123456789abcdef",
    }
    for name, bad in [
        ("JwksUrl", None),
        ("JwksUrl", "login.example.com"),
        ("TokenIssuer", None),
        ("TokenIssuer", ""),
        ("TokenIssuer", "two words"),
        ("TokenAudience", None),
        ("LogKey", None),
        ("LogKey", "too-short"),
        ("QueryStringTokens", "yes"),
        ("ThrottlingRateLimit", "0"),
        ("LogLevel", "send=loud"),
        ("AlarmTopicArn", "topic"),
        ("ApnsApplicationArn", "arn:aws:sns:us-east-1:000000000000:app/GCM/other"),
        ("PushGraceSeconds", "11"),
        ("BackendMessages", "yes"),
        ("BackendConcurrency", "1"),
    ]:
        parameters = {key: value for key, value in {**good, name: bad}.items() if value is not None}
        refusal = refused(stack, parameters)
        if name not in refusal:
            raise SystemExit(f"{name}={bad} is refused with {refusal!r}, which does not name it")
        say(f"{name}={bad} is refused: {refusal}")


def refused(stack, parameters):
    """Why the stack can't have these."""
    try:
        stack.aws.client("cloudformation").create_change_set(
            StackName=NAME,
            ChangeSetName="refused",
            UsePreviousTemplate=True,
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    except ClientError as error:
        return str(error)
    raise SystemExit(f"the stack can be deployed with {parameters}")


def end_to_end(stack, of_all):
    environment = {
        "PIGEONHOLE_URL": stack.url(),
        "PIGEONHOLE_TOKENS": " ".join([*map(str, stack.issuer()), "token"]),
        "PIGEONHOLE_SNS": stack.sns.endpoint,
        "PIGEONHOLE_QUEUE": stack.output("BackendQueueUrl"),
        "PIGEONHOLE_DEAD_LETTERS": stack.output("BackendDeadLettersUrl"),
    }
    # The feature ignores the tests that MiniStack can't run.
    selected = ["--features", "tests/ministack"] if of_all else ["--", "--exact", *TESTS]
    command = ["cargo", "test", "--workspace", "--test", "e2e", *selected]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)


def http_replies(stack):
    """Calls each route over HTTP, whose frames have a type, and finds an event of the message that was stored."""
    api = stack.aws.client("apigatewayv2")
    routes = [route["RouteKey"] for route in api.get_routes(ApiId=stack.resource("HttpGateway"))["Items"]]
    message = {"to": "web", "client_msg_id": "m1", "kind": "text", "body": "over HTTP"}
    for route in routes:
        frame = message if route == "POST /v1/send" else {}
        reply = post(stack, route.removeprefix("POST "), frame)
        if reply.get("type") not in ("reply", "error"):
            raise SystemExit(f"{route} is not served: {reply}")
    sent = post(stack, "/v1/send", message)
    expect((sent["type"], sent["result"]["duplicate"]), ("reply", True))
    say(f"{len(routes)} routes over HTTP replied")
    sqs = stack.aws.client("sqs")
    queue, bodies, deadline = sqs.get_queue_url(QueueName=EVENTS)["QueueUrl"], [], time.monotonic() + 30
    while "over HTTP" not in bodies and time.monotonic() < deadline:
        for got in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"])
            bodies.append(json.loads(got["Body"]).get("message", {}).get("body"))
    if "over HTTP" not in bodies:
        raise SystemExit(f"of {len(bodies)} events none is of the message over HTTP")
    say(f"the message is among {len(bodies)} events")


def post(stack, path, frame):
    headers = {"authorization": f"Bearer {stack.token('app')}", "content-type": "application/json"}
    request = urllib.request.Request(stack.output("HttpUrl") + path, json.dumps(frame).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)


def every_route_is_called(stack):
    """By the log lines of the functions. $default has no function of its own to log an unknown action."""
    api = stack.aws.client("apigatewayv2")
    routes = api.get_routes(ApiId=stack.resource("WebSocketApi"))["Items"]
    wanted = OTHERS | {route["RouteKey"] for route in routes}
    called = set()
    for _, line in stack.log_lines():
        # Some other lines are not JSON.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            called.add(json.loads(line)["route"])
    if missing := wanted - called:
        raise SystemExit(f"no test has called {', '.join(sorted(missing))}: add one to TESTS")
    say(f"{len(wanted)} routes and other functions were called")


def an_update_keeps_the_data(stack):
    tables = stack.tables()
    chat(stack, "keeper", "friend", "still here after an update?\n")
    say("updating the stack")
    stack.deploy(LogLevel="debug")
    function = stack.aws.client("lambda").get_function_configuration(FunctionName=stack.resource("SendFunction"))
    expect(function["Environment"]["Variables"]["RUST_LOG"], "debug")
    expect(stack.tables(), tables)
    shown = chat(stack, "friend", "keeper", "")
    if "keeper: still here after an update?" not in shown:
        raise SystemExit(f"after the update, friend sees:\n{shown}")
    say("the message from before the update is there")


def a_message_is_traced(stack):
    """By the logs of its functions, as an operator does it."""
    request = json.dumps({"op": "conversation", "user_ids": ["keeper", "friend"]})
    answer = stack.aws.client("lambda").invoke(FunctionName=stack.resource("AdminFunction"), Payload=request)
    conversation = json.load(answer["Payload"])["result"]["conversation_id"]
    script = [sys.executable, ROOT / "tools/scripts/message_trace.py", conversation, 1, NAME]
    told, steps, deadline = "", [], time.monotonic() + 30
    # A client closes without waiting for the replies to its last requests.
    while not {"acknowledged", "read"} <= set(steps) and time.monotonic() < deadline:
        told = stack.aws.run(script, stdout=subprocess.PIPE, text=True).stdout
        steps = [line.split()[2] for line in told.splitlines()[1:]]
    expect(steps[:3], ["stored", "posted", "handed"])
    # Two functions take these at the same time.
    expect(sorted(steps[3:]), ["acknowledged", "read"])
    say(f"the message's way, by the logs:\n{told}")


def chat(stack, me, peer, lines):
    command = [stack.binaries["chat"], me, peer, stack.url()]
    environment = {**os.environ, "PIGEONHOLE_TOKEN": stack.token(me)}
    return subprocess.run(command, env=environment, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout


def all_of_it_goes(stack):
    """The stack goes, and leaves the tables, which are protected. Without their protection they can go too."""
    say("deleting the stack")
    tables = stack.tables()
    stack.sam("delete", "--stack-name", NAME, "--region", "us-east-1", "--no-prompts")
    aws = stack.aws.client
    aws("sqs").delete_queue(QueueUrl=aws("sqs").get_queue_url(QueueName=EVENTS)["QueueUrl"])
    expect(aws("lambda").list_functions()["Functions"], [])
    expect(aws("apigatewayv2").get_apis()["Items"], [])
    expect(aws("logs").describe_log_groups()["logGroups"], [])
    expect(aws("sqs").list_queues().get("QueueUrls", []), [])
    expect(aws("iam").list_roles()["Roles"], [])
    expect(sorted(aws("dynamodb").list_tables()["TableNames"]), sorted(tables))
    for table in tables:
        try:
            aws("dynamodb").delete_table(TableName=table)
            raise SystemExit(f"{table} is not protected")
        except ClientError as error:
            expect("protected" in str(error), True)
        aws("dynamodb").update_table(TableName=table, DeletionProtectionEnabled=False)
        aws("dynamodb").delete_table(TableName=table)
    expect(aws("dynamodb").list_tables()["TableNames"], [])


def expect(seen, wanted):
    if seen != wanted:
        raise SystemExit(f"expected {wanted}, but it is {seen}")


def say(what):
    print(f"== {what}", flush=True)


if __name__ == "__main__":
    main()
