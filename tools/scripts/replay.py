"""Makes `notify` or `media` of a stack retry the work in their queue of failures, and deletes from the queue what
succeeds."""

import argparse
import base64
import json

import boto3

QUEUES = {"notify": ("NotifyFunction", "NotifyFailures"), "media": ("MediaFunction", "MediaFailures")}
# Seconds in which no other replay gets the message.
HIDDEN_S = 300
GONE = ("TrimmedDataAccessException", "ResourceNotFoundException")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("function", choices=QUEUES)
    options.add_argument("--stack", required=True)
    options = options.parse_args()
    function, queue = (physical_id(options.stack, name) for name in QUEUES[options.function])
    sqs, done, left = boto3.client("sqs"), 0, 0
    while messages := receive(sqs, queue):
        for message in messages:
            event = event_of(json.loads(message["Body"]))
            if event is not None and invoke(function, event):
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                done += 1
            else:
                left += 1
    print(f"done: {done}, left: {left}")
    if left:
        raise SystemExit("What is left is in the queue again after five minutes.")


def physical_id(stack, name):
    found = boto3.client("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId=name)
    return found["StackResourceDetail"]["PhysicalResourceId"]


def receive(sqs, queue):
    options = {"MaxNumberOfMessages": 10, "VisibilityTimeout": HIDDEN_S, "WaitTimeSeconds": 1}
    return sqs.receive_message(QueueUrl=queue, **options).get("Messages", [])


def event_of(body):
    """Returns the event of a dead letter, or `None` if the stream has its records no more.

    The function's own message is an event. Lambda's message only names the records' place in the stream.
    """
    if "DDBStreamBatchInfo" not in body:
        return body
    batch = body["DDBStreamBatchInfo"]
    streams = boto3.client("dynamodbstreams")
    try:
        place = streams.get_shard_iterator(
            StreamArn=batch["streamArn"],
            ShardId=batch["shardId"],
            ShardIteratorType="AT_SEQUENCE_NUMBER",
            SequenceNumber=batch["startSequenceNumber"],
        )["ShardIterator"]
        return {"Records": list(records(streams, place, int(batch["endSequenceNumber"])))}
    except streams.exceptions.ClientError as error:
        if error.response["Error"]["Code"] not in GONE:
            raise
        print(f"no longer in the stream: {batch['batchSize']} records since {batch['approximateArrivalOfFirstRecord']}")
        return None


def records(streams, place, end):
    while place:
        page = streams.get_records(ShardIterator=place)
        for record in page["Records"]:
            if int(record["dynamodb"]["SequenceNumber"]) > end:
                return
            yield as_lambda_has_it(record)
        last = page["Records"][-1:]
        if last and int(last[0]["dynamodb"]["SequenceNumber"]) >= end:
            return
        place = page.get("NextShardIterator")


def as_lambda_has_it(value):
    """Bytes in base64, and times in seconds."""
    if isinstance(value, dict):
        return {name: as_lambda_has_it(part) for name, part in value.items()}
    if isinstance(value, (list, set)):
        return [as_lambda_has_it(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.timestamp() if hasattr(value, "timestamp") else value


def invoke(function, event):
    answer = boto3.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
    said = json.load(answer["Payload"])
    return "FunctionError" not in answer and not said.get("batchItemFailures")


if __name__ == "__main__":
    main()
