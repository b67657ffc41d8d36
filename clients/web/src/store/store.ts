// A message store: the chat list, the history, the members, the drafts, the outbox and the marks of one user.

import { PigeonholeError } from "../errors.ts";
import type { Channel, Conversation, Message } from "../frames.ts";
import type { Side } from "../protocol.ts";
import { isQueued, nothingSaved, type RefusedRequest, type Saved, type Target } from "../saved.ts";
import { uuid } from "../uuid.ts";
import { apply, isOfChannel, orderOfChats } from "./apply.ts";
import type { Database, Key, Mode, Storage, Transaction } from "./database.ts";
import {
  Cache,
  type ConversationRow,
  type DraftRow,
  type Folded,
  linesOf,
  type OutboxRow,
  ofMessages,
  REMOVED_MAX,
  Rows,
  seqOf,
  withFile,
} from "./rows.ts";
import { type DraftText, type Found, type KnownMember, type Load, PAGE, type Window, type Write } from "./types.ts";
import { queryOf } from "./words.ts";

/** The usual number of messages that a client keeps in a browser, for `tidy`. */
export const MESSAGES_MAX = 20_000;

/** The number of a conversation's newest messages that always stay. */
const KEPT_MIN = 200;

/** The number of texts with words that a search reads in one step. */
const PARTS = 200;

export class Store {
  readonly me: string;
  /** The id of this installation, which the store has made. */
  readonly deviceId: string;
  /** The name of a copy of earlier data that could not be read; empty if there is none. `undefined`: all could be read. */
  readonly setAside: string | undefined;
  #database: Database;
  /** A client that opened the store later has a higher one. */
  #owner: number;
  /** The rows that the opening read, until the first write. A client needs them immediately, and reading takes time. */
  #start: Start | undefined;

  /**
   * Opens the store of this user. The requests of the outbox and the drafts survive in a store that can't be read, as
   * far as they can be read.
   *
   * @throws `wrong_user`: the store is another user's. `newer`: a later version of the app wrote it. `storage_busy`,
   * `storage`.
   */
  static async open(storage: Storage, me: string): Promise<Store> {
    let database: Database | undefined;
    let found: Rescued = { outbox: [], drafts: [] };
    try {
      database = await storage.open();
      return new Store(database, me, await take(database, me));
    } catch (error) {
      if (!isDamage(error) || !storage.reset) {
        await database?.close();
        throw error;
      }
    }
    if (database) {
      found = await rescued(database);
      await database.close();
    }
    const setAside = (await storage.reset()) ?? "";
    database = await storage.open();
    const store = new Store(database, me, await take(database, me), setAside);
    await store.#write("lasting", async (rows) => {
      for (const { queued } of found.outbox) {
        await rows.queue(queued);
      }
      for (const { target, draft } of found.drafts) {
        rows.setDraft(target, draft);
      }
    });
    return store;
  }

  private constructor(database: Database, me: string, { deviceId, number, start }: Owner, setAside?: string) {
    this.#database = database;
    this.#owner = number;
    this.#start = start;
    this.me = me;
    this.deviceId = deviceId;
    this.setAside = setAside;
  }

  /**
   * Applies writes in one transaction. With `lasting`, they and all earlier ones survive a power failure when this
   * resolves. A turn is lasting if the server may forget something after it, or if a request enters the outbox.
   *
   * If it fails, nothing was written.
   *
   * @throws `storage_busy`: another client has taken the store over.
   */
  apply(writes: readonly Write[], lasting: boolean): Promise<void> {
    return this.#write(lasting ? "lasting" : "write", async (rows) => {
      await rows.prefetch(writes.flatMap(entriesOf));
      for (const write of writes) {
        await apply(rows, this.me, write);
      }
    });
  }

  /**
   * Removes at most 500 messages: those below a floor, or else old ones while the store has more than `messagesMax`. A
   * client calls this while it is idle, and again while the result is `true`.
   *
   * An old message was read, and is not among the newest 200 of its conversation. The conversation whose last message
   * is the oldest loses its messages first. These messages are a gap, which the client can request again.
   */
  tidy(messagesMax: number): Promise<boolean> {
    return this.#write("write", async (rows) => {
      const all = await conversationsOf(rows.transaction);
      for (const [id, { num, floor_seq = 0 }] of all) {
        const removed = floor_seq > 0 ? await rows.remove(id, ofMessages(num, 0, floor_seq), REMOVED_MAX) : 0;
        if (removed > 0) {
          return true;
        }
      }
      const trim = await nextToTrim(rows.transaction, all, messagesMax);
      if (trim) {
        await apply(rows, this.me, { trim });
      }
      return trim !== undefined;
    });
  }

  /** Returns the number of messages. */
  count(): Promise<number> {
    return this.#read(async (transaction) => countOf(await conversationsOf(transaction)));
  }

  /** Returns what the session saved. */
  saved(): Promise<Saved> {
    return this.#start
      ? Promise.resolve(this.#start.saved)
      : this.#read(async (transaction) => {
          const [saved, all] = await Promise.all([savedOf(transaction), conversationsOf(transaction)]);
          return withMarks(saved, all);
        });
  }

  /** Reads what a view needs. */
  load(what: Load): Promise<Found> {
    if (what.load === "start" && this.#start) {
      return Promise.resolve(listed(this.#start));
    }
    return this.#read(async (transaction): Promise<Found> => {
      if (what.load === "start") {
        return listed({ all: await conversationsOf(transaction), drafts: await draftsOf(transaction) });
      }
      const { conversation_id } = what;
      // Its steps read some rows again.
      const rows = new Rows(new Cache(transaction), this.me, this.#database.keepsFiles);
      if (what.load === "members") {
        return { found: "members", members: await rows.members(conversation_id) };
      }
      if (what.load === "proofs") {
        const found = await Promise.all(what.seqs.map((seq) => rows.folded(conversation_id, seq)));
        const proofs = found.flatMap((folded) => (folded?.message && folded.proofs) ?? []);
        return { found: "proofs", proofs };
      }
      const [{ window, places }, row, members] = await Promise.all([
        windowOf(rows, conversation_id, what.side, PAGE),
        rows.row(conversation_id),
        rows.members(conversation_id),
      ]);
      return { found: "window", members, window, places, ...(row ? { row } : {}) };
    });
  }

  /** Returns the chat list, the conversation with the newest message first. */
  chats(): Promise<Conversation[]> {
    return this.#read(async (transaction) => chatsOf(await conversationsOf(transaction)));
  }

  /** Returns the list of channels, in the order of their ids. */
  channels(): Promise<Channel[]> {
    return this.#read(async (transaction) => channelsOf(await conversationsOf(transaction)));
  }

  /** Returns the number of unread messages in all conversations that are not archived. */
  async unread(): Promise<number> {
    const chats = await this.chats();
    return chats.reduce((sum, { archived, unread }) => sum + (archived ? 0 : unread), 0);
  }

  /** Returns at most `limit` messages of a conversation, on one side of a `seq`. */
  window(id: string, side: Side, limit: number): Promise<Window> {
    return this.#read(async (transaction) => {
      const rows = new Rows(transaction, this.me, this.#database.keepsFiles);
      return (await windowOf(rows, id, side, limit)).window;
    });
  }

  /** Returns a conversation's members, in the order of their ids. */
  members(id: string): Promise<KnownMember[]> {
    return this.#read((transaction) => new Rows(transaction, this.me, this.#database.keepsFiles).members(id));
  }

  /** Returns all drafts. */
  drafts(): Promise<{ target: Target; draft: DraftText }[]> {
    return this.#read(draftsOf);
  }

  /** Returns the file of a message's attachment on this device. */
  place(id: string, seq: number): Promise<string | undefined> {
    return this.#read(async (transaction) => {
      const rows = new Rows(transaction, this.me, this.#database.keepsFiles);
      return (await rows.folded(id, seq))?.path;
    });
  }

  /** Returns the files that are no longer needed, in the order of their names. */
  unneeded(): Promise<string[]> {
    return this.#read(async (transaction) => (await transaction.range("unneeded")).map(([path]) => String(path)));
  }

  /** Returns the newest `limit` messages that contain the words, the newest first. The last word may be incomplete. */
  search(text: string, limit: number): Promise<Message[]> {
    return this.#read((transaction) => search(transaction, text, limit));
  }

  /** Another client may open the store. */
  async close(): Promise<void> {
    await this.#database.close();
  }

  #read<T>(run: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#database.transaction("read", run);
  }

  #write<T>(mode: Mode, run: (rows: Rows) => Promise<T>): Promise<T> {
    this.#start = undefined;
    return this.#database.transaction(mode, async (transaction) => {
      // A tab that lost its lock runs on, and its writes would go through.
      if ((await ownerOf(transaction)) !== this.#owner) {
        throw new PigeonholeError("storage_busy", "another client has taken the storage over");
      }
      const cache = new Cache(transaction);
      const result = await run(new Rows(cache, this.me, this.#database.keepsFiles));
      cache.flush();
      return result;
    });
  }
}

function entriesOf(write: Write): readonly Message[] {
  if ("entry" in write) {
    return [write.entry];
  }
  return "page" in write ? write.page.page.messages : [];
}

/** The owner of an open store: its user's installation, and the number of this opening. */
interface Owner {
  deviceId: string;
  number: number;
  start: Start;
}

interface Start extends Listed {
  saved: Saved;
}

interface Listed {
  all: [string, ConversationRow][];
  drafts: DraftRow[];
}

function listed({ all, drafts }: Listed): Found {
  return { found: "start", chats: chatsOf(all), channels: channelsOf(all), drafts };
}

/** Takes the store over, if it is this user's and can be read. The client that had it before can write no more. */
function take(database: Database, me: string): Promise<Owner> {
  // After a power failure, no other client runs. Until the first lasting turn, no server knows the device's id.
  return database.transaction("write", async (transaction) => {
    // Requested together. A page that starts is busy, and answers each request late.
    const reads = Promise.all([
      conversationsOf(transaction),
      savedOf(transaction),
      draftsOf(transaction),
      transaction.get("meta", "me"),
      transaction.get("meta", "device"),
      ownerOf(transaction),
    ]);
    // The first reads find damage.
    const [all, saved, drafts, owner = me, device, last = 0] = await reads;
    const start = { all, saved: withMarks(saved, all), drafts };
    listed(start);
    if (owner !== me) {
      throw new PigeonholeError("wrong_user", `the storage has the data of ${owner}, not of ${me}`);
    }
    const deviceId = typeof device === "string" ? device : uuid();
    const number = last + 1;
    transaction.put("meta", "me", me);
    transaction.put("meta", "device", deviceId);
    transaction.put("meta", "owner", number);
    return { deviceId, number, start };
  });
}

async function ownerOf(transaction: Transaction): Promise<number | undefined> {
  return (await transaction.get("meta", "owner")) as number | undefined;
}

/** The data that no server has. */
interface Rescued {
  outbox: OutboxRow[];
  drafts: DraftRow[];
}

/** Returns whether rows can't be read, now or later. Others, such as a full disk, can end. */
function isDamage(error: unknown): boolean {
  const isUnreadable = error instanceof DOMException && ["DataError", "NotReadableError"].includes(error.name);
  return isUnreadable || error instanceof TypeError || error instanceof SyntaxError;
}

async function rescued(database: Database): Promise<Rescued> {
  const all = (table: "outbox" | "draft") =>
    database
      .transaction("read", async (transaction) => (await transaction.range(table)).map(([, row]) => row))
      .catch(() => []);
  const isDraft = (row: DraftRow | null) => typeof row?.draft?.body === "string" && typeof row.target === "object";
  return {
    outbox: ((await all("outbox")) as (OutboxRow | null)[]).filter(
      (row) => row !== null && isQueued(row?.queued),
    ) as OutboxRow[],
    drafts: ((await all("draft")) as DraftRow[]).filter(isDraft),
  };
}

/** Returns what the session saved, without its marks. */
async function savedOf(transaction: Transaction): Promise<Saved> {
  const saved = nothingSaved();
  const [outbox, sealing, caughtUp, listed] = await Promise.all([
    transaction.range("outbox"),
    transaction.range("sealing"),
    transaction.get("meta", "caught_up"),
    transaction.get("meta", "listed"),
  ]);
  for (const [, row] of outbox as [Key, OutboxRow][]) {
    // A request that this version can't read waits for a later one.
    if (!isQueued(row.queued)) {
      continue;
    }
    const file = await fileFor(transaction, row);
    const queued = withFile(row.queued, file);
    if (row.refused === undefined) {
      saved.outbox.push(queued);
    } else {
      saved.refused.push({ queued, code: row.refused } satisfies RefusedRequest);
    }
  }
  saved.sealing = new Map(sealing as [string, string][]);
  saved.listed = listed === true;
  return typeof caughtUp === "string" ? { ...saved, caughtUp } : saved;
}

function withMarks(saved: Saved, conversations: [string, ConversationRow][]): Saved {
  for (const [id, { held_seq, read_seq }] of conversations) {
    if (held_seq !== undefined) {
      saved.held.set(id, held_seq);
    }
    if (read_seq !== undefined) {
      saved.reads.set(id, read_seq);
    }
  }
  return saved;
}

async function fileFor(transaction: Transaction, { queued }: OutboxRow): Promise<Blob | undefined> {
  const hasFile = "body" in queued && queued.media && "file" in queued.media.source;
  return hasFile ? ((await transaction.get("file", queued.clientMsgId)) as Blob | undefined) : undefined;
}

function chatsOf(rows: [string, ConversationRow][]): Conversation[] {
  return rows.flatMap(([, { listed }]) => (listed && !isOfChannel(listed) ? listed : [])).sort(orderOfChats);
}

function channelsOf(rows: [string, ConversationRow][]): Channel[] {
  return rows.flatMap(([, { listed }]) => (listed && isOfChannel(listed) ? listed : []));
}

async function draftsOf(transaction: Transaction): Promise<DraftRow[]> {
  return (await transaction.range("draft")).map(([, row]) => row as DraftRow);
}

async function windowOf(
  rows: Rows,
  id: string,
  side: Side,
  limit: number,
): Promise<{ window: Window; places: Map<number, string> }> {
  const places = new Map<number, string>();
  const row = await rows.conversation(id);
  const found: Message[] = [];
  const isAfter = "after_seq" in side && side.after_seq !== undefined;
  const { num = 0, floor_seq: floor = 0 } = row ?? {};
  let from = isAfter ? Math.max(side.after_seq + 1, floor) : floor;
  let below = "before_seq" in side && side.before_seq !== undefined ? side.before_seq : Number.POSITIVE_INFINITY;
  const spans = row?.spans ?? [];
  // A database reads keys faster than it steps back from the end. The last messages mostly have these.
  const end = Math.min(below, (spans.at(-1)?.to ?? 0) + 1);
  let first = isAfter ? from : Math.max(from, end - limit);
  // A row without a message has only changes.
  for (let isLast = !row; !isLast && found.length < limit; ) {
    const wanted = limit - found.length;
    const isGuess = first > from;
    const range = ofMessages(num, first, below);
    const read = isGuess ? range : { ...range, limit: wanted, isReverse: !isAfter };
    const all = (await rows.transaction.range("message", read)) as [[number, number], Folded][];
    const page = isGuess ? all.reverse().slice(0, wanted) : all;
    for (const [[, seq], { message, path }] of page) {
      if (message) {
        found.push(message);
      }
      if (path !== undefined) {
        places.set(seq, path);
      }
      [from, below] = isAfter ? [seq + 1, below] : [from, seq];
    }
    isLast = !isGuess && page.length < wanted;
    first = from;
  }
  const messages = isAfter ? found : found.reverse();
  return { window: { messages, spans: [...spans] }, places };
}

async function conversationsOf(transaction: Transaction): Promise<[id: string, ConversationRow][]> {
  return (await transaction.range("conversation")) as [string, ConversationRow][];
}

function countOf(all: [id: string, ConversationRow][]): number {
  return all.reduce((sum, [, { messages }]) => sum + messages, 0);
}

/** Returns what to remove next. `undefined`: the store is small enough, or nothing may go. */
async function nextToTrim(
  transaction: Transaction,
  all: [string, ConversationRow][],
  messagesMax: number,
): Promise<{ conversation_id: string; first_seq: number } | undefined> {
  const excess = Math.min(countOf(all) - messagesMax, REMOVED_MAX);
  // A conversation without a row has no read mark.
  const listed = all.flatMap(([, { num, messages, listed }]) => (listed ? [{ num, messages, listed }] : []));
  const bySentAt = listed.sort((one, other) => orderOfChats(other.listed, one.listed));
  for (const { num, messages, listed: row } of excess > 0 ? bySentAt : []) {
    const first_seq = messages > KEPT_MIN ? await firstToStay(transaction, num, row, excess) : undefined;
    if (first_seq !== undefined) {
      return { conversation_id: row.conversation_id, first_seq };
    }
  }
  return undefined;
}

/** Returns the first message that stays when `excess` messages go, or as many as may. `undefined`: no message may go. */
async function firstToStay(
  transaction: Transaction,
  num: number,
  { read_seq }: Conversation | Channel,
  excess: number,
): Promise<number | undefined> {
  const seqs = async (below: number | undefined, limit: number, isReverse: boolean) => {
    const found = await transaction.range("message", { ...ofMessages(num, 0, below), limit, isReverse });
    return found.map(([key]) => (key as [number, number])[1]);
  };
  const newest = (await seqs(undefined, KEPT_MIN, true)).at(-1) ?? 0;
  const stays = Math.min(newest, read_seq + 1);
  const oldest = await seqs(stays, excess + 1, false);
  return oldest.length > 0 ? (oldest[excess] ?? stays) : undefined;
}

async function search(transaction: Transaction, text: string, limit: number): Promise<Message[]> {
  const query = queryOf(text);
  if (!query) {
    return [];
  }
  const parts = [...query.words.map((word) => ` ${word} `), ` ${query.prefix}`];
  const has = (line: string) => parts.every((part) => line.includes(part));
  const rows = await conversationsOf(transaction);
  const byNum = new Map(rows.map(([id, { num, floor_seq = 0 }]) => [num, { id, floor: floor_seq }]));
  const hits: { at: number; id: string; key: [number, number] }[] = [];
  for (let from: Key = [0]; ; ) {
    const texts = (await transaction.range("search", { from, limit: PARTS })) as [[number, number], string][];
    for (const [[num], words] of texts) {
      const { id, floor } = byNum.get(num) ?? { id: "", floor: 0 };
      for (const line of has(words) ? linesOf(words) : []) {
        const [seq, tab] = [seqOf(line), line.indexOf("\t")];
        if (seq >= floor && has(line.slice(tab))) {
          hits.push({ at: Number(line.slice(line.indexOf(" "), tab)), id, key: [num, seq] });
        }
      }
    }
    const last = texts.at(-1)?.[0];
    if (!last || texts.length < PARTS) {
      break;
    }
    from = [last[0], last[1] + 1];
  }
  hits.sort(
    (one, other) =>
      other.at - one.at || (one.id < other.id ? -1 : Number(one.id > other.id)) || one.key[1] - other.key[1],
  );
  const found: Message[] = [];
  for (const { key } of hits) {
    if (found.length >= limit) {
      break;
    }
    const { message } = (await transaction.get("message", key)) as Folded;
    if (message && query.hasRuns(message.body)) {
      found.push(message);
    }
  }
  return found;
}
