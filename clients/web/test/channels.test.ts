// Channels: what is refused before it is sent.

import { expect, it } from "vitest";
import type { Queued } from "../src/index.ts";
import { checkQueued } from "../src/protocol.ts";

const news = { conversation_id: "ch_n" };

it("what only channels have is refused elsewhere", () => {
  const refused = (queued: Queued) => () => checkQueued(queued);
  const group = { title: "Trip", members: [], join: "open" as const };
  const create = { action: "create", client_msg_id: "c1", ...group } as const;
  expect(refused({ clientMsgId: "c1", request: create })).toThrow("join: must be left out");
  expect(refused({ clientMsgId: "c1", request: { ...create, kind: "channel" } })).not.toThrow();
  const inGroup = { conversation_id: "gr_a" };
  const update = { action: "update", client_msg_id: "u1", join: "open" } as const;
  expect(refused({ clientMsgId: "u1", request: { ...update, ...inGroup } })).toThrow("join: must be left out");
  expect(refused({ clientMsgId: "u1", request: { ...update, ...news } })).not.toThrow();
  const rings = { action: "update", client_msg_id: "u2", rings: "mentions" } as const;
  expect(refused({ clientMsgId: "u2", request: { ...rings, ...inGroup } })).toThrow("rings: must be left out");
  expect(refused({ clientMsgId: "u2", request: { ...rings, ...news } })).not.toThrow();
});
