// The ids of conversations, which follow from who makes them.

import { sha256 } from "./sha256.ts";

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** Returns the id of a direct conversation, before its first message too. With the same user twice: of their note. */
export function directConversationId(me: string, user: string): string {
  const [first, second] = me <= user ? [me, user] : [user, me];
  return `dm_${digestOf(first, second)}`;
}

/** Returns the ids that a group and a channel get which this user makes with this `client_msg_id`. */
export function madeIds(me: string, clientMsgId: string): string[] {
  const digest = digestOf(me, clientMsgId);
  return [`gr_${digest}`, `ch_${digest}`];
}

function digestOf(first: string, second: string): string {
  const digest = sha256(new TextEncoder().encode(`${first}\0${second}`)).slice(0, 20);
  const bits = [...digest].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return bits.replace(/.{5}/g, (five) => BASE32[Number.parseInt(five, 2)] ?? "");
}
