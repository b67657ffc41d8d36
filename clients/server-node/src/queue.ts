import { limits, type ProfileChange, type Send } from "./types.ts";

/** The part of the AWS SDK's `SQS` that {@link Queue} uses. */
export interface SqsClient {
  sendMessageBatch(input: { QueueUrl: string; Entries: Entry[] }): Promise<{
    Failed?: { Id: string | undefined; Code: string | undefined; Message?: string | undefined }[] | undefined;
  }>;
}

interface Entry {
  Id: string;
  MessageGroupId: string;
  MessageDeduplicationId: string;
  MessageBody: string;
}

/** A message of the queue. */
export type QueueMessage = Required<Pick<Send, "to">> & Pick<Send, "client_msg_id" | "kind" | "body" | "data">;

/** A message that SQS did not take, with SQS's reason. */
export interface NotQueued {
  message: QueueMessage;
  reason: string;
}

/** SQS's maximum of entries in a batch. */
const BATCH_ENTRIES_MAX = 10;
/** 10 messages of the maximal size would be above SQS's former limit of 256 KiB. */
const BATCH_BYTES_MAX = 256 * 1024;

/** Messages of a service to any users, by the queue. `url` is the stack's output `BackendQueueUrl`. */
export class Queue {
  #sqs: SqsClient;
  #url: string;
  #service: string;

  constructor(sqs: SqsClient, url: string, service: string) {
    this.#sqs = sqs;
    this.#url = url;
    this.#service = service;
  }

  /**
   * Queues messages, and returns those that SQS did not take. Call it again with these: the same `client_msg_id` is the
   * same message. Throws a RangeError, before it queues any, if the server would refuse one.
   */
  async publish(...messages: QueueMessage[]): Promise<NotQueued[]> {
    const entries = messages.map((message) => this.#entry(message));
    const left: NotQueued[] = [];
    for (const batch of batches(entries)) {
      const entriesOfBatch = batch.map((place) => ({ Id: String(place), ...(entries[place] as Omit<Entry, "Id">) }));
      const { Failed = [] } = await this.#sqs.sendMessageBatch({ QueueUrl: this.#url, Entries: entriesOfBatch });
      for (const { Id, Code, Message } of Failed) {
        left.push({ message: messages[Number(Id)] as QueueMessage, reason: `${Code}: ${Message ?? ""}` });
      }
    }
    return left;
  }

  /** Queues a change of a profile. The change that is sent later stays. */
  async profile(user: string, set: ProfileChange): Promise<void> {
    const entry = {
      Id: "0",
      MessageGroupId: user,
      MessageDeduplicationId: crypto.randomUUID(),
      MessageBody: JSON.stringify({ profile: user, set }),
    };
    const { Failed = [] } = await this.#sqs.sendMessageBatch({ QueueUrl: this.#url, Entries: [entry] });
    if (Failed[0]) {
      throw new Error(`the profile was not queued: ${Failed[0].Code}: ${Failed[0].Message ?? ""}`);
    }
  }

  #entry(message: QueueMessage): Omit<Entry, "Id"> {
    const { to, client_msg_id } = message;
    const MessageBody = JSON.stringify({ kind: "text", ...message, from: this.#service });
    check(to !== "" && !to.startsWith("@"), "to: must be a user");
    check(/^[!-~]+$/.test(client_msg_id), "client_msg_id: must have visible ASCII characters only");
    check(client_msg_id.length <= limits.CLIENT_MSG_ID_CHARS_MAX, "client_msg_id: is too long");
    check(!client_msg_id.startsWith("operator:"), "client_msg_id: must not begin with operator:");
    check(bytesOf(message.body) <= limits.BODY_BYTES_MAX, `body: has more than ${limits.BODY_BYTES_MAX} bytes`);
    check(bytesOf(MessageBody) <= limits.FRAME_BYTES_MAX, `body: as JSON, is above ${limits.FRAME_BYTES_MAX} bytes`);
    return { MessageGroupId: to, MessageDeduplicationId: client_msg_id, MessageBody };
  }
}

function check(holds: boolean, problem: string): void {
  if (!holds) {
    throw new RangeError(problem);
  }
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Yields the places of each batch. */
function* batches(entries: { MessageBody: string }[]): Generator<number[]> {
  let batch: number[] = [];
  let bytes = 0;
  for (const [place, { MessageBody }] of entries.entries()) {
    bytes += bytesOf(MessageBody);
    if (batch.length === BATCH_ENTRIES_MAX || bytes > BATCH_BYTES_MAX) {
      yield batch;
      [batch, bytes] = [[], bytesOf(MessageBody)];
    }
    batch.push(place);
  }
  if (batch.length > 0) {
    yield batch;
  }
}
