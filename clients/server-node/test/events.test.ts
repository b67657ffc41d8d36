import { expect, test, vi } from "vitest";
import { type EntryEvent, eachOfBatch, Follower, NotAnEventError, parseEvent } from "../src/index.ts";

function entry(seq: number, conversation_id = "dm_x"): EntryEvent {
  return {
    v: 1,
    type: "entry",
    id: `${conversation_id}:${seq}`,
    stack: "pigeonhole",
    conversation: { conversation_id, kind: "direct", members: ["alice", "bob"] },
    message: {
      conversation_id,
      seq,
      message_id: `m${seq}`,
      sender_id: "alice",
      sent_at: "2026-11-20T10:00:00.000Z",
      kind: "text",
      body: `text ${seq}`,
    },
  };
}

test("an event comes as a text, as an object, and in EventBridge's", () => {
  const event = entry(1);
  for (const got of [JSON.stringify(event), event, { source: "pigeonhole", "detail-type": "entry", detail: event }]) {
    expect(parseEvent(got)).toEqual(event);
  }
  expect(parseEvent({ ...event, type: "later" })).toBeUndefined();
  const unreadable = { ...event, message: { conversation_id: "dm_x", seq: 1 } };
  expect(parseEvent(unreadable)).toEqual(unreadable);
});

test("what is no event names its field", () => {
  const event = entry(1);
  const wrong: [unknown, string][] = [
    ["no JSON", "the event is no JSON"],
    ["[]", "the event must be an object"],
    [{ ...event, v: 2 }, "v must be 1"],
    [{ ...event, id: "" }, "id must be a text"],
    [{ ...event, message: { ...event.message, seq: 0 } }, "message.seq must be a number from 1 on"],
    [{ ...event, message: { ...event.message, sender_id: 7 } }, "message.sender_id must be a text"],
    [{ ...event, message: entry(1, "dm_y").message }, "message.conversation_id must be the conversation's"],
    [{ ...event, type: "report" }, "report_id must be a text"],
    [{ ...event, type: "job" }, "job_id must be a text"],
    [{ ...event, type: undefined }, "type must be a text"],
  ];
  for (const [got, problem] of wrong) {
    expect(() => parseEvent(got)).toThrow(new NotAnEventError(problem));
  }
});

test("after a failure no further entry of its conversation is processed, and all of them come back", async () => {
  const told = vi.spyOn(console, "error").mockReturnValue();
  const taken: string[] = [];
  const bodies = [entry(1), entry(2), entry(3), entry(1, "dm_y"), { v: 1 }].map((event) => JSON.stringify(event));
  const Records = bodies.map((body, place) => ({ messageId: `r${place}`, body }));
  const answer = await eachOfBatch({ Records }, (event) => {
    if (event.id === "dm_x:2") {
      throw new Error("the index is down");
    }
    taken.push(event.id);
  });
  expect(taken).toEqual(["dm_x:1", "dm_y:1"]);
  expect(answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)).toEqual(["r1", "r2", "r4"]);
  expect(told).toHaveBeenCalledTimes(2);
});

test("a follower knows what has come, in any order, and what lacks", () => {
  const follower = new Follower({ dm_x: 3 });
  expect(follower.has(entry(3))).toBe(true);
  for (const seq of [4, 8, 6, 8, 2, 9]) {
    follower.add(entry(seq), 1000 + seq);
  }
  expect([4, 5, 6, 7, 8].map((seq) => follower.has(entry(seq)))).toEqual([true, false, true, false, true]);
  expect(follower.holes(1005)).toEqual([]);
  expect(follower.holes(1006)).toEqual([{ conversation_id: "dm_x", from_seq: 5, to_seq: 5 }]);
  expect(follower.holes(1009)).toEqual([
    { conversation_id: "dm_x", from_seq: 5, to_seq: 5 },
    { conversation_id: "dm_x", from_seq: 7, to_seq: 7 },
  ]);
  expect(follower.lasts()).toEqual({ dm_x: 4 });
  follower.add(entry(5), 1010);
  follower.add(entry(7), 1010);
  expect(follower.lasts()).toEqual({ dm_x: 9 });
  expect(follower.holes(2000)).toEqual([]);
});

test("a conversation begins with the entry that comes first, and an older one is no repetition", () => {
  const follower = new Follower();
  follower.add(entry(42));
  expect([40, 41, 42, 43].map((seq) => follower.has(entry(seq)))).toEqual([false, false, true, false]);
  expect(follower.holes()).toEqual([]);
  follower.add(entry(41));
  expect(follower.lasts()).toEqual({ dm_x: 42 });
});
