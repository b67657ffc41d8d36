// A client of a server that the test controls, and components that show it.

import { type Config, memoryStorage, open, type Pigeonhole } from "@pigeonhole/client";
import { cleanup } from "@testing-library/react";
import { afterEach, beforeEach, vi } from "vitest";
import { directConversationId } from "../../web/src/made-ids.ts";
import { nodeSocket, Server } from "../../web/test/server.ts";

export const ID = directConversationId("alice", "bob");
export let server: Server;
export let client: Pigeonhole;

const config = (): Config => ({
  url: server.url,
  userId: "alice",
  token: () => "a.b.c",
  storage: memoryStorage(),
  webSocket: nodeSocket,
  timing: { reconnectFirst: 10, reconnectMax: 20, ackEvery: 10 },
});

beforeEach(async () => {
  server = await Server.start();
  client = await open(config());
});

afterEach(async () => {
  cleanup();
  vi.restoreAllMocks();
  await client.close();
  await server.stop();
});

export function message(seq: number, body = `bob ${seq}`) {
  const sent_at = `2026-11-20T10:00:0${seq}.000Z`;
  return { conversation_id: ID, seq, message_id: `m${seq}`, sender_id: "bob", kind: "text", body, sent_at };
}

/** Bob writes, while this device is connected. */
export function says(...messages: ReturnType<typeof message>[]): void {
  server.say({ type: "messages.new", conversation_id: ID, messages });
}
