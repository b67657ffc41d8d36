// Frames in and out. What this version does not know, it ignores: fields, and `type`s.

import { PigeonholeError } from "./errors.ts";
import type {
  AckEntry,
  DrainResult,
  HistoryResult,
  InboxResult,
  Message,
  MessagesNewEvent,
  PingResult,
  Problem,
  ReadResult,
  Request,
  SendResult,
} from "./frames.ts";

/** What `send` allows: bytes of UTF-8, and bytes once written as JSON. */
const BODY_BYTES_MAX = 16 * 1024;
const BODY_JSON_BYTES_MAX = 24 * 1024;
/** A larger frame would not be refused: it would close the socket. */
const FRAME_BYTES_MAX = 32 * 1024;
/** The most marks one `ack` may carry. */
export const ACK_MARKS_MAX = 25;
/** The most messages one `history` may ask for. */
export const HISTORY_MESSAGES_MAX = 100;
/** The most conversations one `inbox` may ask for. */
export const INBOX_CONVERSATIONS_MAX = 50;

/** Whom a message is for: the direct conversation with a user, created by the first message, or one that is known. */
export type Target = { to: string } | { conversation_id: string };

/** Which part of a conversation: what is nearest to this message, on one side of it; the end, if no side is given. */
export type Side = { before_seq: number } | { after_seq: number } | Record<string, never>;

/** "Everything of this conversation up to here." */
export type Mark = AckEntry;

export type SendRequest = Extract<Request, { action: "send" }>;

/** The frame that asks for this; the answer carries `id` again. */
export function requestFrame(request: Request, id: number): string {
  return JSON.stringify({ ...request, id: String(id) });
}

/** Refuses here what would close the socket there, again at each try. */
export function checkSize(request: Request): void {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  const bodyFits = (body: string) =>
    bytes(body) <= BODY_BYTES_MAX && bytes(JSON.stringify(body)) <= BODY_JSON_BYTES_MAX;
  const fits = request.action !== "send" || bodyFits(request.body);
  if (!fits || bytes(requestFrame(request, Number.MAX_SAFE_INTEGER)) > FRAME_BYTES_MAX) {
    throw new PigeonholeError("too_large", "a message has at most 16 KiB, and 24 KiB once written as JSON");
  }
}

export interface Receipt {
  conversation_id: string;
  user_id: string;
  seq: number;
  at: string;
}

/** What a frame from the server says. `gateway`: it has no `type`, so it is not Pigeonhole's. */
export type Heard =
  | { is: "reply"; id: string | undefined; result: unknown }
  | { is: "error"; id: string | undefined; problem: Problem }
  | { is: "messages"; messages: Message[] }
  | { is: "receipt"; kind: "delivered" | "read"; receipt: Receipt }
  | { is: "gateway" }
  | { is: "unknown" };

export function hear(text: string): Heard {
  const frame = parse(text);
  if (!isObject(frame) || typeof frame.type !== "string") {
    return { is: "gateway" };
  }
  const id = typeof frame.id === "string" ? frame.id : undefined;
  switch (frame.type) {
    case "reply":
      return { is: "reply", id, result: frame.result };
    case "error":
      return isProblem(frame.error) ? { is: "error", id, problem: frame.error } : { is: "unknown" };
    case "messages.new":
      return isMessagesNewEvent(frame) ? { is: "messages", messages: frame.messages } : { is: "unknown" };
    case "receipt.delivered":
      return isReceipt(frame) ? { is: "receipt", kind: "delivered", receipt: frame } : { is: "unknown" };
    case "receipt.read":
      return isReceipt(frame) ? { is: "receipt", kind: "read", receipt: frame } : { is: "unknown" };
    default:
      return { is: "unknown" };
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type Fields = Record<string, unknown>;
type Guard<T> = (value: unknown) => value is T;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether these fields are what the client relies on. Others may be missing. */
function has<T>(strings: string[], integers: string[], more: (value: Fields) => boolean = () => true): Guard<T> {
  return (value): value is T =>
    isObject(value) &&
    strings.every((field) => typeof value[field] === "string") &&
    integers.every((field) => Number.isSafeInteger(value[field])) &&
    more(value);
}

function listOf(value: unknown, is: Guard<unknown>): boolean {
  return Array.isArray(value) && value.every(is);
}

const isMessage = has<Message>(["conversation_id", "sender_id", "body", "sent_at"], ["seq"]);
const isMessagesNewEvent = has<MessagesNewEvent>([], [], ({ messages }) => listOf(messages, isMessage));
const isReceipt = has<Receipt>(["conversation_id", "user_id"], ["seq"]);
const isProblem = has<Problem>(["code"], []);
const isConversation = has<unknown>(["conversation_id"], ["last_seq", "delivered_seq"]);
const isMember = has<unknown>(["user_id"], ["delivered_seq", "read_seq"]);

export const isSendResult = has<SendResult>(["conversation_id", "sent_at"], ["seq"]);
export const isReadResult = has<ReadResult>([], ["unread"]);
export const isPingResult = has<PingResult>([], [], ({ pending }) => typeof pending === "boolean");
export const isDrainResult = has<DrainResult>(
  [],
  [],
  ({ messages, more }) => listOf(messages, isMessage) && typeof more === "boolean",
);
export const isInboxResult = has<InboxResult>([], [], ({ conversations }) => listOf(conversations, isConversation));
export const isHistoryResult = has<HistoryResult>(
  [],
  ["last_seq"],
  ({ messages, members }) => listOf(messages, isMessage) && listOf(members, isMember),
);
