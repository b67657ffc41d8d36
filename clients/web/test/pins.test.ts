import { expect, test } from "vitest";
import type { Message } from "../src/frames.ts";
import { Timeline } from "../src/timeline.ts";

function pin(seq: number, target_seq: number, pinned: boolean): Message {
  const place = { conversation_id: "dm_ab", seq, message_id: `m${seq}`, sender_id: "bob" };
  return { ...place, kind: "pin", body: "", sent_at: "2026-11-20T10:00:00.000Z", target_seq, pinned };
}

test("the pins are those of the newest page and of later entries, in any order", () => {
  const entries = [pin(11, 3, true), pin(12, 4, true), pin(13, 2, false)];
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
  ]) {
    const timeline = new Timeline("alice");
    const page = (last_seq: number, pins: number[]) =>
      timeline.history({ messages: [], members: [], last_seq, ...(pins.length > 0 ? { pins } : {}) });
    for (const at of order) {
      timeline.message(entries[at] as Message);
    }
    page(10, [2, 1]);
    page(9, [7]);
    expect(timeline.pins()).toEqual([4, 3, 1]);
    page(14, []);
    expect(timeline.pins()).toEqual([]);
    timeline.message(entries[0] as Message);
    expect(timeline.pins(), "an entry that comes again changes nothing").toEqual([]);
  }
});
