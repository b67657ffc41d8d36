import type { Conversation, Message } from "@pigeonhole/client/events";
import { expect, it } from "vitest";
import { Chat } from "../src/chat.ts";

const at = (seq: number) => `2026-11-20T10:00:0${seq}.000Z`;

function entry(seq: number, of: Partial<Message> = {}): Message {
  const place = { conversation_id: "dm_ab", seq, message_id: "x", sent_at: at(seq) };
  return { ...place, sender_id: "bob", kind: "text", body: `bob ${seq}`, ...of };
}

function row(seq: number, last_seq: number, of: Partial<Conversation["last_message"]> = {}): Conversation {
  const last_message = { seq, sender_id: "bob", kind: "text", preview: `preview ${seq}`, sent_at: at(seq), ...of };
  const marks = { unread: 0, delivered_seq: last_seq, read_seq: last_seq, last_seq };
  return { conversation_id: "dm_ab", kind: "direct", peer_id: "bob", last_message, ...marks };
}

it("the list shows the last message as it is now, and no change of one", () => {
  const chat = Chat.with("alice", "bob");
  expect(chat.newest()).toBeUndefined();
  chat.timeline.message(entry(1));
  chat.timeline.message(entry(2));
  chat.timeline.message(entry(3, { kind: "reaction", body: "", target_seq: 1, emoji: "👍" }));
  expect(chat.newest()).toEqual({ text: "bob 2", at: Date.parse(at(2)), by: "bob" });
  chat.timeline.message(entry(4, { kind: "edit", body: "better", target_seq: 2, version: 2 }));
  expect(chat.newest()?.text).toBe("better");
  const target = { conversation_id: "dm_ab" };
  chat.timeline.queued({ clientMsgId: "m1", target, body: "waits", replyTo: 2 }, at(5));
  expect(chat.newest()).toMatchObject({ text: "waits", by: "alice" });
  chat.timeline.message(entry(5, { sender_id: "alice", client_msg_id: "m1", body: "waits" }));
  const request = { action: "delete", client_msg_id: "m2", ...target, seq: 5 } as const;
  chat.timeline.queued({ clientMsgId: "m2", request }, at(6));
  expect(chat.newest()).toMatchObject({ text: "This message was deleted", by: "alice" });
  chat.timeline.failed("m2", "forbidden");
  expect(chat.newest()?.text).toBe("waits");
});

it("the row's line counts where it is newer than what is held, and is asked for anew when it changes", () => {
  const chat = Chat.with("alice", "bob");
  chat.timeline.message(entry(1));
  chat.setRow(row(4, 6));
  expect(chat.newest()?.text).toBe("preview 4");
  expect([chat.isLineBy(4), chat.isLineBy(1), chat.isLineBy(undefined)]).toEqual([true, false, false]);
  chat.setRow(row(4, 7, { deleted: true, preview: "" }));
  expect(chat.newest()?.text).toBe("This message was deleted");
  // Held, it changes by itself.
  chat.timeline.message(entry(4));
  expect(chat.isLineBy(4)).toBe(false);
});
