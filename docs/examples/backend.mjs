// Sends a user a message from your own server: `node backend.mjs bob "Your parcel is on its way"`.
//
// QUEUE_URL is the stack's output BackendQueueUrl. docs/backend.md has the environment for `cargo run`.

import { SQSClient, SendMessageCommand } from "@aws-sdk/client-sqs";

const sqs = new SQSClient({});

// After a crash or a lost reply, call this again: the same id is the same message.
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
