import { expect, it } from "vitest";
import { addChange, applied, noChanges } from "../src/changes.ts";
import type { OpenedChange } from "../src/events.ts";
import type { Message } from "../src/frames.ts";

const SENT_AT = "2026-11-20T10:00:00.000Z";

function entry(seq: number, sender_id: string, fields: Partial<OpenedChange>): Message & OpenedChange {
  const common = { conversation_id: "dm_ab", seq, message_id: `id${seq}`, sender_id, sent_at: SENT_AT };
  return { ...common, kind: "text", body: "text", epoch: 1, ...fields };
}

function shown(change: OpenedChange) {
  const changes = noChanges();
  addChange(changes, change, "carol");
  const { body, reactions = [] } = applied(changes, entry(1, "alice", { client_msg_id: "a1" }));
  return [body, reactions.length];
}

const edit = { kind: "edit", target_seq: 1, version: 2, body: "better", target_id: "a1" } as const;
const reaction = { kind: "reaction", target_seq: 1, emoji: "👍", target_id: "a1" } as const;

// The server can't see either, so each client checks them.
it("an encrypted edit of another user's text changes nothing", () => {
  expect(shown(entry(2, "alice", edit))).toEqual(["better", 0]);
  expect(shown(entry(2, "bob", edit))).toEqual(["text", 0]);
});

it("an encrypted change is of the message that its author names, whatever seq the server says", () => {
  expect(shown(entry(2, "bob", reaction))).toEqual(["text", 1]);
  expect(shown(entry(2, "bob", { ...reaction, target_id: "a9" }))).toEqual(["text", 0]);
  expect(shown(entry(2, "alice", { ...edit, target_id: "a9" }))).toEqual(["text", 0]);
});
