// Players of the scripts about the chat model, whose steps conformance/README.md explains.

import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { Conversations, type ListSnapshot, noRows } from "../src/chat/conversations.ts";
import type { Item } from "../src/chat/item.ts";
import { Messages, type Snapshot } from "../src/chat/messages.ts";
import type { At } from "../src/chat/window.ts";
import { PigeonholeError, type PigeonholeErrorCode } from "../src/errors.ts";
import type { ClientEvent } from "../src/events.ts";
import type { Message } from "../src/index.ts";
import type { Side } from "../src/protocol.ts";
import { briefItem, briefRow } from "./brief.ts";
import { fail, fits, queuedOf, type Step } from "./script.ts";

/** Plays the steps of a script. `shown` compares a whole snapshot. */
export function playChat(user: string, [first = {}, ...steps]: Step[], shown: (snapshot: unknown) => unknown): void {
  const play = first.list ? new List(user, shown) : new View(user, first.open, shown);
  for (const step of steps) {
    const [[name, what] = fail("a step does something")] = Object.entries(step);
    play.take(name, what, JSON.stringify(step).slice(0, 500));
  }
}

class View {
  #messages: Messages;
  #conversation: string;
  /** At the last step that expected something. */
  #before: Snapshot;

  #shown: (snapshot: unknown) => unknown;

  constructor(user: string, { at, zone = [], conversation_id = "dm_ab" }: Step, shown: (snapshot: unknown) => unknown) {
    this.#shown = shown;
    this.#conversation = conversation_id;
    this.#messages = new Messages(user, conversation_id, atOf(at), zone);
    this.#before = this.#messages.snapshot();
  }

  // biome-ignore lint/suspicious/noExplicitAny: a step is what the script says.
  take(name: string, what: any, place: string): void {
    const [view, conversation_id] = [this.#messages, this.#conversation];
    const steps: Record<string, () => void> = {
      expect: () => this.#expect(what, place),
      row: () => {
        fits("Conversation", what);
        view.timeline.row(what);
      },
      receipts: () => view.timeline.receipts(what),
      queued: () => {
        const { at, ...queued } = what;
        view.timeline.queued(queuedOf({ conversation_id, ...queued }), at);
      },
      loaded: () => {
        const spans = what.spans.map(([from, to]: [number, number]) => ({ from, to }));
        view.loaded(sideOf(what), { messages: entries(conversation_id, what), spans });
      },
      page: () => {
        const { before_seq: _, after_seq: __, ranges: ___, ...page } = what;
        view.page(sideOf(what), { members: [], ...page, messages: entries(conversation_id, what) });
      },
      messages: () => {
        for (const message of entries(conversation_id, { ranges: what })) {
          view.event({ type: "message", message, missed: false }, 0);
        }
      },
      lost: () => view.lost(sideOf(what)),
      older: () => view.older(),
      newer: () => view.newer(),
      jump: () => view.jump(atOf(what)),
      zone: () => view.setZone(what),
      dismiss: () => view.timeline.dismiss(what),
      seen: () => expect(view.seen(what.key) ?? null, place).toBe(what.read),
      read_all: () => expect(view.readAll() ?? null, place).toBe(what.read),
    };
    (steps[name] ?? (() => view.event(eventOf(conversation_id, name, what), 0)))();
  }

  #expect(expected: Step, place: string): void {
    const snapshot = this.#messages.snapshot();
    const { items, version, hasOlder, hasNewer, unread, pins } = snapshot;
    const all: Record<string, () => unknown> = {
      items: () => items.map(briefItem),
      runs: () => runs(items),
      entries: () => {
        const keys = items.filter(isStored).map(({ key }) => key);
        return [keys.at(0), keys.at(-1), keys.length];
      },
      has_older: () => hasOlder,
      has_newer: () => hasNewer,
      unread: () => unread,
      // With the text, if the message has come.
      pins: () => pins.map(({ seq, message }) => [seq, message?.body ?? null]),
      changed: () => version > this.#before.version,
      requests: () => this.#messages.requests(),
      snapshot: () => this.#shown(snapshot),
    };
    for (const [name, value] of Object.entries(expected)) {
      const wanted = name === "snapshot" ? this.#shown(value) : value;
      expect((all[name] ?? fail(`a view has no ${name}`))(), `${place}: ${name}`).toEqual(wanted);
    }
    this.#checkIdentity(snapshot);
    this.#before = snapshot;
  }

  /** An unchanged item is the same object, and a version rises with each change. */
  #checkIdentity(snapshot: Snapshot): void {
    for (const item of snapshot.items) {
      const old = this.#before.items.find(({ key }) => key === item.key);
      expect(old === item, item.key).toBe(isDeepStrictEqual(old, item));
    }
    const { version: _, ...before } = this.#before;
    const { version, ...now } = snapshot;
    expect(version === this.#before.version).toBe(isDeepStrictEqual(before, now));
    expect(version === this.#before.version).toBe(snapshot === this.#before);
  }
}

class List {
  #list: Conversations;
  #before: ListSnapshot = noRows;
  #shown: (snapshot: unknown) => unknown;

  constructor(user: string, shown: (snapshot: unknown) => unknown) {
    this.#list = new Conversations(user);
    this.#shown = shown;
  }

  // biome-ignore lint/suspicious/noExplicitAny: a step is what the script says.
  take(name: string, what: any, place: string): void {
    const list = this.#list;
    const steps: Record<string, () => void> = {
      expect: () => this.#expect(what, place),
      row: () => {
        fits("Conversation", what);
        list.row(what);
      },
      channel: () => {
        fits("Channel", what);
        list.channel(what);
      },
      queued: () => {
        const { at: madeAt, ...queued } = what;
        list.queued({ ...queuedOf(queued), madeAt });
      },
      direct: () => expect(list.direct(what.peer_id), place).toBe(what.key),
      draft: () => list.draft(what.key, what.text === null ? undefined : { body: what.text }),
      presence: () => list.presence(what),
      read: () => list.read(what.conversation_id, what.seq),
      read_all: () => {
        const mark = list.readAll(what.key);
        expect(mark ? [mark.conversation_id, mark.seq] : null, place).toEqual(what.read);
      },
      pins: () => expect(list.pinnedAre(what.of, what.order), place).toEqual(what.unpinned),
      dismiss: () => list.dismiss(what),
      remove: () => list.remove(what.key),
    };
    (steps[name] ?? (() => list.event(eventOf(what.conversation_id ?? "dm_ab", name, what), what.now ?? 0)))();
  }

  #expect({ archived, kinds, words, now = 0, at = 0, ...expected }: Step, place: string): void {
    const filter = { archived: archived === true, kinds: kinds ?? [], words: words ?? "" };
    const before = this.#before;
    const snapshot = this.#list.snapshot(before, filter, now, at === 0 ? 0 : Date.parse(at));
    this.#before = snapshot;
    const all: Record<string, () => unknown> = {
      rows: () => snapshot.rows.map(briefRow),
      unread: () => snapshot.unread,
      changed: () => snapshot.version > before.version,
      snapshot: () => this.#shown(snapshot),
    };
    for (const [name, value] of Object.entries(expected)) {
      const wanted = name === "snapshot" ? this.#shown(value) : value;
      expect((all[name] ?? fail(`a list has no ${name}`))(), `${place}: ${name}`).toEqual(wanted);
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a step is what the script says.
function eventOf(conversation_id: string, name: string, what: any): ClientEvent {
  const at = "2026-11-20T10:00:00.000Z";
  const events: Record<string, () => ClientEvent> = {
    message: () => ({ type: "message", message: what, missed: false }),
    receipt: () => ({ type: "receipt", conversation_id, at, ...what }),
    uploading: () => ({ type: "uploading", clientMsgId: what.client_msg_id, done: what.done, bytes: 0 }),
    failed: () => {
      const { code, ...queued } = what;
      const place = queued.to === undefined && queued.create === undefined ? { conversation_id } : {};
      const error = new PigeonholeError(code as PigeonholeErrorCode, "");
      return { type: "failed", error, ...queuedOf({ ...place, ...queued }) };
    },
    reacted: () => ({ type: "reacted", ...queuedOf({ conversation_id, ...what }) }) as ClientEvent,
    conversation: () => ({ type: "conversation", conversation: what }),
    settings: () => ({ type: "settings", settings: what }),
    typing: () => ({ type: "typing", conversation_id, at, ...(what as { user_id: string; text?: string }) }),
    state: () => ({ type: "state", state: what }),
  };
  return (events[name] ?? fail(`there is no step ${name}`))();
}

/** The entries of a step: those that are written out, then all of each range. */
export function entries(conversation_id: string, { messages = [], ranges = {} }: Step): Message[] {
  const all = Object.entries(ranges as Record<string, [number, number]>).flatMap(([sender_id, [from, to]]) =>
    Array.from({ length: to - from + 1 }, (_, at) => ({
      conversation_id,
      seq: from + at,
      message_id: `0198b7a0-0000-7000-8000-${String(from + at).padStart(12, "0")}`,
      sender_id,
      kind: "text",
      body: `${sender_id} ${from + at}`,
      sent_at: new Date(Date.UTC(2026, 10, 20, 10, 0, from + at)).toISOString(),
    })),
  );
  return [...messages, ...all].sort((one, other) => one.seq - other.seq);
}

function atOf(at: unknown): At {
  return at === "first_unread" ? "firstUnread" : typeof at === "number" ? { seq: at } : "newest";
}

function sideOf({ before_seq, after_seq }: Step): Side {
  return before_seq === undefined ? (after_seq === undefined ? {} : { after_seq }) : { before_seq };
}

function isStored(item: Item): boolean {
  return item.type === "message" ? item.seq !== undefined : ["system", "unreadable"].includes(item.type);
}

/** The keys of each run. */
function runs(items: readonly Item[]): string[][] {
  const runs: string[][] = [];
  const messages = items.filter((item) => item.type === "message");
  for (const { key, run } of messages) {
    if (run.isFirst) {
      runs.push([]);
    }
    runs.at(-1)?.push(key);
  }
  const ends = messages.filter(({ run }) => run.isLast).map(({ key }) => key);
  expect(runs.map((run) => run.at(-1))).toEqual(ends);
  return runs;
}
