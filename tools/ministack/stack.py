"""Pigeonhole deployed to MiniStack, an AWS on this machine: as to AWS, by `sam deploy` of template.yaml."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import boto3
from samcli.yamlhelper import yaml_dump, yaml_parse

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
# A run leaves MiniStack's log, the functions' logs and the template here, as it was deployed.
WORK = ROOT / ".aws-sam" / "ministack"
NAME = "pigeonhole"
EVENTS = "events"


class MiniStack:
    """The process, on a port of 127.0.0.1; 0 takes any that is free."""

    def __init__(self, port):
        self.endpoint = f"http://127.0.0.1:{port or free_port()}"
        self.environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "SAM_CLI_TELEMETRY": "0",
            "NO_PROXY": "127.0.0.1",
        }

    def __enter__(self):
        # An end from outside is to be an orderly one too: MiniStack must not outlive us.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
        shutil.rmtree(WORK, ignore_errors=True)
        (WORK / "tmp").mkdir(parents=True)
        port = self.endpoint.rpartition(":")[2]
        environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": port, "TMPDIR": str(WORK / "tmp")}
        with (WORK / "ministack.log").open("w") as log:
            self.process = subprocess.Popen(
                [VENV / "ministack" / "bin" / "ministack"],
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # So that a terminal's Ctrl-C is ours alone.
                start_new_session=True,
            )
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_until_ready(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"MiniStack did not start: see {WORK / 'ministack.log'}")

    def stop(self):
        """Ends it, and the functions, which are its children."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def run(self, command, **options):
        """Runs a command of which AWS is this MiniStack."""
        return subprocess.run([str(part) for part in command], env=self.environment, check=True, **options)


class Sns:
    """SNS with phones behind it: the local server's, since MiniStack keeps nothing of what is published to a phone."""

    def __init__(self, binaries):
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}/sns"
        self.binary = binaries["sns"]

    def __enter__(self):
        command = [self.binary, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Stack:
    """The deployed stack, and how to get tokens for it."""

    def __init__(self, aws, sns, binaries):
        self.aws = aws
        self.sns = sns
        self.binaries = binaries
        self.key = WORK / "issuer.key"

    def deploy(self, **parameters):
        """Creates or updates the stack: with a change set, as `sam deploy` does."""
        (WORK / "template.yaml").write_text(for_ministack(self.aws.endpoint, self.sns.endpoint, self.binaries))
        defaults = {
            "JwksUrl": self.publish_keys(),
            "TokenIssuer": "pigeonhole",
            "TokenAudience": "pigeonhole",
            "LogKey": "key-of-a-local-stack",
            "QueryStringTokens": "on",
            # Tests send more requests than a person does.
            "RequestRate": "off",
            "SendRate": "off",
            "FirstMessageRate": "off",
            "ApnsApplicationArn": "arn:aws:sns:us-east-1:000000000000:app/APNS/local",
            "FcmApplicationArn": "arn:aws:sns:us-east-1:000000000000:app/GCM/local",
            "BackendMessages": "on",
            "Encryption": "Optional",
            "Profiles": "users",
            "HttpApi": "on",
            "EventsTo": self.events_queue(),
        }
        overrides = [f"{name}={value}" for name, value in {**defaults, **parameters}.items()]
        quietly = ["--no-confirm-changeset", "--no-progressbar"]
        self.sam("deploy", "--template-file", WORK / "template.yaml", *quietly, "--parameter-overrides", *overrides)
        self.set_time_to_live()

    def sam(self, command, *arguments):
        self.aws.run([VENV / "bin" / "sam", command, "--config-file", ROOT / "samconfig.toml", *arguments], cwd=WORK)

    def publish_keys(self):
        """Serves the issuer's public key from a bucket."""
        keys = subprocess.run([*self.issuer(), "keys"], check=True, capture_output=True).stdout
        s3 = self.aws.client("s3")
        s3.create_bucket(Bucket="issuer")
        s3.put_object(Bucket="issuer", Key="jwks.json", Body=keys)
        return f"{self.aws.endpoint}/issuer/jwks.json"

    def events_queue(self):
        """The ARN of a queue for the events, which is no part of the stack."""
        sqs = self.aws.client("sqs")
        url = sqs.create_queue(QueueName=EVENTS)["QueueUrl"]
        return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def issuer(self):
        return [self.binaries["issuer"], "--key", self.key]

    def set_time_to_live(self):
        """MiniStack takes TimeToLiveSpecification from CloudFormation, and does nothing with it."""
        dynamodb = self.aws.client("dynamodb")
        for table in [self.resource(f"{name}Table") for name in ["Connections", "Idempotency", "Devices", "Audit"]]:
            described = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
            if described["TimeToLiveStatus"] != "ENABLED":
                specification = {"AttributeName": "expires_at", "Enabled": True}
                dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)

    def url(self):
        return self.output("WebSocketUrl")

    def output(self, name):
        stack = self.aws.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]
        return next(output["OutputValue"] for output in stack["Outputs"] if output["OutputKey"] == name)

    def resource(self, logical_id):
        """The name that a resource of the template has there."""
        detail = self.aws.client("cloudformation").describe_stack_resource(StackName=NAME, LogicalResourceId=logical_id)
        return detail["StackResourceDetail"]["PhysicalResourceId"]

    def tables(self):
        resources = self.aws.client("cloudformation").describe_stack_resources(StackName=NAME)["StackResources"]
        return [one["PhysicalResourceId"] for one in resources if one["ResourceType"] == "AWS::DynamoDB::Table"]

    def token(self, user):
        issued = subprocess.run([*self.issuer(), "token", user], check=True, capture_output=True, text=True)
        return issued.stdout.strip()

    def log_lines(self):
        """Yields the name of the log group and the line, for each line that a function has logged."""
        logs = self.aws.client("logs")
        for group in logs.describe_log_groups()["logGroups"]:
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
                for event in page["events"]:
                    yield group["logGroupName"], event["message"].rstrip()

    def save_logs(self):
        """Writes the functions' logs to a file, and prints its name."""
        with (WORK / "functions.log").open("w") as file:
            file.writelines(f"{group} {line}\n" for group, line in self.log_lines())
        print(f"The logs are in {WORK.relative_to(ROOT)}: functions.log and ministack.log", file=sys.stderr)


def for_ministack(endpoint, sns, binaries):
    """The template with the functions as they were built here, changed where MiniStack lacks or differs from AWS."""
    text = (ROOT / "template.yaml").read_text()
    gateway = endpoint.removeprefix("http://") + "/_aws/execute-api/${WebSocketApi}"
    host = "${WebSocketApi}.execute-api.${AWS::Region}.${AWS::URLSuffix}"
    http = "${HttpGateway}.execute-api.${AWS::Region}.${AWS::URLSuffix}"
    for there, here in [
        # MiniStack listens on this machine, under no name and without TLS.
        (f"https://{host}", f"http://{gateway}"),
        (f"wss://{host}", f"ws://{gateway}"),
        (f"https://{http}", f"{endpoint}/_aws/execute-api/${{HttpGateway}}/$default"),
        ("https://dynamodb.${AWS::Region}.${AWS::URLSuffix}", endpoint),
        ("https://s3.${AWS::Region}.${AWS::URLSuffix}", endpoint),
        ("https://sns.${AWS::Region}.${AWS::URLSuffix}", sns),
        ("https://sqs.${AWS::Region}.${AWS::URLSuffix}", endpoint),
        # Below an attribute that is not there, `exists` is never false on it. On AWS this here would always fit.
        ('"NewImage":{"notified_seq":{"N":[{"exists":false}]}}', '"NewImage":{"notified_seq":[{"exists":false}]}'),
        # So the issuer's keys come without TLS as well: from a bucket there.
        ("AllowedPattern: '^https://", "AllowedPattern: '^https?://"),
        # The functions run on this machine's processor.
        ("Architectures: [arm64]", "Architectures: [x86_64]"),
    ]:
        if there not in text:
            raise SystemExit(f"template.yaml has no {there} any more, which is to be {here} on MiniStack")
        text = text.replace(there, here)
    template = yaml_parse(text)
    resources = template["Resources"]
    # MiniStack's CloudFormation has no RouteResponse; its gateway sends the reply without one.
    for name in [name for name, resource in resources.items() if resource["Type"].endswith("::RouteResponse")]:
        del resources[name]
    # Without identity sources, MiniStack requires an Authorization header. API Gateway requires none.
    resources["WebSocketApi"]["Properties"]["Auth"]["IdentitySource"] = []
    for resource in resources.values():
        # MiniStack's query of a local index returns only what is in the index. DynamoDB reads the rest from the table.
        for index in resource.get("Properties", {}).get("LocalSecondaryIndexes", []):
            index["Projection"] = {"ProjectionType": "ALL"}
        # MiniStack's alarms have no metric expressions, so each watches its first metric. The dashboard refers to them.
        if metrics := resource.get("Properties", {}).pop("Metrics", None):
            stat = next(metric["MetricStat"] for metric in metrics if "MetricStat" in metric)
            resource["Properties"].update(stat["Metric"], Statistic=stat["Stat"], Period=stat["Period"])
        if resource["Type"] == "AWS::Serverless::Function":
            binary = resource.pop("Metadata")["BuildProperties"]["Binary"]
            folder = WORK / "functions" / binary
            folder.mkdir(parents=True, exist_ok=True)
            # Debugging information makes two thirds of it, and each deployment packs and uploads it.
            subprocess.run(["strip", "-o", folder / "bootstrap", binaries[binary]], check=True)
            resource["Properties"]["CodeUri"] = str(folder)
    return yaml_dump(template)


def build():
    """Builds the functions and tools, with the features that `cargo test --workspace` gives them; where each is."""
    # The workspace's, so that nothing is built twice.
    command = [
        "cargo",
        "build",
        "--workspace",
        "--bins",
        "--example",
        "chat",
        "--message-format=json-render-diagnostics",
    ]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = [json.loads(line) for line in output.splitlines()]
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message["reason"] == "compiler-artifact" and message["executable"]
    }


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
