// Two users of the web client chat encrypted, over the local server.

import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type Chat, type MessageItem, memoryStorage, open, type Pigeonhole, type Storage } from "../src/index.ts";
import { directConversationId } from "../src/made-ids.ts";
import { Keys, Security } from "../src/sealed.ts";
import { nodeSocket } from "../test/server.ts";
import { LocalServer, published } from "./local-server.ts";

const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
let server: LocalServer;
const clients: Pigeonhole[] = [];

beforeAll(async () => {
  server = await LocalServer.start();
}, 540_000);

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

afterAll(() => server?.stop());

async function start(userId: string, keys?: Keys, storage: Storage = memoryStorage()): Promise<Pigeonhole> {
  const encrypted = keys ? { encrypted: keys } : {};
  const client = await open({ ...(await server.config(userId)), storage, webSocket: nodeSocket, ...encrypted });
  clients.push(client);
  await new Promise<void>((resolve) => {
    const look = () => client.connection.getSnapshot().state === "caught_up" && resolve();
    client.connection.subscribe(look);
    look();
  });
  if (keys) {
    await published(client);
  }
  return client;
}

/** Resolves with the messages of a chat once they fit. */
function messages(chat: Chat, fits: (items: MessageItem[]) => boolean): Promise<MessageItem[]> {
  const view = chat.messages();
  return new Promise((resolve) => {
    const look = () => {
      const items = view.items.filter((item) => item.type === "message");
      if (fits(items)) {
        end();
        resolve(items);
      }
    };
    const end = view.subscribe(look);
    queueMicrotask(look);
  });
}

const brief = (items: MessageItem[]) =>
  items.map(({ senderId, body, isSealed }) => `${senderId}${isSealed ? " sealed" : ""}: ${body}`);
const last = (body: string) => (items: MessageItem[]) => items.at(-1)?.body === body;

it("two users chat, over a reload, and the server has no text of it", async () => {
  const [alicesKeys, bobsKeys] = [await Keys.generate(wasm), await Keys.generate()];
  const storage = memoryStorage();
  const alice = await start("alice", alicesKeys, storage);
  const bob = await start("bob", bobsKeys);
  await (await alice.direct("bob").send("a secret of alice")).stored;
  const came = await messages(bob.direct("alice"), last("a secret of alice"));
  await (await bob.direct("alice").reply(came.at(-1)?.seq ?? 0, "a secret of bob")).stored;
  await messages(alice.direct("bob"), last("a secret of bob"));
  await alice.close();

  const again = await start("alice", await Keys.import(alicesKeys.export()), storage);
  await (await again.direct("bob").send("after the reload")).stored;
  const shown = ["alice sealed: a secret of alice", "bob sealed: a secret of bob", "alice sealed: after the reload"];
  expect(brief(await messages(bob.direct("alice"), last("after the reload")))).toEqual(shown);
  expect(brief(await messages(again.direct("bob"), last("after the reload")))).toEqual(shown);

  const plain = await start("alice");
  const page = await plain.direct("bob").history();
  expect(page.messages.map(({ kind }) => kind)).toEqual(["commit", "sealed", "sealed", "sealed"]);
  expect(JSON.stringify(page)).not.toContain("secret");
});

it("an edit and a reaction are sealed too", async () => {
  const carol = await start("carol", await Keys.generate(wasm));
  const dan = await start("dan", await Keys.generate());
  const { seq } = await (await carol.direct("dan").send("a first text")).stored;
  await messages(dan.direct("carol"), last("a first text"));
  await (await carol.direct("dan").edit(seq, "a better text")).stored;
  await (await dan.direct("carol").react(seq, "👍")).stored;
  const isReacted = ([first]: MessageItem[]) => first?.body === "a better text" && first.reactions.length === 1;
  await messages(carol.direct("dan"), isReacted);
  await messages(dan.direct("carol"), isReacted);
});

it("both users see the same safety number, and a user without keys gets nothing in the clear", async () => {
  const erin = await start("erin", await Keys.generate(wasm));
  const frank = await start("frank", await Keys.generate());
  await (await erin.direct("frank").send("hi")).stored;
  await messages(frank.direct("erin"), last("hi"));
  const [ours, theirs] = [new Security(erin), new Security(frank)];
  expect(await ours.safetyNumber("frank")).toMatch(/^(\d{5} ){11}\d{5}$/);
  expect(await theirs.safetyNumber("erin")).toBe(await ours.safetyNumber("frank"));
  expect(await ours.lock("frank")).toBe("sealed");
  expect(await ours.lock("grace")).toBe("plain");

  await start("grace");
  const sent = await erin.direct("grace").send("not in the clear");
  await expect(sent.stored).rejects.toMatchObject({ code: "no_keys" });
  expect(directConversationId("erin", "grace")).toBe(erin.direct("grace").id);
});
