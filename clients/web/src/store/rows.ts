// The rows of a message store, within one transaction.

import { addChange, applied, type Changes, countOf, keepText, markDeleted, noChanges } from "../changes.ts";
import type { Channel, Conversation, Message, Opened } from "../frames.ts";
import { isChange } from "../protocol.ts";
import { fileOf, isQueued, type Queued, type StorageChange, type Target, withMediaId } from "../saved.ts";
import type { Key, Range, Table, Transaction } from "./database.ts";
import type { DraftText, KnownMember, Span } from "./types.ts";
import { wordsOf } from "./words.ts";

/** A message and the change entries of it that came, whichever came first. */
export interface Folded {
  /** `undefined`: only changes of it have come. */
  message?: Message;
  changes: Changes;
  /** The file of its attachment on this device. */
  path?: string;
  /** The proofs of the current text, and of edits while the message has not come. */
  proofs?: Opened[];
}

/** A conversation, without its messages and members. */
export interface ConversationRow {
  num: number;
  /** The row of the chat list or of the list of channels. */
  listed?: Conversation | Channel;
  held_seq?: number;
  /** A read mark that the server does not know yet. */
  read_seq?: number;
  /** The first entry that the user can see. */
  floor_seq?: number;
  /** The number of rows of messages. */
  messages: number;
  /** The ranges without a gap, in their order. */
  spans: readonly Span[];
}

/** A request of the outbox. */
export interface OutboxRow {
  queued: Queued;
  /** The code of the server's refusal for good. */
  refused?: string;
}

export interface DraftRow {
  target: Target;
  draft: DraftText;
}

/** The number of messages whose words are in one text. Each change of a message writes its text again. */
const PART = 64;

/** The number of messages below a floor that one transaction removes. */
export const REMOVED_MAX = 500;

/** A range of the messages of a conversation. */
export function ofMessages(num: number, from: number, below = Number.POSITIVE_INFINITY): Range {
  return { from: [num, from], below: below === Number.POSITIVE_INFINITY ? [num + 1] : [num, below] };
}

/** All rows of a conversation, in a table whose keys begin with its number. */
function of(num: number): Range {
  return { from: [num], below: [num + 1] };
}

/** A transaction that reads each row once, and writes it once, at the end. */
export class Cache implements Transaction {
  #transaction: Transaction;
  #rows = new Map<string, { table: Table; key: Key; value: Promise<unknown> | unknown; isChanged: boolean }>();

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  async get(table: Table, key: Key): Promise<unknown> {
    const name = nameOf(table, key);
    let row = this.#rows.get(name);
    if (!row) {
      row = { table, key, value: this.#transaction.get(table, key), isChanged: false };
      this.#rows.set(name, row);
    }
    return row.value;
  }

  async range(table: Table, range?: Range): Promise<[Key, unknown][]> {
    this.flush();
    return this.#transaction.range(table, range);
  }

  put(table: Table, key: Key, value: unknown): void {
    this.#rows.set(nameOf(table, key), { table, key, value, isChanged: true });
  }

  delete(table: Table, key: Key): void {
    this.put(table, key, undefined);
  }

  /** Writes what has changed. */
  flush(): void {
    for (const row of this.#rows.values()) {
      if (row.isChanged && row.value === undefined) {
        this.#transaction.delete(row.table, row.key);
      } else if (row.isChanged) {
        this.#transaction.put(row.table, row.key, row.value);
      }
      row.isChanged = false;
    }
  }
}

function nameOf(table: Table, key: Key): string {
  return JSON.stringify([table, key]);
}

export class Rows {
  readonly transaction: Transaction;
  readonly #me: string;
  readonly #keepsFiles: boolean;

  constructor(transaction: Transaction, me: string, keepsFiles: boolean) {
    this.transaction = transaction;
    this.#me = me;
    this.#keepsFiles = keepsFiles;
  }

  /** Reads together what these entries change, instead of one row after another. */
  async prefetch(entries: readonly Message[]): Promise<void> {
    await Promise.all(
      entries.map(async (entry) => {
        const { conversation_id, target_seq, seq: own } = entry;
        const seq = isChange(entry) ? (target_seq ?? own) : own;
        const row = await this.conversation(conversation_id);
        if (row) {
          const { num } = row;
          await Promise.all([this.transaction.get("message", [num, seq]), this.#linesOf(num, seq)]);
        }
      }),
    );
  }

  // Conversations.

  async conversation(id: string): Promise<ConversationRow | undefined> {
    return (await this.transaction.get("conversation", id)) as ConversationRow | undefined;
  }

  /** Changes the row of a conversation. A conversation without a number gets a new one. */
  async change(id: string, fields: Partial<ConversationRow>): Promise<ConversationRow> {
    const row = { ...((await this.conversation(id)) ?? (await this.#begun())), ...fields };
    this.transaction.put("conversation", id, row);
    return row;
  }

  async #begun(): Promise<ConversationRow> {
    const num = (((await this.transaction.get("meta", "num")) as number | undefined) ?? 0) + 1;
    this.transaction.put("meta", "num", num);
    return { num, messages: 0, spans: [] };
  }

  async #num(id: string): Promise<number> {
    return ((await this.conversation(id)) ?? (await this.change(id, {}))).num;
  }

  async row(id: string): Promise<Conversation | Channel | undefined> {
    return (await this.conversation(id))?.listed;
  }

  async setRow(listed: Conversation | Channel): Promise<void> {
    await this.change(listed.conversation_id, { listed });
  }

  /** Removes the row of the list, all messages and all members. */
  async forget(id: string): Promise<void> {
    const { num } = await this.change(id, { spans: [] });
    await this.remove(id, ofMessages(num, 0));
    await this.setMembers(id, []);
    const { listed: _, ...rest } = await this.change(id, {});
    this.transaction.put("conversation", id, rest);
  }

  async floor(id: string): Promise<number> {
    return (await this.conversation(id))?.floor_seq ?? 0;
  }

  /** Hides all messages below a new floor, and removes some of them. The others go later. */
  async setFloor(id: string, floor_seq: number): Promise<void> {
    const { num } = await this.change(id, { floor_seq });
    await this.remove(id, ofMessages(num, 0, floor_seq), REMOVED_MAX);
  }

  // Messages.

  async folded(id: string, seq: number): Promise<Folded | undefined> {
    const row = await this.conversation(id);
    return row && ((await this.transaction.get("message", [row.num, seq])) as Folded | undefined);
  }

  async setFolded(id: string, seq: number, folded: Folded, old: Folded | undefined): Promise<void> {
    const num = await this.#num(id);
    if (!old) {
      await this.change(id, { messages: ((await this.conversation(id))?.messages ?? 0) + 1 });
    }
    this.transaction.put("message", [num, seq], folded);
    if (old?.message?.body !== folded.message?.body) {
      await this.#index(num, seq, folded.message);
    }
  }

  /** Removes at most `limit` messages, whose files are no longer needed. Returns how many it has removed. */
  async remove(id: string, range: Range, limit?: number): Promise<number> {
    const found = await this.transaction.range("message", limit === undefined ? range : { ...range, limit });
    for (const [key, value] of found) {
      const [num, seq] = key as [number, number];
      const { message, path } = value as Folded;
      this.transaction.delete("message", key);
      if (message) {
        await this.#index(num, seq, undefined);
      }
      if (path !== undefined) {
        this.setUnneeded(path, true);
      }
    }
    if (found.length > 0) {
      await this.change(id, { messages: ((await this.conversation(id))?.messages ?? 0) - found.length });
    }
    return found.length;
  }

  /** Replaces the words by which a search finds a message. */
  async #index(num: number, seq: number, message: Message | undefined): Promise<void> {
    const key = partOf(num, seq);
    const lines = await this.#linesOf(num, seq);
    const others = lines.filter((line) => seqOf(line) !== seq);
    const words = message && message.kind !== "sealed" ? wordsOf(message.body) : [];
    if (message && words.length > 0) {
      others.push(`${seq} ${Date.parse(message.sent_at)}\t ${words.join(" ")} `);
    }
    if (others.length > 0) {
      this.transaction.put("search", key, others.join("\n"));
    } else if (lines.length > 0) {
      this.transaction.delete("search", key);
    }
  }

  async #linesOf(num: number, seq: number): Promise<string[]> {
    return linesOf(await this.transaction.get("search", partOf(num, seq)));
  }

  // Spans, members, drafts and files.

  async spans(id: string): Promise<readonly Span[]> {
    return (await this.conversation(id))?.spans ?? [];
  }

  async setSpans(id: string, spans: readonly Span[]): Promise<void> {
    await this.change(id, { spans });
  }

  async members(id: string): Promise<KnownMember[]> {
    const row = await this.conversation(id);
    const found = row ? await this.transaction.range("member", of(row.num)) : [];
    return found.map(([, value]) => value as KnownMember);
  }

  async setMembers(id: string, members: readonly KnownMember[]): Promise<void> {
    const num = await this.#num(id);
    for (const [key] of await this.transaction.range("member", of(num))) {
      this.transaction.delete("member", key);
    }
    for (const member of members) {
      this.transaction.put("member", [num, member.user_id], member);
    }
  }

  setDraft(target: Target, draft: DraftText | undefined): void {
    if (draft) {
      this.transaction.put("draft", draftOf(target), { target, draft } satisfies DraftRow);
    } else {
      this.transaction.delete("draft", draftOf(target));
    }
  }

  setUnneeded(path: string, isUnneeded: boolean): void {
    if (isUnneeded) {
      this.transaction.put("unneeded", path, true);
    } else {
      this.transaction.delete("unneeded", path);
    }
  }

  /** Replaces or deletes a row of the end-to-end encryption. */
  setSealing(key: string, value: string | undefined): void {
    if (value === undefined) {
      this.transaction.delete("sealing", key);
    } else {
      this.transaction.put("sealing", key, value);
    }
  }

  // Changes of the session.

  async save(change: StorageChange): Promise<void> {
    if ("queued" in change) {
      await this.queue(change.queued);
    } else if ("uploading" in change) {
      const { clientMsgId, mediaId } = change.uploading;
      const [n, row] = (await this.#queued(clientMsgId)) ?? [];
      if (n !== undefined && row) {
        this.transaction.put("outbox", n, { ...row, queued: withMediaId(row.queued, mediaId) });
      }
    } else if ("done" in change) {
      const [n] = (await this.#queued(change.done)) ?? [];
      if (n !== undefined) {
        this.transaction.delete("outbox", n);
      }
      this.transaction.delete("file", change.done);
    } else if ("refused" in change) {
      const [n, row] = (await this.#queued(change.refused.clientMsgId)) ?? [];
      if (n !== undefined && row) {
        this.transaction.put("outbox", n, { ...row, refused: change.refused.code });
      }
    } else if ("held" in change) {
      const { conversation_id, seq } = change.held;
      const { held_seq = 0 } = (await this.conversation(conversation_id)) ?? {};
      await this.change(conversation_id, { held_seq: Math.max(held_seq, seq) });
    } else if ("read" in change) {
      const { conversation_id, seq } = change.read;
      const { read_seq = 0 } = (await this.conversation(conversation_id)) ?? {};
      await this.change(conversation_id, { read_seq: Math.max(read_seq, seq) });
    } else if ("readTold" in change) {
      const { conversation_id, seq } = change.readTold;
      const row = await this.conversation(conversation_id);
      if (row?.read_seq !== undefined && row.read_seq <= seq) {
        const { read_seq: _, ...rest } = row;
        this.transaction.put("conversation", conversation_id, rest);
      }
    } else {
      const [name, value] = "listed" in change ? ["listed", true] : ["caught_up", change.caughtUp];
      this.transaction.put("meta", name as string, value);
    }
  }

  /** Adds a request behind all others. */
  async queue(queued: Queued): Promise<void> {
    const file = fileOf(queued);
    if (file && !this.#keepsFiles) {
      return;
    }
    const [last] = await this.transaction.range("outbox", { limit: 1, isReverse: true });
    const n = ((last?.[0] as number | undefined) ?? 0) + 1;
    this.transaction.put("outbox", n, { queued: file ? withFile(queued, new Blob()) : queued } satisfies OutboxRow);
    if (file) {
      // Apart from the request, so that a change of that does not write the bytes again.
      this.transaction.put("file", queued.clientMsgId, file);
    }
  }

  /** Returns the first request with this id, which is among the first in most cases. */
  async #queued(clientMsgId: string): Promise<[n: number, OutboxRow] | undefined> {
    const limit = 16;
    for (let from = 0; ; ) {
      const rows = (await this.transaction.range("outbox", { from, limit })) as [number, OutboxRow][];
      const found = rows.find(([, row]) => isQueued(row.queued) && row.queued.clientMsgId === clientMsgId);
      const last = rows.at(-1);
      if (found || !last || rows.length < limit) {
        return found;
      }
      from = last[0] + 1;
    }
  }

  // Folding.

  /** Returns the message after one more entry, which is the message itself or a change of it. */
  fold(old: Folded | undefined, entry: Message, isOfPage: boolean): Folded {
    const { message: held, changes = noChanges(), ...rest } = old ?? {};
    if (isChange(entry)) {
      addChange(changes, entry, this.#me);
      return proven({ ...rest, changes, ...(held ? { message: kept(held, applied(changes, held)) } : {}) });
    }
    if (entry.deleted_at !== undefined) {
      markDeleted(changes, entry.deleted_at, entry.deleted_by ?? entry.sender_id);
    }
    let message = entry;
    if (held) {
      // A page that another member's device sees has no such id.
      const clientMsgId = entry.client_msg_id ?? held.client_msg_id;
      message = keepText(clientMsgId === undefined ? entry : { ...entry, client_msg_id: clientMsgId }, held);
    }
    // An event without reactions can be of a channel, where only pages have them.
    if (isOfPage || (entry.reactions?.length ?? 0) > 0 || entry.reactions_seq !== undefined) {
      countOf(changes, message);
    }
    return proven({ ...rest, changes, message: kept(entry, applied(changes, message)) });
  }
}

/** Returns the message without the proofs of texts that are gone, and with one more. */
export function proven({ proofs = [], ...folded }: Folded, proof?: Opened): Folded {
  const { message, changes } = folded;
  const isOfText = ({ seq }: Opened) =>
    message && message.kind !== "sealed"
      ? seq === (message.version ?? message.seq)
      : Object.values(changes.sealed ?? {}).some(({ version }) => version === seq);
  const all = [...proofs.filter(({ seq }) => seq !== proof?.seq), ...(proof ? [proof] : [])];
  const left = changes.deleted ? [] : all.filter(isOfText);
  return left.length > 0 ? { ...folded, proofs: left } : folded;
}

const FIELDS: Record<keyof Message, true> = {
  body: true,
  client_msg_id: true,
  commit: true,
  conversation_id: true,
  data: true,
  deleted_at: true,
  deleted_by: true,
  edited_at: true,
  emoji: true,
  emoji_before: true,
  epoch: true,
  frank: true,
  kind: true,
  media: true,
  mentions: true,
  message_id: true,
  pinned: true,
  reactions: true,
  reactions_seq: true,
  removes: true,
  reply_to: true,
  sender_id: true,
  sent_at: true,
  seq: true,
  seqs: true,
  silent: true,
  system: true,
  target_seq: true,
  tree: true,
  user_id: true,
  version: true,
  welcome: true,
};

/** Returns what is kept of a message. Fields of a later version can repeat a text that the message no longer has. */
function kept(before: Message, message: Message): Message {
  if (message.deleted_at === undefined && message.body === before.body) {
    return message;
  }
  const known = Object.entries(message).filter(([name]) => Object.hasOwn(FIELDS, name));
  return Object.fromEntries(known) as unknown as Message;
}

/** Returns the request with these bytes. */
export function withFile(queued: Queued, file: Blob | undefined): Queued {
  return "body" in queued && queued.media && file
    ? { ...queued, media: { ...queued.media, source: { file } } }
    : queued;
}

/** Returns the key of the text with the words of a message. */
function partOf(num: number, seq: number): Key {
  return [num, Math.floor(seq / PART)];
}

/** Returns the key of a draft. */
function draftOf(target: Target): string {
  return "to" in target ? `to ${target.to}` : `in ${target.conversation_id}`;
}

/** Returns the lines of a text with words: `seq`, the time in milliseconds, a tab, and the words between spaces. */
export function linesOf(text: unknown): string[] {
  return typeof text === "string" ? text.split("\n") : [];
}

/** Returns the `seq` of a line. */
export function seqOf(line: string): number {
  return Number.parseInt(line, 10);
}
