"""A deployment from its birth to its end, on MiniStack: created, refused bad parameters, tested end to end, updated
with its data kept, deleted."""

import json
import os
import subprocess
import sys
import time

from botocore.exceptions import ClientError

from stack import NAME, ROOT, MiniStack, Sns, Stack, build


def main():
    binaries = build()
    with MiniStack(port=0) as aws, Sns(binaries) as sns:
        stack = Stack(aws, sns, binaries)
        try:
            say("creating the stack")
            stack.deploy()
            bad_parameters_are_refused(stack)
            say("the end-to-end tests")
            end_to_end(stack)
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
    }
    for name, bad in [
        ("JwksUrl", None),
        ("JwksUrl", "login.example.com"),
        ("TokenIssuer", None),
        ("TokenIssuer", ""),
        ("TokenIssuer", "two words"),
        ("TokenAudience", None),
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


def end_to_end(stack):
    environment = {
        "PIGEONHOLE_URL": stack.url(),
        "PIGEONHOLE_TOKENS": " ".join([*map(str, stack.issuer()), "token"]),
        "PIGEONHOLE_SNS": stack.sns.endpoint,
        "PIGEONHOLE_QUEUE": stack.output("BackendQueueUrl"),
        "PIGEONHOLE_DEAD_LETTERS": stack.output("BackendDeadLettersUrl"),
    }
    subprocess.run(
        ["cargo", "test", "--workspace", "--test", "e2e", "--features", "tests/ministack"],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
    )


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
    # A client closes without waiting for the answers to its last requests.
    while steps[-1:] != ["read"] and time.monotonic() < deadline:
        told = stack.aws.run(script, stdout=subprocess.PIPE, text=True).stdout
        steps = [line.split()[2] for line in told.splitlines()[1:]]
    expect(steps, ["stored", "posted", "handed", "acknowledged", "read"])
    say(f"the message's way, by the logs:\n{told}")


def chat(stack, me, peer, lines):
    command = [stack.binaries["chat"], me, peer, "--url", stack.url()]
    environment = {**os.environ, "PIGEONHOLE_TOKEN": stack.token(me)}
    return subprocess.run(command, env=environment, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout


def all_of_it_goes(stack):
    """The stack goes, and leaves the tables, which are protected. Without their protection they can go too."""
    say("deleting the stack")
    tables = stack.tables()
    stack.sam("delete", "--stack-name", NAME, "--region", "us-east-1", "--no-prompts")
    aws = stack.aws.client
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
