// Tests of pictures, files and voice notes, against a server of frames and one of bytes, both controlled by the test.

import { createHash } from "node:crypto";
import { createServer, type Server as HttpServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import {
  type Client,
  type ClientEvent,
  type Config,
  connect,
  limits,
  type MediaDraft,
  memoryStorage,
  nameOf,
} from "../src/feed.ts";
import type { Media } from "../src/frames.ts";
import { safeType } from "../src/media.ts";
import { Store } from "../src/store/store.ts";
import { Timeline } from "../src/timeline.ts";
import { fits } from "./script.ts";
import { nodeSocket, Server } from "./server.ts";

/** A request to S3. */
interface Asked {
  path: string;
  headers: IncomingMessage["headers"];
  bytes: Buffer;
  answer: (status: number, body?: string | Buffer) => void;
  /** Breaks the connection off after `body`, with this `content-length`. */
  breakOff: (length: number, body: string) => void;
}

/** A store of bytes. */
class Bytes {
  #server: HttpServer;
  #asked: Asked[] = [];
  #arrived = () => {};

  constructor() {
    this.#server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) {
        chunks.push(chunk as Buffer);
      }
      const answer = (status: number, body: string | Buffer = "") => response.writeHead(status).end(body);
      const breakOff = (length: number, body: string) =>
        response.writeHead(200, { "content-length": length }).write(body, () => response.destroy());
      const { url: path = "", headers } = request;
      this.#asked.push({ path, headers, bytes: Buffer.concat(chunks), answer, breakOff });
      this.#arrived();
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((listening) => this.#server.listen(0, "127.0.0.1", listening));
  }

  at(path: string): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
  }

  async asked(): Promise<Asked> {
    for (;;) {
      const asked = this.#asked.shift();
      if (asked) {
        return asked;
      }
      await new Promise<void>((arrived) => {
        this.#arrived = arrived;
      });
    }
  }

  async end(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((closed) => this.#server.close(closed));
  }
}

let server: Server;
let bytes: Bytes;
const clients: Client[] = [];

beforeEach(async () => {
  server = await Server.start();
  bytes = new Bytes();
  await bytes.listen();
});

afterEach(async () => {
  vi.unstubAllGlobals();
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await server.stop();
  await bytes.end();
});

async function start(config: Partial<Config> = {}): Promise<Client> {
  const timing = { reconnectFirst: 1, reconnectMax: 5, ...config.timing };
  const more = { userId: "alice", token: () => "a.b.c", webSocket: nodeSocket, ...config, timing };
  const client = await connect({ url: server.url, ...more });
  clients.push(client);
  await server.catchUp();
  return client;
}

async function until<T extends ClientEvent["type"]>(client: Client, type: T): Promise<ClientEvent & { type: T }> {
  for await (const event of client.events) {
    if (event.type === type) {
      return event as ClientEvent & { type: T };
    }
  }
  throw new Error("the client is closed");
}

const later = "2026-11-21T10:15:00.000Z";
const headers = { "content-type": "image/png", "if-none-match": "*", "x-amz-checksum-sha256": "x" };
const sha256 = (data: Buffer | string) => createHash("sha256").update(data).digest();
const picture: MediaDraft = {
  blob: new Blob(["picture"], { type: "image/png" }),
  kind: "image",
  body: "us",
  width: 4,
  height: 3,
  // Not in a message in the clear.
  thumbnail: "AAAA",
};
const media = {
  mime: "image/png",
  bytes: 7,
  sha256: sha256("picture").toString("base64"),
  width: 4,
  height: 3,
};
const stored = {
  conversation_id: "dm_ab",
  seq: 5,
  message_id: "0198b7a0-0000-7000-8000-000000000005",
  sent_at: "2026-11-20T10:00:05.000Z",
  duplicate: false,
};

it("a picture is announced, put, looked at and sent, and a text overtakes it", async () => {
  const client = await start();
  const sent = await client.sendMedia({ to: "bob" }, picture);
  expect(client.outbox.map(({ clientMsgId }) => clientMsgId)).toEqual([sent.clientMsgId]);
  const announced = await server.answer("upload", {
    media_id: "m_1",
    url: bytes.at("/m_1"),
    headers,
    expires_at: later,
  });
  fits("Request", announced);
  const { mime, bytes: length, sha256 } = media;
  expect(announced).toEqual({ action: "upload", to: "bob", kind: "image", mime, bytes: length, sha256 });
  const put = await bytes.asked();
  expect([put.path, put.bytes.toString(), put.headers]).toMatchObject(["/m_1", "picture", headers]);
  await client.sendTo("bob", "meanwhile");
  expect(await server.answer("send", stored)).toMatchObject({ kind: "text" });
  put.answer(200);
  expect(await server.answer("uploaded", { media_id: "m_1" })).toEqual({ action: "uploaded", media_id: "m_1" });
  const request = await server.answer("send", { ...stored, seq: 6 });
  fits("Request", request);
  expect(request).toMatchObject({
    to: "bob",
    client_msg_id: sent.clientMsgId,
    kind: "image",
    body: "us",
    media: { media_id: "m_1", ...media },
  });
  expect(await sent.stored).toMatchObject({ seq: 6 });
  expect(client.outbox).toEqual([]);
});

it("what is not taken is put again where the server says then, and 412 means that it is there", async () => {
  const client = await start();
  await client.sendMedia({ to: "bob" }, picture);
  await server.answer("upload", { media_id: "m_1", url: bytes.at("/old"), headers, expires_at: later });
  (await bytes.asked()).answer(403);
  expect(await server.answer("upload", { media_id: "m_1", url: bytes.at("/new"), headers, expires_at: later })).toEqual(
    { action: "upload", media_id: "m_1" },
  );
  const put = await bytes.asked();
  expect(put.path).toBe("/new");
  put.answer(412);
  await server.asked("uploaded");
});

it("a header that the platform does not take is a lost try, and the next place is asked for", async () => {
  const strict = class {
    upload = {};
    open() {}
    setRequestHeader() {
      throw new SyntaxError("no header");
    }
  };
  vi.stubGlobal("XMLHttpRequest", strict);
  const client = await start({ timing: { retryFirst: 1 } });
  await client.sendMedia({ to: "bob" }, picture);
  const place = { media_id: "m_1", url: bytes.at("/m_1"), headers, expires_at: later };
  await server.answer("upload", place);
  expect(await server.asked("upload")).toMatchObject({ media_id: "m_1" });
});

it("more than 16 MiB go in parts, each of which is put again alone", async () => {
  const client = await start();
  const part = limits.MEDIA_PART_BYTES;
  const data = Buffer.alloc(2 * part + 100_000, 7);
  const blob = new Blob([data]);
  await client.sendMedia({ to: "bob" }, { blob, kind: "file", name: "a/b\u202e.bin" });
  const digests = [0, part, 2 * part].map((at) => sha256(data.subarray(at, at + part)));
  const parts = [1, 2, 3].map((number) => {
    const offset = (number - 1) * part;
    const url = bytes.at(`/${number}`);
    return {
      number,
      offset,
      bytes: Math.min(part, data.length - offset),
      url,
      headers: { "x-amz-checksum-sha256": "x" },
    };
  });
  const announced = await server.answer("upload", { media_id: "m_1", parts, expires_at: later });
  fits("Request", announced);
  expect(announced).toMatchObject({
    sha256: sha256(Buffer.concat(digests)).toString("base64"),
    parts: digests.map((digest) => digest.toString("base64")),
    mime: "application/octet-stream",
  });
  const first = await bytes.asked();
  expect([first.path, first.bytes.length]).toEqual(["/1", part]);
  first.answer(200);
  (await bytes.asked()).answer(500);
  await server.answer("upload", { media_id: "m_1", parts: parts.slice(1), expires_at: later });
  for (const number of [2, 3]) {
    const put = await bytes.asked();
    expect([put.path, put.bytes.equals(data.subarray((number - 1) * part, number * part))]).toEqual([
      `/${number}`,
      true,
    ]);
    put.answer(200);
  }
  await server.answer("upload", { media_id: "m_1", expires_at: later });
  await server.answer("uploaded", { media_id: "m_1" });
  expect(await server.asked("send")).toMatchObject({ media: { name: "a_b_.bin", bytes: data.length }, body: "" });
});

it("an upload goes on after a restart, with the same id", async () => {
  const storage = memoryStorage();
  const client = await start({ storage });
  const { clientMsgId } = await client.sendMedia({ to: "bob" }, { ...picture, replyTo: 3 });
  await server.answer("upload", { media_id: "m_1", url: bytes.at("/m_1"), headers, expires_at: later });
  await bytes.asked();
  await client.close();
  const second = await start({ storage });
  expect(second.outbox).toMatchObject([{ clientMsgId, body: "us", replyTo: 3, media: { media_id: "m_1" } }]);
  const place = { media_id: "m_1", url: bytes.at("/again"), headers, expires_at: later };
  expect(await server.answer("upload", place)).toEqual({ action: "upload", media_id: "m_1" });
  (await bytes.asked()).answer(200);
  await server.answer("uploaded", { media_id: "m_1" });
  await server.answer("send", { ...stored, seq: 1 });
  expect(await until(second, "message")).toMatchObject({
    message: { client_msg_id: clientMsgId, kind: "image", media: { media_id: "m_1", ...media }, reply_to: 3 },
  });
  await second.close();
  expect((await (await Store.open(storage, "alice")).saved()).outbox).toEqual([]);
});

it("a refused upload fails, and one that is cancelled is not sent", async () => {
  const client = await start();
  const first = await client.sendMedia({ to: "bob" }, picture);
  const { id } = await server.asked("upload");
  const error = { code: "forbidden", message: "no", retryable: false };
  server.say({ type: "error", action: "upload", id, error });
  await expect(first.stored).rejects.toMatchObject({ code: "forbidden" });
  expect(await until(client, "failed")).toMatchObject({ clientMsgId: first.clientMsgId, body: "us" });
  const second = await client.sendMedia({ to: "bob" }, picture);
  await server.answer("upload", { media_id: "m_1", url: bytes.at("/m_1"), headers, expires_at: later });
  const put = await bytes.asked();
  expect(await client.cancel(second.clientMsgId)).toBe(true);
  await expect(second.stored).rejects.toMatchObject({ code: "cancelled" });
  expect(await until(client, "failed")).toMatchObject({
    clientMsgId: second.clientMsgId,
    error: { code: "cancelled" },
  });
  put.answer(200);
  expect([await client.cancel(second.clientMsgId), client.outbox]).toEqual([false, []]);
});

it("what is forwarded is copied where it is", async () => {
  const client = await start();
  const message = { ...stored, sender_id: "bob", kind: "image", body: "us", media: { media_id: "m_1", ...media } };
  await client.forward({ conversation_id: "gr_a" }, message, { body: "look", replyTo: 3, mentions: ["bob"] });
  const copied = await server.answer("upload", { media_id: "m_2", expires_at: later });
  fits("Request", copied);
  const copy_of = { conversation_id: "dm_ab", seq: 5 };
  expect(copied).toEqual({ action: "upload", conversation_id: "gr_a", copy_of });
  expect(await server.asked("send")).toMatchObject({
    kind: "image",
    body: "look",
    reply_to: 3,
    mentions: ["bob"],
    media: { media_id: "m_2", ...media },
  });
});

it("what can't be sent is refused at once, with the field", async () => {
  const client = await start();
  const refused = async (draft: Partial<MediaDraft>) => {
    const sent = client.sendMedia({ to: "bob" }, { ...picture, ...draft });
    return sent.catch(({ code, message }) => `${code} ${message}`);
  };
  const empty = new Blob([], { type: "image/png" });
  expect(await refused({ blob: empty })).toMatch(/^bad_request bytes/);
  expect(await refused({ blob: new Blob(["<svg/>"], { type: "image/svg+xml" }) })).toMatch(/^bad_request mime/);
  expect(await refused({ width: 0 })).toMatch(/^bad_request width/);
  expect(await refused({ kind: "file" })).toMatch(/^bad_request name/);
  expect(await refused({ kind: "voice" })).toMatch(/^bad_request mime/);
  expect(await refused({ thumbhash: "x".repeat(45) })).toMatch(/^bad_request thumbhash/);
  expect(await refused({ thumbnail: "x".repeat(5465) })).toMatch(/^bad_request thumbnail/);
  expect(await refused({ body: "x".repeat(17_000) })).toMatch(/^too_large/);
  expect(client.outbox).toEqual([]);
});

it("a name that nobody may have becomes one", () => {
  expect(nameOf("../../etc/passwd")).toBe(".._.._etc_passwd");
  expect([nameOf("a\nb\u202ecod.exe"), nameOf(".."), nameOf(" ")]).toEqual(["a_b_cod.exe", "_", "_"]);
  const long = nameOf(`${"ä".repeat(200)}.docx`);
  expect([new TextEncoder().encode(long).length <= 255, long.endsWith("ä.docx")]).toEqual([true, true]);
});

it("a download is checked, asked for once more, and never a page", async () => {
  const client = await start();
  const carries = (kind: string, mime: string, data: string) => {
    const digest = sha256(data).toString("base64");
    return { kind, media: { media_id: `m_${data}`, mime, bytes: data.length, sha256: digest } };
  };
  // Concurrent downloads share one request.
  const [image, page, gone] = [
    client.download(carries("image", "image/png", "one")),
    client.download(carries("file", "text/html", "two")),
    client.download(carries("file", "text/html", "gone")).catch(({ code }) => code),
  ];
  const place = (...ids: string[]) => ({
    items: ids.map((id) => ({ media_id: id, url: bytes.at(`/${id}`), expires_at: later })),
    gone: ["m_gone"],
  });
  const asked = await server.answer("download", place("m_one", "m_two"));
  expect(asked).toEqual({ action: "download", media_ids: ["m_one", "m_two", "m_gone"] });
  const answers: Record<string, string> = { "/m_one": "one", "/m_two": "two" };
  for (const { path, answer } of [await bytes.asked(), await bytes.asked()]) {
    answer(200, answers[path]);
  }
  expect([(await image).type, (await page).type, await gone]).toEqual([
    "image/png",
    "application/octet-stream",
    "gone",
  ]);
  expect(await (await image).text()).toBe("one");

  const again = client.download(carries("image", "image/png", "one"));
  await server.answer("download", place("m_one"));
  (await bytes.asked()).answer(403);
  await server.answer("download", place("m_one"));
  (await bytes.asked()).answer(200, "eno");
  await expect(again).rejects.toMatchObject({ code: "file" });
});

it("a download ends when its signal does, also while there is no connection, and between two tries", async () => {
  const client = await start();
  const media = { media_id: "m_1", mime: "image/png", bytes: 5, sha256: "" };
  const place = { items: [{ media_id: "m_1", url: bytes.at("/m_1"), expires_at: later }], gone: [] };
  const end = new AbortController();
  const pausing = client.download({ kind: "image", media }, end.signal);
  await server.answer("download", place);
  (await bytes.asked()).answer(500);
  await server.stop();
  const waiting = client.download({ kind: "image", media }, end.signal);
  end.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(pausing).rejects.toThrow("enough");
  await expect(client.download({ kind: "image", media }, end.signal)).rejects.toThrow("enough");
  server = await Server.start();
});

it("a download that breaks off goes on where it was, and begins again where all of it comes", async () => {
  const client = await start();
  const digest = sha256("hello").toString("base64");
  const media = { media_id: "m_1", mime: "image/png", bytes: 5, sha256: digest };
  const place = { items: [{ media_id: "m_1", url: bytes.at("/m_1"), expires_at: later }], gone: [] };
  for (const [status, rest] of [
    [206, "llo"],
    [200, "hello"],
  ] as const) {
    const fetching = client.download({ kind: "image", media });
    await server.answer("download", place);
    (await bytes.asked()).breakOff(5, "he");
    const { headers, answer } = await bytes.asked();
    expect(headers.range).toBe("bytes=2-");
    answer(status, rest);
    expect(await (await fetching).text()).toBe("hello");
  }
});

it("the view shows how far an upload is, why it failed, and what a message carries until it is deleted", async () => {
  const timeline = new Timeline("alice");
  const entries = () => timeline.entries(() => "").filter(({ type }) => type !== "day");
  const upload = { source: { file: picture.blob }, kind: "image", ...media } as const;
  timeline.queued({ clientMsgId: "m1", target: { to: "bob" }, body: "us", media: upload }, later);
  timeline.uploading({ clientMsgId: "m1", done: 3 });
  expect(entries()).toMatchObject([{ type: "unsent", tick: "waiting", media, unsent: { uploaded: 3 } }]);
  timeline.failed("m1", "no");
  expect(entries()).toMatchObject([{ type: "unsent", tick: "failed" }]);
  const message = { ...stored, seq: 1, sender_id: "alice", kind: "image", body: "us", client_msg_id: "m1" };
  timeline.message({ ...message, media: { media_id: "m_1", ...media } });
  expect(entries()).toMatchObject([{ type: "message", message: { media: { media_id: "m_1" } }, tick: "stored" }]);
  timeline.message({ ...message, seq: 2, client_msg_id: "m2", kind: "delete", body: "", target_seq: 1 });
  const [deleted] = entries();
  expect(deleted?.type === "message" && deleted.message).not.toHaveProperty("media");
});

it("a recording is a sound to a browser, and what could be a document is a file", () => {
  const typeOf = (mime: string) => safeType("voice", { mime } as Media);
  for (const mime of ["audio/webm", "audio/mp4", "audio/x-m4a", "audio/vnd.wave"]) {
    expect(typeOf(mime)).toBe(mime);
  }
  for (const mime of ["audio/x+xml", "audio/html", "audio/vnd.x-xml", "text/html"]) {
    expect(typeOf(mime)).toBe("application/octet-stream");
  }
});
