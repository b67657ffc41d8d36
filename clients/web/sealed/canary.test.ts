// Looks for the text of encrypted messages in all that the server gets and keeps, in each encoding that could hide it.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { OpenSocket } from "../src/config.ts";
import { memoryStorage, open, type Pigeonhole } from "../src/index.ts";
import { Keys } from "../src/sealed.ts";
import { nodeSocket } from "../test/server.ts";
import { LocalServer, published } from "./local-server.ts";

const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "pigeonhole-canary-"));
let server: LocalServer;
const [frames, logs]: [string[], string[]] = [[], []];

beforeAll(async () => {
  server = await LocalServer.start("--data", folder);
  server.logged = (line) => logs.push(line);
}, 540_000);

afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true });
});

/** Returns the forms in which bytes can contain a text. */
function forms(text: string): Map<string, Buffer> {
  const bytes = Buffer.from(text);
  const each = (write: (byte: string) => string) =>
    [...bytes.toString("hex").matchAll(/../g)].map(([hex]) => write(hex));
  const texts: [string, string][] = [
    ["hex", bytes.toString("hex")],
    ["upper hex", bytes.toString("hex").toUpperCase()],
    ["URL", each((hex) => `%${hex.toUpperCase()}`).join("")],
    ["JSON", each((hex) => `\\u00${hex}`).join("")],
    ...[0, 1, 2].map((offset): [string, string] => {
      // The first and the last letters depend on what is next to the text.
      const whole = Buffer.concat([Buffer.alloc(offset), bytes])
        .toString("base64")
        .replaceAll("=", "");
      return [`base64 behind ${offset}`, whole.slice(offset === 0 ? 0 : offset + 1, -2)];
    }),
  ];
  const wide = Buffer.from(text, "utf16le");
  return new Map<string, Buffer>([
    ["plain", bytes],
    ["UTF-16, little end", wide],
    ["UTF-16, big end", Buffer.from(wide).swap16()],
    ...texts.map(([name, form]): [string, Buffer] => [name, Buffer.from(form)]),
  ]);
}

function found(text: string, bytes: Buffer): string[] {
  return [...forms(text)].filter(([, form]) => bytes.includes(form)).map(([name]) => name);
}

function database(): Buffer {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Buffer.concat(files.map(({ parentPath, name }) => readFileSync(join(parentPath, name))));
}

/** Two users chat, and both write the text, an edit and a reply with it. The frames of both are kept. */
async function chat(users: [string, string], text: string, keys?: [Keys, Keys]): Promise<void> {
  const recorded: OpenSocket = (url, protocols) => {
    const socket = nodeSocket(url, protocols);
    const send = socket.send.bind(socket);
    socket.send = (frame) => {
      frames.push(frame);
      send(frame);
    };
    (socket as unknown as EventTarget).addEventListener("message", (event) => {
      frames.push(String((event as MessageEvent).data));
    });
    return socket;
  };
  const clients: Pigeonhole[] = [];
  for (const [at, user] of users.entries()) {
    const encrypted = keys?.[at];
    const config = { ...(await server.config(user)), storage: memoryStorage(), webSocket: recorded };
    const client = await open({ ...config, ...(encrypted && { encrypted }) });
    if (encrypted) {
      await published(client);
    }
    await client.registerDevice({
      platform: "apns",
      token: Buffer.from(user).toString("hex").padEnd(64, "0"),
      preview: true,
      when: "unread",
    });
    clients.push(client);
  }
  const [one, other] = clients as [Pigeonhole, Pigeonhole];
  const { seq } = await (await one.direct(users[1]).send(text)).stored;
  const shown = (client: Pigeonhole, peer: string, body: string) =>
    new Promise<void>((resolve) => {
      const view = client.direct(peer).messages();
      const look = () => view.items.some((item) => item.type === "message" && item.body === body) && resolve();
      view.subscribe(look);
      queueMicrotask(look);
    });
  await shown(other, users[0], text);
  await (await other.direct(users[0]).reply(seq, `answered ${text}`)).stored;
  await (await one.direct(users[1]).edit(seq, `edited ${text}`)).stored;
  await shown(other, users[0], `edited ${text}`);
  // The last message reaches a phone.
  await other.close();
  await (await one.direct(users[1]).send(`again ${text}`)).stored;
  await one.close();
}

/** Resolves with the notifications on a user's phone, once one is there. */
async function notifications(user: string): Promise<string> {
  for (;;) {
    const phones = await (await fetch(`${server.url}/phones?user=${user}`)).text();
    if (phones.includes('"seq"')) {
      return phones;
    }
  }
}

const canary = (name: string) => `${name}-${crypto.randomUUID()}`;

it("each form is found where it is", () => {
  const text = canary("form");
  expect(forms(text).size).toBe(10);
  for (const [name, form] of forms(text)) {
    expect(found(text, Buffer.concat([Buffer.from("{"), form, Buffer.from("}")])), name).toContain(name);
  }
  for (const offset of [0, 1, 2, 3, 4, 5]) {
    const base64 = Buffer.from(`${"x".repeat(offset)}${text} and more`).toString("base64");
    expect(found(text, Buffer.from(base64))).toEqual([`base64 behind ${offset % 3}`]);
  }
});

it("the server has nothing of an encrypted chat, and everything of another", async () => {
  const [clear, secret] = [canary("clear"), canary("secret")];
  await chat(["clara", "clyde"], clear);
  await chat(["sarah", "simon"], secret, [await Keys.generate(wasm), await Keys.generate(wasm)]);
  const phones = await Promise.all(["clyde", "simon"].map(notifications));
  const places = {
    frames: Buffer.from(frames.join("\n")),
    database: database(),
    logs: Buffer.from(logs.join("\n")),
    phones: Buffer.from(phones.join("\n")),
  };
  for (const [name, bytes] of Object.entries(places)) {
    expect(found(secret, bytes), name).toEqual([]);
  }
  // The places are those where a text would be. Logs have no text of any chat.
  expect(found(clear, places.frames)).toContain("plain");
  expect(found(clear, places.database)).not.toEqual([]);
  expect(found(clear, places.phones)).toContain("plain");
  expect(found("SendFunction", places.logs)).toContain("plain");
});
