// Writes for tests of the store.

import "fake-indexeddb/auto";
import fc from "fast-check";
import type { Channel, Conversation, HistoryResult, Message } from "../src/frames.ts";
import type { Side } from "../src/protocol.ts";
import type { Queued } from "../src/saved.ts";
import type { Storage } from "../src/store/database.ts";
import { indexedDbStorage } from "../src/store/indexeddb.ts";
import { type KeyValueStore, keyValueStorage } from "../src/store/key-value.ts";
import { memoryStorage } from "../src/store/memory.ts";
import type { Write } from "../src/store/types.ts";

let last = 0;

function newName(): string {
  last += 1;
  return `test ${last}`;
}

export const storages: [name: string, make: () => Storage][] = [
  ["in memory", memoryStorage],
  ["in IndexedDB", () => indexedDbStorage(newName())],
  ["in strings", () => keyValueStorage(strings(), "alice")],
];

export function strings(): KeyValueStore & { all: Map<string, string> } {
  const all = new Map<string, string>();
  return {
    all,
    getItem: (key) => all.get(key) ?? null,
    setItem: (key, text) => {
      all.set(key, text);
    },
    removeItem: (key) => {
      all.delete(key);
    },
  };
}

const time = (ms: number) => new Date(1_763_632_800_000 + ms).toISOString();

export function text(seq: number, body: string, id = "dm_ab", sender_id = "bob"): Message {
  return { conversation_id: id, seq, message_id: "x", sender_id, kind: "text", body, sent_at: time(seq) };
}

export function change(seq: number, kind: "edit" | "delete" | "reaction", target_seq: number, body = ""): Message {
  return { ...text(seq, body), kind, target_seq, ...(kind === "edit" ? { version: seq } : {}) };
}

export function withImage(message: Message): Message {
  const media = { media_id: "md_0198c0de", mime: "image/jpeg", bytes: 9, sha256: `${"A".repeat(43)}=` };
  return { ...message, kind: "image", media };
}

export function pageOf(side: Side, messages: Message[], more: boolean, last_seq: number): Write {
  const page: HistoryResult = { messages, more, last_seq, members: [] };
  return { page: { conversation_id: messages[0]?.conversation_id ?? "dm_ab", side, page } };
}

/** A row whose last message is at this `seq`. */
export function row(id: string, last_seq: number, preview = "hello"): Conversation {
  const last_message = { seq: last_seq, sender_id: "bob", kind: "text", preview, sent_at: time(last_seq) };
  const marks = { unread: 1, delivered_seq: 0, read_seq: 0, last_seq };
  return { conversation_id: id, kind: id.startsWith("gr_") ? "group" : "direct", last_message, ...marks };
}

/** A row of the list of channels, in the same way. */
export function channel(last_seq: number): Channel {
  const { last_message } = row("ch_n", last_seq);
  const rules = { first_seq: 1, history: "all", post: "admins", add: "admins", join: "open" } as const;
  const marks = { unread: 1, read_seq: 0, last_seq };
  return { conversation_id: "ch_n", kind: "channel", title: "News", role: "member", ...rules, last_message, ...marks };
}

export function queued(clientMsgId: string): Queued {
  return { clientMsgId, target: { conversation_id: "dm_ab" }, body: `unsent ${clientMsgId}` };
}

const ids = fc.constantFrom("dm_ab", "gr_xy", "ch_n");
const bodies = fc.constantFrom("hello world", "東京都", "world", "…", "ok 🎉 hello", "it’s");
const numbers = fc.integer({ min: 1, max: 11 });
const sides = fc.constantFrom<Side>({}, { before_seq: 5 }, { after_seq: 5 });

const entries: fc.Arbitrary<Message> = fc
  .record({
    id: ids,
    seq: numbers,
    kind: fc.constantFrom("text", "text", "image", "edit", "delete", "reaction" as const),
    target: numbers,
    body: bodies,
    emoji: fc.constantFrom("👍", "❤️", undefined),
    mine: fc.boolean(),
  })
  .map(({ id, seq, kind, target, body, emoji, mine }): Message => {
    const sender_id = mine ? "alice" : "bob";
    switch (kind) {
      case "text":
        return text(seq, body, id, sender_id);
      case "image":
        return withImage(text(seq, body, id, sender_id));
      case "reaction":
        return { ...change(seq, kind, target), conversation_id: id, sender_id, ...(emoji ? { emoji } : {}) };
      default:
        return { ...change(seq, kind, target, kind === "edit" ? body : ""), conversation_id: id, sender_id };
    }
  });

/** Any write of an app or of a session. */
export const writes: fc.Arbitrary<Write> = fc.oneof(
  { weight: 6, arbitrary: entries.map((entry): Write => ({ entry })) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.array(entries, { minLength: 1, maxLength: 4 }), fc.boolean(), sides)
      .map(([all, more, side]): Write => {
        const conversation_id = all[0]?.conversation_id ?? "";
        const messages = all
          .filter((message) => message.conversation_id === conversation_id)
          .sort((one, other) => one.seq - other.seq);
        const members = [{ user_id: "bob", delivered_seq: 9, read_seq: 4 }];
        return { page: { conversation_id, side, page: { messages, more, last_seq: 12, members } } };
      }),
  },
  fc.constantFrom("a", "b", "c").map((name): Write => ({ change: { queued: queued(name) } })),
  fc.constantFrom("a", "b", "c").map((done): Write => ({ change: { done } })),
  fc.constantFrom("a", "b").map((name): Write => ({ change: { refused: { clientMsgId: name, code: "forbidden" } } })),
  numbers.map((seq): Write => ({ change: { held: { conversation_id: "dm_ab", seq } } })),
  fc.tuple(ids, numbers).map(([id, seq]): Write => ({ row: id === "ch_n" ? channel(seq) : row(id, seq) })),
  fc.constant<Write>({ gone: "ch_n" }),
  numbers.map((at): Write => ({ change: { caughtUp: time(at) } })),
  fc.constant<Write>({ change: { listed: true } }),
  fc.tuple(numbers, fc.boolean()).map(([seq, isTold]): Write => {
    const mark = { conversation_id: "dm_ab", seq };
    return { change: isTold ? { readTold: mark } : { read: mark } };
  }),
  numbers.map((seq): Write => ({ read: { conversation_id: "dm_ab", seq, unread: 1 } })),
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom({ conversation_id: "dm_ab" }, { to: "dm_ab" }, { conversation_id: "gr_xy" }),
        fc.constantFrom("unsent one", "two", undefined),
      )
      .map(
        ([target, body]): Write => ({
          draft: { target, draft: body === undefined ? undefined : { body, replyTo: 3 } },
        }),
      ),
  },
  fc
    .tuple(ids, fc.constantFrom("alice", "bob", "carol"), numbers, numbers)
    .map(([conversation_id, user_id, delivered_seq, read_seq]): Write => {
      return { marks: { conversation_id, members: [{ user_id, delivered_seq, read_seq }] } };
    }),
  fc.constantFrom(["bob", "carol"], ["alice", "dave"]).map((users): Write => {
    const members = users.map((user_id) => ({ user_id, role: "admin" as const, joined_seq: 2 }));
    return { members: { conversation_id: "gr_xy", members } };
  }),
  fc.tuple(ids, numbers, fc.constantFrom("a.jpg", "b.jpg", undefined)).map(([conversation_id, seq, path]): Write => {
    return { place: { conversation_id, seq, path } };
  }),
  fc.constantFrom("a.jpg", "b.jpg").map((removed): Write => ({ removed })),
  fc.tuple(ids, numbers).map(([conversation_id, first_seq]): Write => ({ floor: { conversation_id, first_seq } })),
  fc.tuple(ids, numbers).map(([conversation_id, first_seq]): Write => ({ trim: { conversation_id, first_seq } })),
  fc.tuple(ids, fc.constantFrom("AA==", "AQ==", undefined)).map(([key, value]): Write => ({ sealing: { key, value } })),
  fc.constantFrom<Write>(
    { settings: { conversation_id: "gr_xy", set: { archived: true, muted_until: "forever" } } },
    { settings: { conversation_id: "gr_xy", set: { archived: false, muted_until: null } } },
  ),
);
