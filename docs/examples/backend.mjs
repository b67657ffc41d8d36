// Sends a user a message from your own server: `node backend.mjs bob "Your parcel is on its way"`.
//
// QUEUE_URL is the stack's output BackendQueueUrl. docs/backend.md has the environment for `cargo run`.

import { SQS } from "@aws-sdk/client-sqs";
import { Queue } from "@pigeonhole/server";

const queue = new Queue(new SQS({}), process.env.QUEUE_URL, "@orders");
const [user, text] = process.argv.slice(2);

// After a crash or a lost reply, call this again: the same id is the same message.
const left = await queue.publish({ to: user, client_msg_id: "order-1234-delivered", body: text });
if (left.length > 0) {
  throw new Error(`not queued: ${left[0].reason}`);
}
