// A service of a shop. Its messages to a user go into the local server's queue. No DOM.

import { local } from "./local.ts";

const SHOP = "@shop";
const NEWS = ["Your parcel is on its way", "Your parcel is two stops away", "Your parcel is at your door"];

/** Where the shop puts its messages. A server without a queue has no such place. */
export function queueUrl(): Promise<string | undefined> {
  return local().then(
    ({ queue_url }) => queue_url ?? undefined,
    () => undefined,
  );
}

/** Sends the next message of the shop. `count`: messages sent before. */
export async function tell(user: string, count: number): Promise<void> {
  const url = await queueUrl();
  if (url === undefined) {
    return;
  }
  const id = `shop-${crypto.randomUUID()}`;
  const body = NEWS[count % NEWS.length];
  const answer = await fetch(new URL(url).pathname, {
    method: "POST",
    headers: { "X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0" },
    body: JSON.stringify({
      QueueUrl: url,
      MessageGroupId: user,
      MessageDeduplicationId: id,
      MessageBody: JSON.stringify({ to: user, from: SHOP, client_msg_id: id, kind: "text", body }),
    }),
  });
  if (!answer.ok) {
    throw new Error(`the queue answers ${answer.status}`);
  }
}
