// Frames to and from the server. What this version does not know it ignores: fields, `type`s, kinds of conversations.

import { PigeonholeError } from "./errors.ts";
import {
  type AckEntry,
  type ConversationSettings,
  type DeleteRequest,
  type DeviceRequest1,
  type EditRequest,
  type InboxResult,
  isConnectionReplacedEvent,
  isErrorFrame,
  isInboxResult,
  isMessagesNewEvent,
  isReceiptDeliveredEvent,
  isReceiptReadEvent,
  isSettingsEvent,
  isTypingEvent,
  limits,
  type Message,
  type Problem,
  type ReactRequest,
  type ReceiptReadEvent,
  type Request,
  type SendRequest,
  type TypingEvent,
  type UserSettings,
} from "./frames.ts";
import type { Queued } from "./storage/storage.ts";

/** Whom a message is for: the direct conversation with a user, created by the first message, or one that is known. */
export type Target = { to: string } | { conversation_id: string };

/** Which part of a conversation: what is nearest to this message, on one side of it; the end, if no side is given. */
export type Side = { before_seq: number } | { after_seq: number } | Record<string, never>;

/** About which conversation or user, and what is set. What is left out stays as it is. */
export type Settings = { conversation_id: string; set: ConversationSettings } | { user_id: string; set: UserSettings };

/** How this device is rung: by whose service, and under which token of it. */
export type Registration = Extract<DeviceRequest1, { platform: unknown }>;

/** "Everything of this conversation up to here." */
export type Mark = AckEntry;

/** The frame that asks for this; the answer carries `id` again. */
export function requestFrame(request: Request, id: number): string {
  return JSON.stringify({ ...request, id: String(id) });
}

/** What asks the server to store this. */
export function requestFor(queued: Queued): SendRequest | EditRequest | DeleteRequest | ReactRequest {
  const { clientMsgId: client_msg_id, target } = queued;
  if ("edit" in queued) {
    return { action: "edit", ...queued.target, ...queued.edit, client_msg_id };
  }
  if ("delete" in queued) {
    return { action: "delete", ...queued.target, ...queued.delete, client_msg_id };
  }
  if ("react" in queued) {
    return { action: "react", ...queued.target, ...queued.react, client_msg_id };
  }
  const { body, replyTo } = queued;
  const reply = replyTo === undefined ? {} : { reply_to: replyTo };
  return { action: "send", ...target, client_msg_id, kind: "text", body, ...reply };
}

/** Whether a user said it: it counts as unread, and is drawn. Other entries say what became of one that does, or are not known. */
export function counts({ kind }: Pick<Message, "kind">): boolean {
  return kind === "text";
}

/** Refuses what is too large: API Gateway would close the socket, at each try. */
export function checkSize(request: Request): void {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  const bodyFits = (body: string) =>
    bytes(body) <= limits.BODY_BYTES_MAX && bytes(JSON.stringify(body)) <= limits.BODY_JSON_BYTES_MAX;
  const fits = !("body" in request) || typeof request.body !== "string" || bodyFits(request.body);
  if (!fits || bytes(requestFrame(request, Number.MAX_SAFE_INTEGER)) > limits.FRAME_BYTES_MAX) {
    throw new PigeonholeError("too_large", "a message has at most 16 KiB, and 24 KiB once written as JSON");
  }
}

/** `delivered`: a device of theirs holds it, two grey ticks. `read`: they have read it, blue ticks. */
export type ReceiptKind = "delivered" | "read";

/** How far a member has come, and when. */
export type Receipt = Omit<ReceiptReadEvent, "type">;

/** Who writes where, and since when. */
export type Typing = Omit<TypingEvent, "type">;

/** A frame from the server. `gateway`: it has no `type`, so it is from API Gateway itself. */
export type Incoming =
  | { is: "reply"; id: string | undefined; result: unknown }
  | { is: "error"; id: string | undefined; problem: Problem }
  | { is: "messages"; messages: Message[] }
  | { is: "receipt"; kind: ReceiptKind; receipt: Receipt }
  | { is: "typing"; typing: Typing }
  | { is: "settings"; settings: Settings }
  | { is: "replaced" }
  | { is: "gateway" }
  | { is: "unknown" };

export function parseFrame(text: string): Incoming {
  const frame = parse(text);
  const type = field(frame, "type");
  if (typeof type !== "string") {
    return { is: "gateway" };
  }
  if (type === "reply") {
    const id = field(frame, "id");
    return { is: "reply", id: typeof id === "string" ? id : undefined, result: field(frame, "result") };
  }
  if (isErrorFrame(frame)) {
    return { is: "error", id: frame.id, problem: frame.error };
  }
  if (isMessagesNewEvent(frame)) {
    return { is: "messages", messages: frame.messages };
  }
  if (isReceiptDeliveredEvent(frame) || isReceiptReadEvent(frame)) {
    const { conversation_id, user_id, seq, at } = frame;
    const kind = frame.type === "receipt.read" ? "read" : "delivered";
    return { is: "receipt", kind, receipt: { conversation_id, user_id, seq, at } };
  }
  if (isTypingEvent(frame)) {
    const { conversation_id, user_id, at } = frame;
    return { is: "typing", typing: { conversation_id, user_id, at } };
  }
  if (isSettingsEvent(frame)) {
    const { type: _, ...settings } = frame;
    return { is: "settings", settings };
  }
  if (isConnectionReplacedEvent(frame)) {
    return { is: "replaced" };
  }
  return { is: "unknown" };
}

/** A page of the chat list, without conversations of kinds that this version does not know. `undefined`: it can't be read. */
export function readInbox(result: unknown): InboxResult | undefined {
  const rows = field(result, "conversations");
  if (!Array.isArray(rows)) {
    return undefined;
  }
  const page = { ...(result as object), conversations: rows.filter((row) => field(row, "kind") === "direct") };
  return isInboxResult(page) ? page : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
