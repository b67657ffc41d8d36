import type { Report } from "./admin.ts";
import type { Message } from "./types.ts";

/** The conversation of an entry. `members` are those of a direct one. */
export interface EventConversation {
  conversation_id: string;
  kind: "direct" | "group" | "channel" | (string & {});
  members?: string[];
}

interface Common {
  v: 1;
  /** The same each time that the event comes. */
  id: string;
  stack: string;
}

/**
 * An entry of a conversation. With `EventsContent=ids`, its message has no `body`, `data`, `media`, `mentions` or
 * `system`. An entry that the server can't read has `conversation_id` and `seq` alone.
 */
export interface EntryEvent extends Common {
  type: "entry";
  conversation: EventConversation;
  message: Pick<Message, "conversation_id" | "seq"> & Partial<Message>;
}

/** A report of a user. */
export interface ReportEvent extends Common, Report {
  type: "report";
}

/** The end of an operators' job. */
export interface JobEvent extends Common {
  type: "job";
  job_id: string;
  op: string;
  state: string;
  user_id?: string;
  erased_id?: string;
}

export type PigeonholeEvent = EntryEvent | ReportEvent | JobEvent;

/** A text that is no event of this version. */
export class NotAnEventError extends Error {
  override readonly name = "NotAnEventError";
}

/**
 * Returns the event in what your function or worker got: a message's body of SQS, as text or parsed, or EventBridge's
 * object. Returns undefined for a type that this version does not know: a later server may send it.
 */
export function parseEvent(got: unknown): PigeonholeEvent | undefined {
  const parsed = typeof got === "string" ? json(got) : got;
  const outer = object(parsed, "the event");
  const event = "detail" in outer ? object(outer.detail, "detail") : outer;
  check(event.v === 1, "v", "1");
  check(isText(event.id), "id", "a text");
  check(isText(event.stack), "stack", "a text");
  switch (event.type) {
    case "entry": {
      const conversation = object(event.conversation, "conversation");
      const message = object(event.message, "message");
      check(isText(conversation.conversation_id), "conversation.conversation_id", "a text");
      check(isText(conversation.kind), "conversation.kind", "a text");
      check(message.conversation_id === conversation.conversation_id, "message.conversation_id", "the conversation's");
      check(Number.isSafeInteger(message.seq) && (message.seq as number) > 0, "message.seq", "a number from 1 on");
      for (const field of "kind" in message ? ["sender_id", "kind", "sent_at"] : []) {
        check(isText(message[field]), `message.${field}`, "a text");
      }
      break;
    }
    case "report":
      check(isText(event.report_id), "report_id", "a text");
      check(isText(event.reporter_id), "reporter_id", "a text");
      break;
    case "job":
      check(isText(event.job_id), "job_id", "a text");
      check(isText(event.state), "state", "a text");
      break;
    default:
      check(isText(event.type), "type", "a text");
      return undefined;
  }
  return event as unknown as PigeonholeEvent;
}

/** A record of a Lambda function's event of SQS. */
export interface SqsRecord {
  messageId: string;
  body: string;
}

/**
 * Calls `take` for each event of a batch of SQS, in order. Returns the failed records, as Lambda wants them of a
 * function. After a failure `take` gets no further entry of that conversation. The event source mapping needs
 * `ReportBatchItemFailures`.
 */
export async function eachOfBatch(
  batch: { Records: SqsRecord[] },
  take: (event: PigeonholeEvent) => void | Promise<void>,
): Promise<{ batchItemFailures: { itemIdentifier: string }[] }> {
  const failed: string[] = [];
  const stopped = new Set<string>();
  for (const { messageId, body } of batch.Records) {
    let key = messageId;
    try {
      const event = parseEvent(body);
      if (event === undefined) {
        continue;
      }
      key = event.type === "entry" ? event.message.conversation_id : event.id;
      if (!stopped.has(key)) {
        await take(event);
        continue;
      }
    } catch (error) {
      console.error(`the event of ${messageId} failed`, error);
    }
    stopped.add(key);
    failed.push(messageId);
  }
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}

/** Entries that have not come. */
export interface Hole {
  conversation_id: string;
  from_seq: number;
  to_seq: number;
}

interface Followed {
  /** The seq below which nothing is known. */
  begin: number;
  /** All entries from `begin` up to here have come. */
  last: number;
  /** Those above, each in the millisecond in which it came. */
  above: Map<number, number>;
}

/**
 * Knows which entries have come, by their dense `seq`: entries can come twice, late, or never. A conversation begins
 * with its first entry here, or behind `lasts`.
 */
export class Follower {
  #followed = new Map<string, Followed>();

  constructor(lasts: Record<string, number> = {}) {
    for (const [conversation, last] of Object.entries(lasts)) {
      this.#followed.set(conversation, { begin: 0, last, above: new Map() });
    }
  }

  /** Reports whether the entry has come before. An entry from before the beginning has not. */
  has({ message }: EntryEvent): boolean {
    const followed = this.#followed.get(message.conversation_id);
    return (
      followed !== undefined &&
      message.seq > followed.begin &&
      (message.seq <= followed.last || followed.above.has(message.seq))
    );
  }

  /** Notes an entry that you have finished with. */
  add({ message }: EntryEvent, now = Date.now()): void {
    const { conversation_id, seq } = message;
    const followed = this.#followed.get(conversation_id) ?? { begin: seq - 1, last: seq - 1, above: new Map() };
    this.#followed.set(conversation_id, followed);
    if (seq <= followed.last) {
      return;
    }
    followed.above.set(seq, followed.above.get(seq) ?? now);
    while (followed.above.delete(followed.last + 1)) {
      followed.last += 1;
    }
  }

  /** Returns the holes below entries that came before `since`: pass them to the operators' request `replay`. */
  holes(since = Date.now() - 60_000): Hole[] {
    const holes: Hole[] = [];
    for (const [conversation_id, { last, above }] of this.#followed) {
      let below = last;
      for (const seq of [...above.keys()].sort((one, other) => one - other)) {
        if (seq > below + 1 && (above.get(seq) as number) <= since) {
          holes.push({ conversation_id, from_seq: below + 1, to_seq: seq - 1 });
        }
        below = seq;
      }
    }
    return holes;
  }

  /** Returns the `seq` of each conversation up to which no entry lacks: store them, and begin there again. */
  lasts(): Record<string, number> {
    return Object.fromEntries([...this.#followed].map(([conversation, { last }]) => [conversation, last]));
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new NotAnEventError("the event is no JSON", { cause });
  }
}

function object(value: unknown, name: string): Record<string, unknown> {
  check(typeof value === "object" && value !== null && !Array.isArray(value), name, "an object");
  return value as Record<string, unknown>;
}

function check(holds: boolean, name: string, what: string): void {
  if (!holds) {
    throw new NotAnEventError(`${name} must be ${what}`);
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
