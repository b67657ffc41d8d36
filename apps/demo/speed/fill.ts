// Fills the message store of a user of the page, as an older session would have left it.

import type { Message } from "@pigeonhole/client";
import { indexedDbStorage } from "@pigeonhole/client";
import { directConversationId } from "../../../clients/web/src/made-ids.ts";
import { Store } from "../../../clients/web/src/store/store.ts";

/** A conversation with this user, of this length. */
export interface Filled {
  peer: string;
  messages: number;
}

declare global {
  interface Window {
    fill(user: string, conversations: Filled[]): Promise<number>;
  }
}

/** One page of history. */
const PAGE = 500;
const WORDS = ["soon", "lunch", "tomorrow", "often", "the bridge is open again", "東京都", "Café", "🎉"];

/** Writes the conversations, all read, and returns the number of messages in the store. */
window.fill = async (user, conversations) => {
  const { data_id } = await (await fetch("/local")).json();
  const store = await Store.open(indexedDbStorage(`${user} of ${data_id}`), user);
  const now = Date.now();
  for (const { peer, messages: last } of conversations) {
    const conversation_id = directConversationId(user, peer);
    const message = (seq: number): Message => ({
      conversation_id,
      seq,
      message_id: `${conversation_id} ${seq}`,
      sender_id: seq % 3 === 0 ? user : peer,
      kind: "text",
      body: `${seq}: ${WORDS[seq % WORDS.length]}, ${WORDS[(seq * 5) % WORDS.length]}`,
      sent_at: new Date(now - (last - seq) * 60_000).toISOString(),
    });
    const marks = { unread: 0, delivered_seq: last, read_seq: last, last_seq: last };
    const { body: preview, ...newest } = message(last);
    const last_message = { ...newest, preview };
    await store.apply([{ row: { conversation_id, kind: "direct", peer_id: peer, last_message, ...marks } }], false);
    for (let end = last; end > 0; end -= PAGE) {
      const from = Math.max(1, end - PAGE + 1);
      const messages = Array.from({ length: end - from + 1 }, (_, at) => message(from + at));
      const side = end === last ? {} : { before_seq: end + 1 };
      const members = [{ user_id: peer, delivered_seq: last, read_seq: last }];
      const page = { messages, more: from > 1, last_seq: last, members };
      await store.apply([{ page: { conversation_id, side, page } }], false);
    }
  }
  const count = await store.count();
  await store.close();
  return count;
};
