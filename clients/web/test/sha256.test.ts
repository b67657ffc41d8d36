import { createHash, randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { directConversationId } from "../src/made-ids.ts";
import { sha256 } from "../src/sha256.ts";

it("gives the digest of the platform, for each length around a block", () => {
  for (let length = 0; length < 200; length += 1) {
    const message = randomBytes(length);
    expect(Buffer.from(sha256(message))).toEqual(createHash("sha256").update(message).digest());
  }
});

it("knows the id of a direct conversation, from either side", () => {
  // From crates/wire/src/made_ids.rs.
  expect(directConversationId("alice", "bob")).toBe("dm_cqnezuscwz7if3puu6f3iggubjvdq4gs");
  expect(directConversationId("bob", "alice")).toBe(directConversationId("alice", "bob"));
});
