// A small model of the server, as alice sees it.

import type { Target } from "../src/saved.ts";

// biome-ignore lint/suspicious/noExplicitAny: frames, as they go over the wire.
export type Frame = any;

export const PEERS = ["bob", "carol", "dave"];
/** Small pages, so that there are several. */
const DRAIN_MAX = 3;
const PAGE_MAX = 2;

export function conversationWith(peer: string): string {
  return `dm_${peer}`;
}

/** A file that is to be sent. */
interface File {
  isPut: boolean;
  isReady: boolean;
  isSent: boolean;
}

class Refusal extends Error {
  readonly frame: Frame;

  constructor(code: string, more: Frame = { retryable: false }) {
    super(code);
    this.frame = { code, message: "", ...more };
  }
}

interface Said {
  messages: Frame[];
  delivered: number;
  read: number;
  /** As far as the user's other devices have it, or the user has read it in a view's page: no drain returns it. */
  settled: number;
  archived: boolean;
}

export class Server {
  readonly said = new Map<string, Said>();
  /** The next request fails in this way. */
  fails: Frame | undefined;
  #clock = 0;
  /** By what the server calls them. */
  #files = new Map<string, File>();

  /** For each peer: the number of earlier messages, and how many of them another device has acknowledged. */
  constructor(before: [number, number][]) {
    for (const [at, [count, held]] of before.entries()) {
      const conversation = conversationWith(PEERS[at] ?? "");
      for (let number = 0; number < count; number += 1) {
        this.append(conversation, PEERS[at] ?? "", `before-${number}`, "old");
      }
      const said = this.said.get(conversation);
      if (said) {
        said.delivered = Math.min(held, count);
        said.settled = said.delivered;
      }
    }
  }

  idOf(target: Target): string {
    return "to" in target ? conversationWith(target.to) : target.conversation_id;
  }

  append(conversation_id: string, sender_id: string, client_msg_id: string, body: string): Frame {
    this.#clock += 1;
    const said = this.said.get(conversation_id) ?? {
      messages: [],
      delivered: 0,
      read: 0,
      settled: 0,
      archived: false,
    };
    this.said.set(conversation_id, said);
    const seq = said.messages.length + 1;
    const sent_at = this.#time();
    const message = { conversation_id, seq, message_id: "x", sender_id, kind: "text", body, sent_at, client_msg_id };
    said.messages.push(message);
    if (sender_id === "alice" && said.delivered === seq - 1) {
      said.delivered = seq;
      if (!client_msg_id.startsWith("m")) {
        said.settled = seq;
      }
    }
    return message;
  }

  otherDeviceHolds(conversation: string): void {
    const said = this.said.get(conversation);
    if (said) {
      said.delivered = said.messages.length;
      said.settled = said.messages.length;
    }
  }

  answer(request: Frame): Frame {
    const { action, id } = request;
    if (this.fails) {
      const failure = this.fails;
      this.fails = undefined;
      return "type" in failure ? { ...failure, id } : failure;
    }
    try {
      return { type: "reply", action, id, result: this.#result(request) };
    } catch (error) {
      if (error instanceof Refusal) {
        return { type: "error", action, id, error: error.frame };
      }
      throw error;
    }
  }

  /** HTTP's status. */
  put(url: string): number {
    const file = this.#files.get(url.slice(url.lastIndexOf("/") + 1));
    if (!file) {
      return 403;
    }
    const status = file.isPut ? 412 : 200;
    file.isPut = true;
    return status;
  }

  /** A day has passed. */
  forgetFiles(): void {
    for (const [id, { isSent }] of this.#files) {
      if (!isSent) {
        this.#files.delete(id);
      }
    }
  }

  #result(request: Frame): unknown {
    switch (request.action) {
      case "send":
        return this.#send(request);
      case "upload":
        return this.#upload(request.media_id);
      case "uploaded":
        return this.#uploaded(request.media_id);
      case "edit":
        return this.#change(request, { kind: "edit" });
      case "react":
        return this.#change(request, { kind: "reaction" });
      case "delete":
        return this.#change(request, { kind: "delete" });
      case "ack":
        this.#acknowledge(request.up_to);
        return {};
      case "drain":
        this.#acknowledge(request.ack ?? []);
        return this.#drain();
      case "read":
        return this.#read(request);
      case "inbox":
        return this.#inbox(request);
      case "history":
        return this.#history(request);
      case "presence":
        return { users: [], watched: [] };
      case "channels":
        return { conversations: [], next_cursor: null };
      case "settings":
        this.#said(request.conversation_id).archived = request.set.archived;
        return {};
      case "device":
        return { device_id: "model", registered: request.token !== null };
      case "ping":
        return { pending: this.#pending().length > 0, server_time: this.#time() };
      default:
        throw new Error(request.action);
    }
  }

  #file(id: string): File {
    const file = this.#files.get(id);
    if (!file || file.isSent) {
      throw new Refusal("gone");
    }
    return file;
  }

  #upload(again: string | undefined): unknown {
    const media_id = again ?? `m_${this.#files.size}-${this.#clock}`;
    this.#clock += 1;
    if (again === undefined) {
      this.#files.set(media_id, { isPut: false, isReady: false, isSent: false });
    }
    const where = this.#file(media_id).isReady ? {} : { url: `https://s3/${media_id}`, headers: {} };
    return { media_id, ...where, expires_at: this.#time() };
  }

  #uploaded(media_id: string): unknown {
    const file = this.#file(media_id);
    if (!file.isPut) {
      throw new Refusal("not_ready", { retryable: true, retry_after_ms: 1000 });
    }
    file.isReady = true;
    return { media_id };
  }

  #send({ client_msg_id, kind, body, media, ...target }: Frame): unknown {
    const id = this.idOf("to" in target ? { to: target.to } : { conversation_id: target.conversation_id });
    const known = this.said.get(id)?.messages.find((message) => message.client_msg_id === client_msg_id);
    if (known && known.media?.media_id !== media?.media_id) {
      throw new Refusal("id_reused");
    }
    if (!known && media) {
      const file = this.#file(media.media_id);
      if (!file.isReady) {
        throw new Refusal("gone");
      }
      file.isSent = true;
    }
    const stored =
      known ?? Object.assign(this.append(id, "alice", client_msg_id, body), { kind }, media ? { media } : {});
    const { conversation_id, seq, message_id, sent_at } = stored;
    return { conversation_id, seq, message_id, sent_at, duplicate: known !== undefined };
  }

  /** As a message, but silent. */
  #change({ conversation_id: id, client_msg_id, seq: target_seq, body = "" }: Frame, change: Frame): unknown {
    const known = this.said.get(id)?.messages.find((message) => message.client_msg_id === client_msg_id);
    const entry = known ?? Object.assign(this.append(id, "alice", client_msg_id, body), { ...change, target_seq });
    if (entry.kind === "edit") {
      entry.version = entry.seq;
    }
    const { conversation_id, seq, message_id, sent_at, version } = entry;
    const made = version === undefined ? {} : { version };
    return { conversation_id, seq, message_id, sent_at, ...made, duplicate: known !== undefined };
  }

  #acknowledge(marks: Frame[]): void {
    for (const { conversation_id, seq } of marks) {
      const said = this.#said(conversation_id);
      said.delivered = Math.max(said.delivered, Math.min(seq, said.messages.length));
    }
  }

  #drain(): unknown {
    const pending = this.#pending();
    return { messages: pending.slice(0, DRAIN_MAX), more: pending.length > DRAIN_MAX };
  }

  #pending(): Frame[] {
    return [...this.said.values()].flatMap((said) =>
      said.messages.slice(said.delivered).map((entry) => asRead(said, entry)),
    );
  }

  #read({ conversation_id, seq }: Frame): unknown {
    const said = this.#said(conversation_id);
    said.read = Math.max(said.read, Math.min(seq, said.messages.length));
    said.delivered = Math.max(said.delivered, said.read);
    said.settled = Math.max(said.settled, said.read);
    return { unread: this.#unread(said) };
  }

  #inbox({ cursor }: Frame): unknown {
    // `since` is a minute before the time it is made of, and this model's clock does not run for as long.
    const last = ({ messages }: Said) => messages.filter(isMessage).at(-1);
    const all = [...this.said].sort(([, one], [, other]) => (last(one).sent_at < last(other).sent_at ? 1 : -1));
    const from = Number(cursor ?? 0);
    const rows = all.slice(from, from + PAGE_MAX).map(([conversation_id, said]) => {
      const { seq, sender_id, kind, body, sent_at, deleted_at } = asRead(said, last(said));
      return {
        conversation_id,
        kind: "direct",
        peer_id: conversation_id.replace("dm_", ""),
        last_message: { seq, sender_id, kind, preview: body, sent_at, ...(deleted_at ? { deleted: true } : {}) },
        unread: this.#unread(said),
        delivered_seq: said.delivered,
        read_seq: said.read,
        last_seq: said.messages.length,
        ...(said.archived ? { archived: true } : {}),
      };
    });
    return { conversations: rows, next_cursor: all.length > from + PAGE_MAX ? String(from + PAGE_MAX) : null };
  }

  #history({ conversation_id, after_seq, before_seq }: Frame): unknown {
    const said = this.said.get(conversation_id);
    if (!said) {
      throw new Refusal("not_member");
    }
    const { messages, delivered, read } = said;
    const found =
      after_seq === undefined
        ? messages.slice(0, (before_seq ?? Number.POSITIVE_INFINITY) - 1)
        : messages.slice(after_seq);
    const page = after_seq === undefined ? found.slice(-PAGE_MAX) : found.slice(0, PAGE_MAX);
    return {
      messages: page.map((entry) => asRead(said, entry)),
      more: found.length > PAGE_MAX,
      last_seq: messages.length,
      members: [{ user_id: "alice", delivered_seq: delivered, read_seq: read }],
    };
  }

  #unread({ messages, read }: Said): number {
    const isDeleted = messages.some(({ kind }) => kind === "delete");
    const isUnread = (entry: Frame) =>
      entry.sender_id !== "alice" && isMessage(entry) && !(entry.seq === 1 && isDeleted);
    return messages.slice(read).filter(isUnread).length;
  }

  #time(): string {
    return new Date(Date.UTC(2026, 10, 20) + this.#clock).toISOString();
  }

  #said(conversation: string): Said {
    const said = this.said.get(conversation);
    if (!said) {
      throw new Error(`the client can't know ${conversation}`);
    }
    return said;
  }
}

/** Returns the entry as the server reads it. All changes are of the first message. */
function asRead({ messages }: Said, entry: Frame): Frame {
  let read = entry;
  for (const { kind, body, version, sent_at, sender_id } of entry.seq === 1 ? messages : []) {
    if (kind === "delete" && read.deleted_at === undefined) {
      const { edited_at: _, version: __, ...rest } = read;
      read = { ...rest, body: "", deleted_at: sent_at, deleted_by: sender_id };
    } else if (kind === "edit" && read.deleted_at === undefined) {
      read = { ...read, body, version, edited_at: sent_at };
    }
  }
  return read;
}

function isMessage({ kind }: Frame): boolean {
  return kind === "text" || kind === "file";
}
