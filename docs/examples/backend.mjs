// Tells a user something, from a server of your own: `node backend.mjs bob "Your parcel is on its way"`.
//
// QUEUE_URL is the stack's output BackendQueueUrl. For `cargo run` it is the queue_url of GET http://127.0.0.1:3001/local, and
// AWS_ENDPOINT_URL_SQS is http://127.0.0.1:3001/sqs.

import { SQSClient, SendMessageCommand } from "@aws-sdk/client-sqs";

const sqs = new SQSClient({});

// The same id again is the same message: so whoever dies in between, or gets no answer, just calls it again.
export async function tell(user, messageId, text, service = "@orders") {
  const message = { to: user, from: service, client_msg_id: messageId, kind: "text", body: text };
  await sqs.send(
    new SendMessageCommand({
      QueueUrl: process.env.QUEUE_URL,
      MessageGroupId: user,
      MessageDeduplicationId: messageId,
      MessageBody: JSON.stringify(message),
    }),
  );
}

const [user, text] = process.argv.slice(2);
await tell(user, "order-1234-delivered", text);
