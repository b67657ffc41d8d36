// The session with encryption, with a keyring of made-up ciphertext: frames, events and writes.

import { expect, it } from "vitest";
import { defaultTiming } from "../src/config.ts";
import type { ClientEvent, Notice, UnreadableMessage } from "../src/events.ts";
import { sealFile } from "../src/files.ts";
import type { Conversation, Message, Problem, Request, System } from "../src/frames.ts";
import { directConversationId } from "../src/made-ids.ts";
import { digestsOf } from "../src/media.ts";
import { nothingSaved, type Saved } from "../src/saved.ts";
import type { Put, Step } from "../src/session/core.ts";
import type {
  Change,
  Envelope,
  Keyring,
  Opened,
  PartFetch,
  PartUpload,
  Party,
  Prepared,
  Readiness,
  Sealed,
} from "../src/session/keyring.ts";
import { SealedSession } from "../src/session/sealing.ts";
import { memoryStorage } from "../src/store/memory.ts";
import { Store } from "../src/store/store.ts";
import { Timeline } from "../src/timeline.ts";
import { message } from "./server.ts";

const ID = directConversationId("alice", "bob");
const GROUP = "gr_1";

/** Needs `group_info` before the first message. Its ciphertext is the envelope in hexadecimal. */
class FakeKeyring implements Keyring {
  epoch = 1;
  isReady = false;
  joinedAt = 0;
  at = 0;
  /** Entries from this one on can't be judged yet. */
  judgesBelow = Number.POSITIVE_INFINITY;
  rolls: unknown[] = [];
  encrypted = new Set<string>();
  isFranking = false;
  parts: PartUpload[] = [];
  files: PartFetch[] = [];
  carried: unknown[] = [];
  #sealed = new Map<string, Sealed>();
  #isAsked = false;
  #requests: [string, Request][] = [];
  #changes: [string, string | null][] = [];

  takeChanges() {
    return this.#changes.splice(0);
  }

  connected() {}

  keysLow(left: number) {
    this.#changes.push(["low", String(left)]);
  }

  requests() {
    return this.#requests.splice(0);
  }

  answered(key: string, reply: { result: unknown } | { problem: Problem }) {
    this.isReady = "result" in reply;
    this.#changes.push([key, "answered"]);
    return { notices: [{ notice: "joined" }], entry: undefined };
  }

  wakeAt() {
    return undefined;
  }

  position() {
    return this.joinedAt > 0 ? this.at : undefined;
  }

  take({ seq, kind, body, sender_id, ...rest }: Message): { shown: Opened; notices: Notice[] } {
    if (seq >= this.judgesBelow) {
      return { shown: "later", notices: [] };
    }
    this.at = seq;
    this.#changes.push(["at", String(seq)]);
    return { shown: this.#open({ ...rest, seq, kind, body, sender_id }), notices: [] };
  }

  #open(entry: Message): Opened {
    if (entry.kind === "commit") {
      return "nothing";
    }
    if (entry.kind === "system") {
      const { commit: _, ...system } = entry;
      return { plain: system };
    }
    if (entry.kind !== "sealed") {
      return entry.kind === "delete" ? { plain: entry } : { unreadable: "plain_behind_birth" };
    }
    if (entry.sender_id === "alice") {
      return "own";
    }
    const json = Buffer.from(entry.body, "hex").toString();
    return json === "" ? { unreadable: "broken" } : { plain: { ...entry, ...JSON.parse(json) } };
  }

  prepare(party: Party): Readiness {
    if (!this.isReady && !this.#isAsked) {
      this.#isAsked = true;
      const target = "user" in party ? { to: party.user } : { conversation_id: party.conversation };
      this.#requests.push(["birth", { action: "group_info", ...target }]);
    }
    return this.isReady ? "ready" : "waits";
  }

  seal(_: Party, clientMsgId: string, { kind, body, fields }: Envelope): Sealed {
    const bytes = Buffer.from(JSON.stringify({ kind, body, fields })).toString("hex");
    const { media_id } = (fields.media ?? {}) as { media_id?: string };
    const silent = kind !== "text" && kind !== "file";
    const sealed = { epoch: this.epoch, body: bytes, silent, ...(media_id === undefined ? {} : { media_id }) };
    this.#sealed.set(clientMsgId, sealed);
    this.#changes.push([clientMsgId, bytes]);
    return sealed;
  }

  caughtUp() {}

  created(group: string) {
    this.encrypted.add(group);
  }

  franking(isOn: boolean) {
    this.isFranking = isOn;
  }

  due(): [string, number][] {
    return [];
  }

  met() {}

  sealed(_: Party, clientMsgId: string) {
    return this.#sealed.get(clientMsgId);
  }

  stale(_: Party, clientMsgId: string, epoch: number) {
    this.#sealed.delete(clientMsgId);
    this.epoch = epoch;
  }

  uploads() {
    return this.parts.splice(0);
  }

  uploaded({ part }: PartUpload, mediaId: string | undefined) {
    this.carried.push(part, mediaId);
  }

  fetches() {
    return this.files.splice(0);
  }

  fetched({ media }: PartFetch, data: Uint8Array | undefined) {
    this.carried.push(media, data);
    this.judgesBelow = data ? Number.POSITIVE_INFINITY : this.judgesBelow;
  }

  security(name: string, fields: object) {
    const of = (fields as { with?: { conversation?: string } }).with?.conversation ?? "";
    return name === "lock" ? (this.encrypted.has(of) ? "sealed" : "plain") : { name, ...fields };
  }

  sent(_: Party, clientMsgId: string) {
    this.#sealed.delete(clientMsgId);
    this.#changes.push([clientMsgId, null]);
  }

  rekey(_: Party, clientMsgId: string, left: string[]) {
    this.#sealed.delete(clientMsgId);
    this.#requests.push(["rekey", { action: "commit", conversation_id: GROUP, removes: left } as never]);
    this.isReady = false;
    this.#isAsked = true;
  }

  roll(_: string, clientMsgId: string, change: Change): Prepared {
    this.rolls.push(clientMsgId, change);
    return { ready: { epoch: this.epoch, commit: "AA==" } };
  }

  rolled(_: string, clientMsgId: string, outcome: { seq: number } | { problem: Problem }) {
    this.rolls.push(clientMsgId, "seq" in outcome ? outcome.seq : outcome.problem.code);
    this.epoch += "problem" in outcome ? 1 : 0;
  }
}

function start(
  keyring: FakeKeyring,
  saved: Saved = nothingSaved(),
  features: string[] = ["encryption", "encryption.groups"],
) {
  const options = { me: "alice", timing: defaultTiming, keeper: "store", saved, random: () => 0, now: 0 } as const;
  const session = new SealedSession(options, keyring);
  session.tick(0);
  const begun = turn(session);
  const load = begun.outputs.find((output) => output.do === "load");
  session.loaded(load?.do === "load" ? load.load : 0, { found: "start", chats: [], channels: [], drafts: [] }, 0);
  session.opened(1, 0);
  reply(session, "1", { messages: [], more: false });
  reply(session, "2", { conversations: [], next_cursor: null });
  const first = turn(session);
  reply(session, idOf(first, "ping"), { pending: false, server_time: "2026-11-28T10:00:00.000Z", features });
  return { session, first };
}

/** The results of the turn, as a driver gets them. */
function turn(session: SealedSession): Step & { frames: (Request & { id: string })[]; told: ClientEvent[] } {
  const all: Step = { writes: [], lasting: false, outputs: [] };
  for (let step = session.takeStep(); step.writes.length + step.outputs.length > 0; step = session.takeStep()) {
    expect(all.outputs.length).toBeLessThan(100);
    all.writes.push(...step.writes);
    all.outputs.push(...step.outputs);
  }
  const frames = all.outputs.flatMap((output) => (output.do === "send" ? [JSON.parse(output.frame)] : []));
  const told = all.outputs.flatMap((output) => (output.do === "tell" ? [output.event] : []));
  return { ...all, frames, told };
}

function idOf({ frames }: ReturnType<typeof turn>, action: string): string {
  return frames.find((frame) => frame.action === action)?.id ?? "";
}

function reply(session: SealedSession, id: string, result: unknown): void {
  session.received(1, JSON.stringify({ type: "reply", id, result }), session.now);
}

function arrive(session: SealedSession, ...messages: Message[]): void {
  session.received(1, JSON.stringify({ type: "messages.new", messages }), session.now);
}

function entry(seq: number, fields: Partial<Message>): Message {
  return { ...message(seq, ""), conversation_id: ID, sender_id: "bob", ...fields };
}

const sealedAs = (kind: string, body: string, fields = {}) =>
  Buffer.from(JSON.stringify({ kind, body, fields })).toString("hex");
const stored = (seq: number) => ({ ...entry(seq, {}), duplicate: false });
const texts = (events: ClientEvent[]) =>
  events.flatMap((event) => (event.type === "message" ? [`${event.message.seq} ${event.message.body}`] : []));
const rows = ({ writes }: Step) => writes.flatMap((write) => ("sealing" in write ? [write.sealing.key] : []));
const done = ({ writes }: Step) =>
  writes.flatMap((write) => ("change" in write && "done" in write.change ? [write.change.done] : []));

const rowOf = (conversation_id: string, fields: Partial<Conversation>) =>
  ({ conversation_id, kind: "group", last_seq: 1, delivered_seq: 1, last_message: {}, ...fields }) as Conversation;

/** Bob and alice have chatted before, up to entry 1. */
function chatting() {
  const keyring = new FakeKeyring();
  keyring.isReady = true;
  const { session } = start(keyring);
  arrive(session, entry(1, { kind: "commit", epoch: 1 }));
  keyring.joinedAt = 1;
  turn(session);
  return { keyring, session };
}

it("a message leaves once the keyring is ready, sealed, with its rows in the same turn", () => {
  const { session } = start(new FakeKeyring());
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "a secret" }, undefined, 0);
  const asked = turn(session);
  expect(asked.frames).toEqual([{ action: "group_info", to: "bob", id: "4" }]);
  reply(session, "4", {});
  const step = turn(session);
  const body = sealedAs("text", "a secret");
  expect(step.frames).toEqual([
    { action: "send", to: "bob", client_msg_id: "m1", kind: "sealed", epoch: 1, body, id: "5" },
  ]);
  expect(step.told).toContainEqual({ type: "security", notice: { notice: "joined" } });
  expect(rows(step)).toEqual(["birth", "m1"]);
});

it("edits and reactions leave sealed too, and name the author's id of their target", () => {
  const { session } = chatting();
  arrive(session, entry(2, { kind: "sealed", epoch: 1, body: sealedAs("text", "hi") }));
  turn(session);
  const request = { action: "react", conversation_id: ID, client_msg_id: "r1", seq: 2, emoji: "👍" } as const;
  session.keep({ clientMsgId: "r1", request }, undefined, 0);
  const [load] = turn(session).outputs.filter((output) => output.do === "load");
  const found = {
    messages: [entry(2, { kind: "text", client_msg_id: "b1" })],
    spans: [{ from: 1, to: 2 }],
  };
  const number = load?.do === "load" ? load.load : 0;
  session.loaded(number, { found: "window", window: found, members: [], places: new Map() }, 0);
  const [frame] = turn(session).frames;
  const fields = { to: { seq: 2, client_msg_id: "b1" }, emoji: "👍" };
  expect(frame).toMatchObject({ action: "send", kind: "sealed", silent: true, body: sealedAs("reaction", "", fields) });
});

it("own kinds and data are inside of what is sealed, and an own edit says what it does to the data", () => {
  const { session } = chatting();
  const poll = { kind: "x-poll", body: "Tea?", data: { options: 2 } };
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, ...poll }, undefined, 0);
  const sent = turn(session);
  const body = sealedAs("x-poll", "Tea?", { data: { options: 2 } });
  expect(sent.frames).toMatchObject([{ action: "send", kind: "sealed", body }]);
  reply(session, idOf(sent, "send"), stored(2));
  const stored2 = turn(session);
  expect(stored2.told).toMatchObject([{ type: "message", message: { seq: 2, ...poll } }]);
  for (const [at, data] of [
    [3, undefined],
    [4, { options: 3 }],
    [5, null],
  ] as const) {
    const said = { body: `tea ${at}`, ...(data === undefined ? {} : { data }) };
    const request = { action: "edit", conversation_id: ID, client_msg_id: `e${at}`, seq: 2, ...said } as const;
    session.keep({ clientMsgId: `e${at}`, request }, undefined, 0);
    const [load] = turn(session).outputs.filter((output) => output.do === "load");
    const found = { messages: [entry(2, { client_msg_id: "m1" })], spans: [{ from: 1, to: at - 1 }] };
    const number = load?.do === "load" ? load.load : 0;
    session.loaded(number, { found: "window", window: found, members: [], places: new Map() }, 0);
    const step = turn(session);
    const fields = { to: { seq: 2, client_msg_id: "m1" }, ...(data === undefined ? {} : { data }) };
    const sealed = sealedAs("edit", said.body, fields);
    expect(step.frames).toMatchObject([{ action: "send", kind: "sealed", body: sealed }]);
    reply(session, idOf(step, "send"), stored(at));
    const told = turn(session).told.flatMap((event) => (event.type === "message" ? [event.message] : []));
    const kept = data === undefined ? { keeps_data: true } : data ? { data } : {};
    expect(told).toEqual([expect.objectContaining({ kind: "edit", target_seq: 2, body: said.body, ...kept })]);
    expect(told.map((message) => "keeps_data" in message)).toEqual([data === undefined]);
  }
});

it("nothing of a plain group, a service or a delete is sealed", () => {
  const { session } = chatting();
  session.store({ row: rowOf(GROUP, { history: "joined" }) });
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "to all" }, undefined, 0);
  session.keep({ clientMsgId: "m2", target: { to: "@shop" }, body: "to a service" }, undefined, 0);
  const request = { action: "delete", conversation_id: ID, client_msg_id: "d1", seq: 1 } as const;
  session.keep({ clientMsgId: "d1", request }, undefined, 0);
  expect(turn(session).frames.map((frame) => [frame.action, "kind" in frame ? frame.kind : undefined])).toEqual([
    ["send", "text"],
    ["send", "text"],
    ["delete", undefined],
  ]);
});

it("a message to a group that the user has left fails and leaves in no form", () => {
  const { session } = chatting();
  // Without its rules, the row doesn't say whether the group is encrypted.
  session.store({ row: rowOf(GROUP, { role: "none" }) });
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "to all" }, undefined, 0);
  const { frames, told } = turn(session);
  expect(frames.filter(({ action }) => action === "send")).toEqual([]);
  const codes = told.flatMap((event) => (event.type === "failed" ? [event.error.code] : []));
  expect(codes).toEqual(["not_member"]);
});

it("a file for a user is refused if it has no key, before any byte of it leaves", () => {
  const { session } = chatting();
  const file = new Blob(["bytes"]);
  const media = { source: { file }, kind: "file", mime: "text/plain", bytes: 5, sha256: "x" } as const;
  for (const [clientMsgId, target] of [
    ["f1", { to: "bob" }],
    ["f2", { conversation_id: ID }],
  ] as const) {
    session.keep({ clientMsgId, target, body: "", media }, undefined, 0);
  }
  const { frames, told } = turn(session);
  expect(frames).toEqual([]);
  const codes = told.flatMap((event) => (event.type === "failed" ? [event.error.code] : []));
  expect(codes).toEqual(["encryption_required", "encryption_required"]);
});

it("a file for a user leaves as its ciphertext, and its key in the envelope", async () => {
  const { session } = chatting();
  const file = new Blob(["bytes"]);
  const sealed = { ...(await sealFile(file)), thumbnail: "AAAA" };
  const info = { kind: "file", mime: "text/plain", bytes: 5, name: "a.txt" } as const;
  const media = { source: { file }, ...info, sha256: "x", sealed };
  session.keep({ clientMsgId: "f1", target: { to: "bob" }, body: "look", media }, undefined, 0);
  const asked = turn(session);
  expect(asked.frames).toEqual([
    { action: "upload", to: "bob", kind: "sealed", bytes: 272, sha256: sealed.sha256, id: expect.any(String) },
  ]);
  reply(session, idOf(asked, "upload"), {
    media_id: "m_1",
    url: "https://there",
    headers: {},
    expires_at: "2027-01-01T00:00:00.000Z",
  });
  const [put] = turn(session).outputs.flatMap((output) => (output.do === "put" ? [output.put] : []));
  const leaves = await put?.sealed?.();
  expect((await digestsOf(leaves ?? new Blob())).sha256).toBe(sealed.sha256);
  session.putEnded("f1", 200, 0);
  reply(session, idOf(turn(session), "uploaded"), { media_id: "m_1", bytes: 272, mime: "application/octet-stream" });
  const { kind, ...named } = info;
  const { sha256, key, thumbnail } = sealed;
  const fields = { media: { media_id: "m_1", ...named, sha256, key, thumbnail } };
  const [frame] = turn(session).frames;
  expect(frame).toMatchObject({ action: "send", kind: "sealed", media: { media_id: "m_1" } });
  const { body } = frame as Extract<Request, { action: "send" }>;
  expect(JSON.parse(Buffer.from(body, "hex").toString())).toMatchObject({ kind, body: "look", fields });
  reply(session, frame?.id ?? "", stored(2));
  const { told } = turn(session);
  const own = told.flatMap((event) => (event.type === "message" ? [event.message] : []));
  expect(own).toEqual([expect.objectContaining({ kind: "file", body: "look", media: fields.media })]);
});

const expires_at = "2027-01-01T00:00:00.000Z";

/** The session carries a file. Returns where. */
function carry(step: ReturnType<typeof turn>) {
  const [carried] = step.outputs.flatMap((output) => (output.do === "carry" ? [output] : []));
  return carried ?? { carry: 0, what: undefined };
}

it("uploads a part of a commit that has no room in a frame, and reports a failure", async () => {
  const keyring = new FakeKeyring();
  const { session } = start(keyring);
  const data = new Uint8Array([1, 2, 3]);
  const part = { conversation: GROUP, id: "c1", part: "tree", sha256: "digest", data };
  const upload = (reply_: object | undefined) => {
    keyring.parts = [part];
    session.tick(0);
    const asked = turn(session);
    const announced = { action: "upload", conversation_id: GROUP, kind: "sealed", bytes: 3, sha256: "digest" };
    expect(asked.frames).toEqual([{ ...announced, id: expect.any(String) }]);
    if (!reply_) {
      const error = { code: "forbidden", message: "", retryable: false };
      session.received(1, JSON.stringify({ type: "error", id: idOf(asked, "upload"), error }), 0);
      return { carry: 0, what: undefined };
    }
    reply(session, idOf(asked, "upload"), reply_);
    return carry(turn(session));
  };
  const place = { media_id: "m_1", url: "https://there", headers: { "x-a": "b" }, expires_at };
  const { carry: first, what } = upload(place);
  const put = (what as { put: Put }).put;
  expect([put.url, put.headers, put.bytes]).toEqual(["https://there", { "x-a": "b" }, 3]);
  expect(new Uint8Array(await put.file.arrayBuffer())).toEqual(data);
  session.carried(first, new Uint8Array(), 0);
  const asked = turn(session);
  expect(keyring.carried).toEqual([]);
  reply(session, idOf(asked, "uploaded"), { media_id: "m_1" });
  expect(keyring.carried).toEqual(["tree", "m_1"]);
  // S3 refuses, the server refuses, the connection ends.
  session.carried(upload(place).carry, undefined, 0);
  upload(undefined);
  const { carry: lost } = upload(place);
  session.lost(1, { why: "closed" } as never, 0);
  session.carried(lost, new Uint8Array(), 0);
  expect(keyring.carried.slice(2)).toEqual(["tree", undefined, "tree", undefined, "tree", undefined]);
});

it("an entry waits for its file", () => {
  const { session, keyring } = chatting();
  keyring.judgesBelow = 2;
  keyring.files = [{ conversation: ID, media: "m_1", bytes: 3, sha256: "digest" }];
  arrive(session, entry(2, { kind: "sealed", epoch: 1, body: sealedAs("text", "hi") }));
  const asked = turn(session);
  expect(asked.told).toEqual([]);
  const download = asked.frames.find(({ action }) => action === "download");
  expect(download).toMatchObject({ media_ids: ["m_1"] });
  reply(session, download?.id ?? "", { items: [{ media_id: "m_1", url: "https://there", expires_at }], gone: [] });
  const { carry: number, what } = carry(turn(session));
  expect(what).toEqual({ get: "https://there", bytes: 3 });
  session.carried(number, new Uint8Array([1, 2, 3]), 0);
  expect(keyring.carried).toEqual(["m_1", new Uint8Array([1, 2, 3])]);
  expect(turn(session).told.filter(({ type }) => type === "message")).toHaveLength(1);
  keyring.files = [{ conversation: ID, media: "m_2", bytes: 3, sha256: "digest" }];
  session.tick(0);
  reply(session, idOf(turn(session), "download"), { items: [], gone: ["m_2"] });
  expect(keyring.carried.slice(2)).toEqual(["m_2", undefined]);
});

it("the text of an own message stays in the outbox until its place in the log has come", () => {
  const { session } = chatting();
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "mine" }, undefined, 0);
  reply(session, idOf(turn(session), "send"), stored(3));
  // Entry 2 is missing.
  const early = turn(session);
  expect([texts(early.told), done(early)]).toEqual([[], []]);
  arrive(session, entry(2, { kind: "sealed", epoch: 1, body: sealedAs("text", "theirs") }));
  const step = turn(session);
  expect([texts(step.told), done(step)]).toEqual([["2 theirs", "3 mine"], ["m1"]]);
  expect(rows(step)).toEqual(["at", "at", "m1"]);
});

it("the same bytes are repeated after a restart, and an own entry of the log has the text of the outbox", () => {
  const { keyring, session } = chatting();
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "mine" }, undefined, 0);
  const [before] = turn(session).frames;
  const saved = nothingSaved();
  saved.outbox.push({ clientMsgId: "m1", target: { to: "bob" }, body: "mine" });
  saved.held.set(ID, 1);
  keyring.isReady = false;
  const second = start(keyring, saved);
  expect(second.first.frames.filter(({ action }) => action === "send")).toEqual([
    { ...before, id: expect.any(String) },
  ]);
  const body = sealedAs("text", "mine");
  arrive(second.session, entry(2, { sender_id: "alice", kind: "sealed", epoch: 1, body, client_msg_id: "m1" }));
  const step = turn(second.session);
  expect([texts(step.told), done(step)]).toEqual([["2 mine"], []]);
  reply(second.session, idOf(second.first, "send"), stored(2));
  expect(done(turn(second.session))).toEqual(["m1"]);
});

it("what is stale is sealed anew under its id, and the log is requested up to its end", () => {
  const { session } = chatting();
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "again" }, undefined, 0);
  const id = idOf(turn(session), "send");
  const error = { code: "stale_epoch", message: "", retryable: false, conversation_id: ID, epoch: 2, last_seq: 2 };
  session.received(1, JSON.stringify({ type: "error", id, error }), 0);
  const { frames } = turn(session);
  expect(frames).toContainEqual(expect.objectContaining({ action: "history", conversation_id: ID, after_seq: 1 }));
  const sent = frames.filter(({ action }) => action === "send");
  expect(sent).toEqual([expect.objectContaining({ client_msg_id: "m1", epoch: 2, body: sealedAs("text", "again") })]);
});

it("an entry that can't be read is an event of its own, and a commit is none", () => {
  const { session } = chatting();
  const broken = entry(3, { kind: "sealed", epoch: 1, body: "" });
  arrive(session, entry(2, { kind: "commit", epoch: 2, commit: "AA==" }), broken, entry(4, { body: "plain" }));
  const { told, writes } = turn(session);
  const whys = told.map((event) => (event.type === "unreadable" ? event.why : event.type));
  expect(whys).toEqual(["broken", "plain_behind_birth"]);
  const kept = writes.flatMap((write) => ("entry" in write ? [write.entry] : []));
  expect(kept.map(({ kind, body, commit, unreadable }: UnreadableMessage) => [kind, body, commit, unreadable])).toEqual(
    [
      ["commit", "", undefined, undefined],
      ["sealed", "", undefined, "broken"],
      ["sealed", "", undefined, "plain_behind_birth"],
    ],
  );
});

it("a page shows no bytes, and no lock of a message in the clear", () => {
  const { session } = chatting();
  const page = {
    messages: [
      entry(1, { kind: "commit", epoch: 1, welcome: "AA==" }),
      entry(2, { kind: "sealed", body: "AAAA" }),
      entry(3, { body: "in the clear", epoch: 1 }),
    ],
    more: false,
    last_seq: 3,
    members: [],
  };
  let shown: UnreadableMessage[] = [];
  const waiter = { resolve: (answer: { messages: Message[] }) => (shown = answer.messages), reject: () => {} };
  session.call({ action: "history", conversation_id: ID, limit: 9 }, waiter as never, 0);
  reply(session, idOf(turn(session), "history"), page);
  const { outputs } = turn(session);
  for (const output of outputs) {
    if (output.do === "answer") {
      output.settle();
    }
  }
  expect(shown.map(({ kind, body, welcome, unreadable }) => [kind, body, welcome, unreadable])).toEqual([
    ["commit", "", undefined, undefined],
    ["sealed", "", undefined, "later"],
    ["text", "in the clear", undefined, undefined],
  ]);
  expect(shown[2]).not.toHaveProperty("epoch");
});

it("a page of a conversation in which the device has no part yet was sealed before its join", () => {
  const { session } = start(new FakeKeyring());
  const page = { messages: [entry(1, { kind: "sealed", body: "AAAA" })], more: false, last_seq: 1, members: [] };
  let shown: UnreadableMessage[] = [];
  const waiter = { resolve: (answer: { messages: Message[] }) => (shown = answer.messages), reject: () => {} };
  session.call({ action: "history", conversation_id: ID, limit: 9 }, waiter as never, 0);
  reply(session, idOf(turn(session), "history"), page);
  for (const output of turn(session).outputs) {
    if (output.do === "answer") {
      output.settle();
    }
  }
  expect(shown.map(({ unreadable }) => unreadable)).toEqual(["before_join"]);
});

it("what the app has passed is opened behind it, once the keyring has joined there", () => {
  const keyring = new FakeKeyring();
  keyring.isReady = true;
  const saved = nothingSaved();
  saved.held.set(ID, 3);
  keyring.joinedAt = 1;
  keyring.at = 1;
  const { first, session } = start(keyring, saved);
  const request = first.frames.find(({ action }) => action === "history");
  expect(request).toMatchObject({ conversation_id: ID, after_seq: 1 });
  const messages = [2, 3].map((seq) => entry(seq, { kind: "sealed", body: sealedAs("text", `text ${seq}`) }));
  reply(session, request?.id ?? "", { messages, more: false, last_seq: 3, members: [] });
  const step = turn(session);
  const kept = step.writes.flatMap((write) => ("entry" in write ? [write.entry.body] : []));
  expect([kept, texts(step.told), keyring.at]).toEqual([["text 2", "text 3"], [], 3]);
});

it("a message to a group waits until it is known whether the group is encrypted", () => {
  const { session } = chatting();
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "to all" }, undefined, 0);
  const { frames } = turn(session);
  expect(frames.map(({ action }) => action)).toEqual(["inbox"]);
  const last_message = {
    seq: 1,
    message_id: "1",
    sender_id: "bob",
    kind: "system",
    preview: "",
    sent_at: message(1, "").sent_at,
  };
  const rules = {
    title: "Friends",
    role: "member",
    history: "joined",
    post: "all",
    add: "all",
    member_count: 2,
  } as const;
  const row = { ...rowOf(GROUP, {}), ...rules, last_message, unread: 0, read_seq: 0, encrypted: true, epoch: 0 };
  reply(session, idOf({ frames } as never, "inbox"), { conversations: [row], next_cursor: null });
  const body = sealedAs("text", "to all");
  expect(turn(session).frames).toEqual([
    expect.objectContaining({ action: "send", conversation_id: GROUP, kind: "sealed", body }),
  ]);
});

it("after a refusal, the rows of groups are requested again after a pause, and without another cause", () => {
  const { session } = chatting();
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "to all" }, undefined, 0);
  const error = { code: "bad_request", message: "limit: must be 1 to 25", retryable: false };
  session.received(1, JSON.stringify({ type: "error", id: idOf(turn(session), "inbox"), error }), 0);
  expect(turn(session).frames).toEqual([]);
  expect(session.nextTick()).toBe(2000);
  session.tick(1999);
  expect(turn(session).frames.map(({ action }) => action)).not.toContain("inbox");
  session.tick(2000);
  expect(turn(session).frames.map(({ action }) => action)).toContain("inbox");
});

it("an own group that is created encrypted is encrypted from its first message on", () => {
  const { session } = chatting();
  const members = ["bob"];
  const request = { action: "create", client_msg_id: "c1", title: "Friends", members, encrypted: true } as const;
  session.keep({ clientMsgId: "c1", request }, undefined, 0);
  reply(session, idOf(turn(session), "create"), { ...stored(1), conversation_id: GROUP });
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "to all" }, undefined, 0);
  expect(turn(session).frames).toContainEqual(
    expect.objectContaining({ action: "send", conversation_id: GROUP, kind: "sealed" }),
  );
});

it("no encrypted group is created where the server has none", () => {
  const { session } = start(new FakeKeyring(), nothingSaved(), ["encryption"]);
  const members = ["bob"];
  const request = { action: "create", client_msg_id: "c1", title: "Friends", members, encrypted: true } as const;
  session.keep({ clientMsgId: "c1", request }, undefined, 0);
  const { frames, told } = turn(session);
  expect(frames).toEqual([]);
  expect(told).toContainEqual(expect.objectContaining({ type: "failed", clientMsgId: "c1" }));
});

/** Alice is in an encrypted group, up to entry 1. */
function inGroup() {
  const { keyring, session } = chatting();
  keyring.at = 0;
  keyring.joinedAt = 0;
  session.store({ row: rowOf(GROUP, { encrypted: true, epoch: 1 }) });
  arrive(session, entry(1, { conversation_id: GROUP, kind: "commit", epoch: 1 }));
  turn(session);
  return { keyring, session };
}

it("an addition leaves with its commit, and again with another one if that is stale", () => {
  const { keyring, session } = inGroup();
  const members = ["carol"];
  const request = { action: "add", conversation_id: GROUP, client_msg_id: "a1", members } as const;
  session.keep({ clientMsgId: "a1", request }, undefined, 0);
  const first = turn(session);
  expect(first.frames).toEqual([expect.objectContaining({ ...request, epoch: 1, commit: "AA==" })]);
  const error = { code: "stale_epoch", message: "", retryable: false, conversation_id: GROUP, epoch: 2, last_seq: 1 };
  session.received(1, JSON.stringify({ type: "error", id: idOf(first, "add"), error }), 0);
  const second = turn(session);
  expect(second.frames).toEqual([expect.objectContaining({ ...request, epoch: 2 })]);
  reply(session, idOf(second, "add"), {
    ...stored(2),
    conversation_id: GROUP,
    added: members,
    already: [],
    not_added: [],
  });
  const { told } = turn(session);
  expect(told).toContainEqual(expect.objectContaining({ type: "message" }));
  expect(keyring.rolls).toEqual(["a1", { add: members }, "a1", "stale_epoch", "a1", { add: members }, "a1", 2]);
});

it("a message that meets users who left leaves once more behind the commit without them", () => {
  const { keyring, session } = inGroup();
  session.keep({ clientMsgId: "m1", target: { conversation_id: GROUP }, body: "again" }, undefined, 0);
  const error = { code: "rekey_required", message: "", retryable: false, members: ["bob"] };
  session.received(1, JSON.stringify({ type: "error", id: idOf(turn(session), "send"), error }), 0);
  const { frames } = turn(session);
  expect(frames).toEqual([expect.objectContaining({ action: "commit", removes: ["bob"] })]);
  keyring.isReady = true;
  reply(session, idOf({ frames } as never, "commit"), {});
  expect(turn(session).frames).toEqual([expect.objectContaining({ action: "send", client_msg_id: "m1" })]);
});

it("an entry that can't be judged yet waits, and all behind it", () => {
  const { keyring, session } = inGroup();
  const added: System = { event: "members.added", members: ["carol"] };
  const sealed = entry(3, { conversation_id: GROUP, kind: "sealed", epoch: 2, body: sealedAs("text", "hi") });
  keyring.judgesBelow = 2;
  arrive(session, entry(2, { conversation_id: GROUP, kind: "system", system: added, commit: "AA==" }), sealed);
  const early = turn(session);
  expect([early.told, early.frames]).toEqual([[], []]);
  keyring.judgesBelow = Number.POSITIVE_INFINITY;
  keyring.isReady = false;
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "" }, undefined, 0);
  reply(session, idOf(turn(session), "group_info"), {});
  const { told } = turn(session);
  expect(told.flatMap((event) => (event.type === "message" ? [event.message.seq, event.message.commit] : []))).toEqual([
    2,
    undefined,
    3,
    undefined,
  ]);
});

it("a report has the proofs of its messages where the server checks them, and goes without after a refusal", () => {
  const said = { action: "report", conversation_id: ID, reason: "abuse", claimed: "ugly" } as const;
  const proofs = [2, 4, 5].map((seq) => ({ seq, key: "Bw==", plaintext: "A".repeat(seq === 4 ? 24_568 : 8) }));
  for (const checks of [true, false]) {
    const { session } = start(new FakeKeyring(), nothingSaved(), checks ? ["encryption.report"] : []);
    turn(session);
    const answers: unknown[] = [];
    const waiter = {
      resolve: (answer: object) => answers.push(answer),
      reject: ({ code }: Error & { code?: string }) => answers.push(code),
    };
    const settle = ({ outputs }: Step) => {
      for (const output of outputs) {
        if (output.do === "answer") {
          output.settle();
        }
      }
    };
    session.call({ ...said, seqs: [2, 3] }, waiter as never, 0);
    const [load] = turn(session).outputs.flatMap((output) => (output.do === "load" ? [output] : []));
    expect(load?.what).toEqual({ load: "proofs", conversation_id: ID, seqs: [2, 3] });
    session.loaded(load?.load ?? 0, { found: "proofs", proofs }, 0);
    const sent = turn(session);
    // The edit is an entry of the report, too. The second one has no room.
    const proven = { seqs: [2, 3, 5], opened: [proofs[0], proofs[2]] };
    expect(sent.frames).toEqual([{ ...said, ...(checks ? proven : { seqs: [2, 3] }), id: idOf(sent, "report") }]);
    const refused = (code: string, id: string) =>
      session.received(1, JSON.stringify({ type: "error", id, error: { code, message: "", retryable: false } }), 0);
    refused("gone", idOf(sent, "report"));
    const again = turn(session);
    settle(again);
    expect([again.frames.map(({ id: _, ...frame }) => frame), answers]).toEqual(
      checks ? [[{ ...said, seqs: [2, 3] }], []] : [[], ["gone"]],
    );
    if (checks) {
      reply(session, idOf(again, "report"), { report_id: "r_1" });
      settle(turn(session));
      expect(answers).toEqual([{ report_id: "r_1" }]);
    }
  }
});

it("an opened message is stored with its proof, and an edit with that of its target", () => {
  const { keyring, session } = chatting();
  const proof = (seq: number) => ({ seq, key: "Bw==", plaintext: "CA==" });
  keyring.take = (message) => {
    keyring.at = message.seq;
    const target = message.seq === 3 ? { kind: "edit" as const, target_seq: 2 } : { kind: "text" as const };
    return { shown: { plain: { ...message, ...target }, proof: proof(message.seq) }, notices: [] };
  };
  arrive(session, entry(2, { kind: "sealed", epoch: 1 }), entry(3, { kind: "sealed", epoch: 1 }));
  const { writes } = turn(session);
  const kept: unknown[] = [];
  for (const write of writes) {
    kept.push(...("proof" in write ? [write.proof] : "entry" in write ? [write.entry.seq] : []));
  }
  const proofOf = (seq: number) => ({ conversation_id: ID, seq: 2, proof: proof(seq) });
  expect(kept).toEqual([2, proofOf(2), 3, proofOf(3)]);
});

it("each message has a digest where the server takes reports with proof, and none is sealed before that is known", () => {
  const keyring = new FakeKeyring();
  keyring.isReady = true;
  expect(start(keyring, nothingSaved(), ["encryption", "encryption.report"]) && keyring.isFranking).toBe(true);
  expect(start(keyring) && keyring.isFranking).toBe(false);
  const options = {
    me: "alice",
    timing: defaultTiming,
    keeper: "store",
    saved: nothingSaved(),
    random: () => 0,
  } as const;
  const session = new SealedSession({ ...options, now: 0 }, keyring);
  session.tick(0);
  turn(session);
  session.opened(1, 0);
  session.keep({ clientMsgId: "m1", target: { to: "bob" }, body: "hi" }, undefined, 0);
  const { frames } = turn(session);
  expect(frames.map(({ action }) => action)).toEqual(["drain", "ping"]);
  reply(session, "2", { pending: false, server_time: "2026-11-28T10:00:00.000Z" });
  expect(turn(session).frames.map(({ action }) => action)).toEqual(["send"]);
});

it("low keys reach the keyring", () => {
  const { session } = chatting();
  session.received(1, JSON.stringify({ type: "keys.low", left: 4 }), 0);
  expect(rows(turn(session))).toEqual(["low"]);
});

it("an encrypted edit holds by the author alone, and a page of the server takes no text away", async () => {
  const edit = (seq: number, sender_id: string, body: string) =>
    entry(seq, { sender_id, kind: "edit", target_seq: 1, version: seq, epoch: 1, body });
  const store = await Store.open(memoryStorage(), "alice");
  const timeline = new Timeline("alice");
  const entries = [
    entry(1, { kind: "text", epoch: 1, body: "mine", sender_id: "alice" }),
    edit(2, "alice", "mine, edited"),
    edit(3, "bob", "theirs"),
  ];
  await store.apply(
    entries.map((one) => ({ entry: one })),
    false,
  );
  for (const one of entries) {
    timeline.message(one);
  }
  const page = { messages: [entry(1, { kind: "sealed", sender_id: "alice" })], more: false, last_seq: 3, members: [] };
  await store.apply([{ page: { conversation_id: ID, side: {}, page } }], false);
  timeline.history(page);
  const { messages } = await store.window(ID, {}, 9);
  expect(messages.find(({ seq }) => seq === 1)).toMatchObject({ kind: "text", body: "mine, edited" });
  const [shown] = timeline.entries(() => "").filter(({ type }) => type === "message");
  expect(shown).toMatchObject({ message: { kind: "text", body: "mine, edited" } });
});

it("an encrypted change holds if it names the id of its target", async () => {
  const message = entry(1, { kind: "text", epoch: 1, body: "bye", client_msg_id: "m1" });
  const change = (seq: number, kind: string, target_id: string) =>
    ({ ...entry(seq, { kind, target_seq: 1, version: seq, epoch: 1, body: "hi", emoji: "👍" }), target_id }) as Message;
  for (const [id, body, count] of [["m2", "bye", 0] as const, ["m1", "hi", 1] as const]) {
    const entries = [message, change(2, "edit", id), change(3, "reaction", id)];
    for (const order of [[0, 1, 2] as const, [1, 2, 0] as const]) {
      const store = await Store.open(memoryStorage(), "alice");
      const timeline = new Timeline("alice");
      const inOrder = order.map((place) => entries[place] ?? message);
      await store.apply(
        inOrder.map((one) => ({ entry: one })),
        false,
      );
      for (const one of inOrder) {
        timeline.message(one);
      }
      const { messages } = await store.window(ID, {}, 9);
      const [shown] = timeline.entries(() => "").flatMap((one) => (one.type === "message" ? [one.message] : []));
      for (const one of [messages[0], shown]) {
        expect([one?.body, one?.reactions?.length ?? 0]).toEqual([body, count]);
      }
    }
  }
});
