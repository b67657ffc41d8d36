// Passes each event of the queue to `take`, one after another. EVENTS_URL is the queue that EventsTo names.

import { SQS } from "@aws-sdk/client-sqs";
import { parseEvent } from "@pigeonhole/server";

// `take` can return a number of seconds: then the event comes again after them. An event whose `take` fails ends the
// program, and comes again after the queue's visibility timeout.
export async function eachEvent(take) {
  const [sqs, QueueUrl] = [new SQS({}), process.env.EVENTS_URL];
  for (;;) {
    const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 20 });
    for (const { Body, ReceiptHandle } of Messages) {
      const event = parseEvent(Body);
      const wait = event && Math.ceil((await take(event)) ?? 0);
      if (wait > 0) {
        await sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout: wait });
      } else {
        await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
      }
    }
  }
}
