// The language of the scripts: how they spell steps, and the client's types.

import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import addFormats from "ajv-formats";
import type { ClientEvent } from "../src/events.ts";
import type { Queued } from "../src/saved.ts";

export type Json = Record<string, unknown>;

export interface Scenario {
  name: string;
  saved?: { held?: Record<string, number>; caught_up?: string };
  begin?: "caught_up";
  keep?: "messages";
  /** The app has given an HTTP URL. */
  http?: boolean;
  timing?: Record<string, number>;
  each?: Record<string, unknown[]>;
  steps: Step[];
}

// biome-ignore lint/suspicious/noExplicitAny: a script is what its README says.
export type Step = Record<string, any>;

export const folder = new URL("../../../conformance/", import.meta.url);

/** The steps for each value of `each`, with everything written out. */
export function variants({ steps, each }: Scenario): Step[][] {
  const [name, values] = Object.entries(each ?? {})[0] ?? ["", [undefined]];
  return values.map((value) => expand(steps, `$${name}`, value) as Step[]);
}

function expand(script: unknown, name: string, value: unknown): unknown {
  if (Array.isArray(script)) {
    return script.map((item) => expand(item, name, value));
  }
  if (typeof script === "object" && script !== null) {
    return Object.fromEntries(Object.entries(script).map(([key, item]) => [key, expand(item, name, value)]));
  }
  return script === name ? value : expandMessage(script);
}

/** `$bob 5`, `$stored 5`, and with pairs of words about fields: `$bob 6 edits 5 body new version 2`. */
function expandMessage(script: unknown): unknown {
  const found = /^\$(@?\w+) (\d+)((?: \S+ \S+)*)$/.exec(String(script));
  if (!found) {
    return script;
  }
  const [, who, number, words] = found;
  const pairs = [...String(words).matchAll(/ (\S+) (\S+)/g)].map(([, word = "", value = ""]) => [word, value] as const);
  const named = new Map(pairs);
  const time = (seq: string) => `${named.get("on") ?? "2026-11-20"}T10:00:${seq.padStart(2, "0")}.000Z`;
  const message: Json = {
    conversation_id: named.get("in") ?? "dm_ab",
    seq: Number(number),
    message_id: `0198b7a0-0000-7000-8000-0000000000${String(number).padStart(2, "0")}`,
    sent_at: time(String(number)),
    ...(who === "stored" ? { duplicate: false } : { sender_id: who, kind: "text", body: `${who} ${number}` }),
  };
  // `body` may stand before the word that empties it.
  for (const [word, value] of pairs.sort(([one], [other]) => Number(one === "body") - Number(other === "body"))) {
    Object.assign(message, (fields[word] ?? fail(`no word of a message: ${word}`))(value, time, who, named));
  }
  return message;
}

const system = (what: Json) => ({ kind: "system", body: "", system: what });
const change = (kind: string) => (target: string) => ({ kind, target_seq: Number(target), body: "" });

/** The fields that each word adds to a message. */
type Word = (value: string, time: (seq: string) => string, who?: string, words?: Map<string, string>) => Json;
const fields: Record<string, Word> = {
  in: () => ({}),
  on: () => ({}),
  as: (client_msg_id) => ({ client_msg_id }),
  body: (body) => ({ body }),
  answers: (seq) => ({ reply_to: Number(seq) }),
  version: (version) => ({ version: Number(version) }),
  edited: (seq, time) => ({ edited_at: time(seq) }),
  deleted: (seq, time, who) => ({ body: "", deleted_at: time(seq), deleted_by: who }),
  reactions: (all) => ({
    reactions: all.split("+").map((one) => {
      const [emoji, count, mine] = one.split(":");
      return { emoji, count: Number(count), mine: mine !== undefined };
    }),
  }),
  edits: change("edit"),
  deletes: change("delete"),
  reacts: change("reaction"),
  emoji: (emoji) => ({ emoji }),
  before: (emoji_before) => ({ emoji_before }),
  upto: (seq) => ({ reactions_seq: Number(seq) }),
  mentions: (users) => ({ mentions: users.split("+") }),
  created: (title, _, who, words) =>
    system({ event: "created", title, members: words?.get("members")?.split("+") ?? [who] }),
  members: () => ({}),
  adds: (users) => system({ event: "members.added", members: users.split("+") }),
  removes: (users) => system({ event: "members.removed", members: users.split("+") }),
  leaves: () => system({ event: "member.left" }),
  makes: (who) => {
    const [user_id, role] = who.split(":");
    return system({ event: "role.changed", user_id, role });
  },
  renames: (title) => system({ event: "info.changed", title }),
};

export function camel(name: string): string {
  return name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

export function fail(what: string): never {
  throw new Error(what);
}

/** Independent of the order of fields, and of marks. */
export function comparable(request: Json): string {
  const marks = (list: unknown) =>
    Array.isArray(list) ? [...list].sort((one, other) => (one.conversation_id < other.conversation_id ? -1 : 1)) : list;
  const sorted = { ...request, up_to: marks(request.up_to), ack: marks(request.ack) };
  return JSON.stringify(Object.entries(sorted).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/**
 * Builds the content of the outbox from a script: `{client_msg_id, to, body}`, or `{client_msg_id, conversation_id,
 * edit: {…}}`.
 */
export function queuedOf(script: Step): Queued {
  const { client_msg_id, body, reply_to: replyTo, mentions, media, kind, data, ...rest } = script;
  const action = Object.keys(rest).find((name) => typeof rest[name] === "object");
  const { [action ?? ""]: what, conversation_id, ...to } = rest;
  const target = { ...to, ...without({ conversation_id }) };
  if (action) {
    const request = { action, client_msg_id, ...(action === "create" ? {} : target), ...what };
    return { clientMsgId: client_msg_id, request } as Queued;
  }
  return { clientMsgId: client_msg_id, target, body, ...without({ replyTo, mentions, media, kind, data }) } as Queued;
}

export function queuedAsWritten(queued: Queued): Json {
  if ("request" in queued) {
    const { action, client_msg_id, conversation_id, ...what } = queued.request as Step;
    return { client_msg_id, ...without({ conversation_id }), [action]: what };
  }
  const { clientMsgId: client_msg_id, target, replyTo: reply_to, madeAt: _, ...what } = queued as Step;
  return { client_msg_id, ...target, ...what, ...without({ reply_to }) };
}

/** Without what is not there. */
function without(fields: Json): Json {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** An event as the scripts write it. */
export function plain(event: ClientEvent): Json {
  switch (event.type) {
    case "message":
      return { message: event.message, missed: event.missed };
    case "receipt":
      return { receipt: event };
    case "conversation":
      return { conversation: event.conversation };
    case "storage":
      return { storage: event.setAside };
    case "not_kept":
    case "reload":
    // No script has encryption.
    case "security":
    case "unreadable":
      return { [event.type]: {} };
    case "settings":
      return { settings: event.settings };
    case "failed": {
      const { type: _, error, ...queued } = event;
      return { failed: { ...queuedAsWritten(queued), code: error.code } };
    }
    case "typing": {
      const { type: _, ...typing } = event;
      return { typing };
    }
    case "presence": {
      const { type: _, ...presence } = event;
      return { presence };
    }
    case "uploading": {
      const { clientMsgId: client_msg_id, done, bytes } = event;
      return { uploading: { client_msg_id, done, bytes } };
    }
    case "reacted": {
      const { type: _, ...queued } = event;
      return { reacted: queuedAsWritten(queued) };
    }
    case "unwatched":
      return { unwatched: { conversation_id: event.conversation_id, code: event.error.code } };
    case "state":
      return { state: event.state, ...(event.state === "offline" ? { why: event.why.reason } : {}) };
  }
}

export const schema = JSON.parse(readFileSync(new URL("../docs/contract/frames.schema.json", folder), "utf8"));
const ajv = new Ajv({ strict: false });
// Its types are those of a CommonJS module.
(addFormats as unknown as (ajv: Ajv) => void)(ajv);
ajv.addSchema(schema, "frames");

// Compiling a validator takes seconds, which must not count as time of a test.
for (const definition of ["Request", "ServerFrame"]) {
  validator(definition);
}

function validator(definition: string) {
  return ajv.getSchema(`frames#/definitions/${definition}`) ?? fail(`the schema has no ${definition}`);
}

export function isValid(definition: string, value: unknown): boolean {
  return validator(definition)(value) === true;
}

export function fits(definition: string, frame: Json): void {
  const validate = validator(definition);
  if (!validate(frame)) {
    fail(`no ${definition}: ${JSON.stringify(frame)}: ${ajv.errorsText(validate.errors)}`);
  }
}
