// Frames to and from the server. This version ignores fields, `type`s and kinds of conversations that it does not know.

import { PigeonholeError } from "./errors.ts";
import {
  type AckEntry,
  type ChannelsResult,
  type Conversation,
  type ConversationSettings,
  type CreateRequest,
  type Data,
  type DeviceRequest1,
  type DrainResult,
  type GroupMember,
  type HistoryResult,
  type InboxResult,
  isChannel as isChannelRow,
  isChannelsResult,
  isConnectionReplacedEvent,
  isConversation,
  isDrainResult,
  isErrorFrame,
  isHistoryResult,
  isInboxResult,
  isMember,
  isMessage,
  isPresenceEvent,
  isReceiptDeliveredEvent,
  isReceiptReadEvent,
  isSettingsEvent,
  isSystem,
  isTypingEvent,
  limits,
  type Member,
  type Message,
  type Presence,
  type Problem,
  type ReceiptReadEvent,
  type ReportRequest,
  type Request,
  type RoleRequest,
  type SendRequest,
  type System,
  type TypingEvent,
  type UpdateRequest,
  type UserSettings,
} from "./frames.ts";
import type { Queued, QueuedMessage, StoringRequest, Target } from "./saved.ts";

/**
 * The content of a message: its text, and optionally the message that it replies to and its mentions (`*`: all
 * members).
 *
 * `kind` is a kind of the app's own: `x-NAME`, or `xs-NAME`, which is silent and has an empty `body`. Apps that do not
 * know `x-NAME` show its `body`. `data` is the app's own object, which an own kind needs.
 */
export type Draft = string | { body: string; replyTo?: number; mentions?: string[]; kind?: string; data?: Data };

/** The title of a group or a channel, and the rules for its members; for a channel also `join` and `rings`. */
export type GroupInfo = Pick<UpdateRequest, "title" | "history" | "post" | "add" | "join" | "rings">;

/**
 * A group or a channel that is to be: `members` besides the user. `encrypted`: a group, by a client with encryption, which
 * creates encrypted groups unless it is `false`.
 */
export type NewGroup = Pick<
  CreateRequest,
  "kind" | "title" | "members" | "history" | "post" | "add" | "join" | "rings" | "encrypted"
>;

/** The rights of a member of a group. `owner` makes the member the group's owner from now on. */
export type Role = RoleRequest["role"];

/** How many of a list, and where they begin: the `next_cursor` of the page before. */
export interface Page {
  limit?: number;
  cursor?: string | null | undefined;
}

/**
 * A part of a conversation: the entries nearest to this `seq`, on one side of it. Without a side: the newest entries.
 */
export type Side = { before_seq: number } | { after_seq: number } | Record<string, never>;

/** Settings of a conversation or of a user. A field that is left out keeps its value. */
export type Settings = { conversation_id: string; set: ConversationSettings } | { user_id: string; set: UserSettings };

/** Why a user reports something. */
export type ReportReason = ReportRequest["reason"];

/** Names a conversation or a user, or both. */
export interface Report {
  conversationId?: string | undefined;
  /** 1 to 10 entries of the conversation. */
  seqs?: number[] | undefined;
  userId?: string | undefined;
  reason: ReportReason;
  /** The user's words: 1 to 500 characters. */
  note?: string | undefined;
  /** The text of an encrypted message, which the operator can't read: at most 4 KiB. */
  claimed?: string | undefined;
}

/** The push registration of this device: the platform and its token. */
export type Registration = Extract<DeviceRequest1, { platform: unknown }>;

/** "Everything of this conversation up to here." */
export type Mark = AckEntry;

/** Returns the frame of this request; the reply has the same `id`. */
export function requestFrame(request: Request, id: number): string {
  return JSON.stringify({ ...request, id: String(id) });
}

/** Returns the request that asks the server to store this. */
export function requestFor(queued: Queued): StoringRequest {
  if ("request" in queued) {
    return queued.request;
  }
  const { clientMsgId: client_msg_id, target } = queued;
  return { action: "send", ...target, client_msg_id, ...carried(queued), ...asSaid(queued) };
}

/** Returns the conversation of a request, or the recipient's. `undefined`: of the one that `create` makes. */
export function targetOf(queued: Queued): Target | undefined {
  if ("body" in queued) {
    return queued.target;
  }
  return "conversation_id" in queued.request ? queued.request : undefined;
}

/** Returns the kind of the message and its attachment, in the protocol's form. */
export function carried(message: Pick<QueuedMessage, "kind" | "media">): Pick<SendRequest, "kind" | "media"> {
  const { kind: own = "text", media: upload } = message;
  if (!upload) {
    return { kind: own };
  }
  const { source: _, parts: __, sealed: ___, kind, media_id = "", ...info } = upload;
  return { kind, media: { media_id, ...info } };
}

/** A message's own fields, as the protocol writes them. */
export function asSaid({ body, replyTo, mentions = [], data }: Exclude<Draft, string>) {
  return {
    body,
    ...(data === undefined ? {} : { data }),
    ...(replyTo === undefined ? {} : { reply_to: replyTo }),
    ...(mentions.length === 0 ? {} : { mentions }),
  };
}

const MESSAGES = ["text", "image", "file", "voice"];

/**
 * Returns whether a user wrote the entry as a message: it counts as unread, and is drawn. Other entries change a
 * message, record a change of a group (`system`), or are unknown.
 */
export function counts({ kind, silent }: Pick<Message, "kind" | "silent">): boolean {
  return MESSAGES.includes(kind) || kind.startsWith("x-") || (kind === "sealed" && !silent);
}

/** Returns whether a delete can be about the entry. An edit or a reaction can't be about a silent one. */
export function isTarget(message: Pick<Message, "kind" | "silent">): boolean {
  return counts(message) || message.kind.startsWith("xs-");
}

/** Returns whether the entry changes another one, its target. */
export function isChange({ kind }: Pick<Message, "kind">): boolean {
  return kind === "edit" || kind === "delete" || kind === "reaction";
}

/** Whether a message names this user. */
export function names({ mentions = [] }: Pick<Message, "mentions">, user: string): boolean {
  return mentions.includes(user) || mentions.includes("*");
}

/**
 * Returns whether the id is that of a service, a team's own server. A service that is the `peer_id` of a conversation
 * only sends: the server refuses messages, reactions and blocks with `forbidden`.
 */
export function isService(userId: string): boolean {
  return userId.startsWith("@");
}

/** Whether it is a group's id. */
export function isGroup(conversation: string): boolean {
  return conversation.startsWith("gr_");
}

/** Whether it is a channel's id. */
export function isChannel(conversation: string): boolean {
  return conversation.startsWith("ch_");
}

/** Returns the kind of a conversation, by its id. */
export function kindOf(conversation: string): Conversation["kind"] {
  return isChannel(conversation) ? "channel" : isGroup(conversation) ? "group" : "direct";
}

/** Whether its members are a list that changes: a group's or a channel's. */
export function hasMembers(conversation: string): boolean {
  return isGroup(conversation) || isChannel(conversation);
}

/** Returns the users who join a group with this entry. */
export function joiners({ system }: Pick<Message, "system">): readonly string[] {
  return system?.event === "created" || system?.event === "members.added" ? system.members : [];
}

/** Returns the users who leave a group with this entry. */
export function leavers({ sender_id, system }: Pick<Message, "sender_id" | "system">): readonly string[] {
  if (system?.event === "member.left") {
    return [sender_id];
  }
  return system?.event === "members.removed" ? system.members : [];
}

/** Returns the users whose role an entry of a group changes, with their new roles. Users who leave have none then. */
export function rolesOf(entry: Pick<Message, "sender_id" | "system">): [userId: string, role: GroupMember["role"]][] {
  const { sender_id, system } = entry;
  if (system?.event === "role.changed") {
    const { user_id, role } = system;
    // The owner who makes another member the owner is an admin then.
    return [[user_id, role], ...(role === "owner" ? [[sender_id, "admin"] as [string, "admin"]] : [])];
  }
  const isCreator = (user: string) => system?.event === "created" && user === sender_id;
  return [
    ...joiners(entry).map((user): [string, GroupMember["role"]] => [user, isCreator(user) ? "owner" : "member"]),
    ...leavers(entry).map((user): [string, GroupMember["role"]] => [user, "none"]),
  ];
}

/** Returns whether this user joins or leaves with the entry. */
export function turnOf(entry: Message, user: string): "joins" | "leaves" | undefined {
  if (joiners(entry).includes(user)) {
    return "joins";
  }
  return leavers(entry).includes(user) ? "leaves" : undefined;
}

const EVENTS: Record<System["event"], true> = {
  created: true,
  "members.added": true,
  "members.removed": true,
  "member.left": true,
  "role.changed": true,
  "member.restricted": true,
  "info.changed": true,
};

/** Returns the entry's change of a group, if this version knows it. */
export function happened({ system }: Pick<Message, "system">): System | undefined {
  return system && Object.hasOwn(EVENTS, system.event) ? system : undefined;
}

const bytes = (text: string) => new TextEncoder().encode(text).length;

/** Refuses what the server would refuse for any user, immediately and with the same text. */
export function checkQueued(queued: Queued): void {
  const request = requestFor(queued);
  checkRequest(request);
  const title = "title" in request ? request.title : undefined;
  if (title !== undefined && !isTitle(title)) {
    const form = `${limits.TITLE_CHARS_MAX} characters, and at most ${limits.TITLE_BYTES_MAX} bytes of UTF-8`;
    throw new PigeonholeError("bad_request", `title: must be 1 to ${form}`);
  }
  if (request.action === "update" && Object.values(infoOf(request)).every((value) => value === undefined)) {
    throw new PigeonholeError("bad_request", "title: is missing; name a title, history, post, add, join or rings");
  }
  checkChannel(request);
  if ("body" in queued && queued.kind !== undefined) {
    checkOwn(queued.kind, queued);
  }
  if ((request.action === "send" || request.action === "edit") && request.data) {
    checkData(request.data, request.body);
  }
  if (request.action === "create") {
    checkUsers("members", request.members, 0, limits.GROUP_CHANGE_MEMBERS_MAX);
  } else if (request.action === "add") {
    checkUsers("members", request.members, 1, limits.GROUP_CHANGE_MEMBERS_MAX);
  } else if (request.action === "send" && request.mentions) {
    checkUsers("mentions", request.mentions, 0, limits.MENTIONS_MAX);
    if (bytes(JSON.stringify(request.mentions)) > limits.MENTIONS_JSON_BYTES_MAX) {
      throw new PigeonholeError("too_large", "mentions: must be at most 3 KiB once written as JSON");
    }
  }
}

/** Checks a message of a kind of the app's own. */
function checkOwn(kind: string, { body, data, media }: QueuedMessage): void {
  if (!/^xs?-[a-z0-9.-]{1,29}$/.test(kind)) {
    throw new PigeonholeError("bad_request", "kind: must be x- or xs-, and a name of 1 to 29 of a-z0-9.-");
  }
  if (kind.startsWith("xs-") && body !== "") {
    throw new PigeonholeError("bad_request", "body: must be empty: the kind is silent");
  }
  if (!data) {
    throw new PigeonholeError("bad_request", "data: is missing");
  }
  if (media) {
    throw new PigeonholeError("bad_request", "media: must be left out of a message of an own kind");
  }
}

function checkData(data: Data, body: string): void {
  if (typeof data !== "object" || Array.isArray(data)) {
    throw new PigeonholeError("bad_request", "data: must be an object");
  }
  if (levels(data) > limits.DATA_LEVELS_MAX) {
    throw new PigeonholeError("bad_request", `data: must have at most ${limits.DATA_LEVELS_MAX} levels`);
  }
  const length = bytes(JSON.stringify(data));
  if (length > limits.DATA_BYTES_MAX || length + bytes(JSON.stringify(body)) > limits.BODY_JSON_BYTES_MAX) {
    const form = "at most 2,048 bytes without spaces, and together with body at most 24 KiB of JSON";
    throw new PigeonholeError("too_large", `data: must be ${form}`);
  }
}

function levels(value: unknown): number {
  const inner = typeof value === "object" && value !== null ? Object.values(value) : undefined;
  return inner ? 1 + Math.max(0, ...inner.map(levels)) : 0;
}

/** Returns what the request changes. */
export function infoOf({ action: _, conversation_id: __, client_msg_id: ___, ...info }: UpdateRequest): GroupInfo {
  return info;
}

/** Checks the fields that only channels have, and those that channels do not have. */
function checkChannel(request: StoringRequest): void {
  const rules = ["join", "rings"] as const;
  const rule = rules.find((name) => name in request && (request as GroupInfo)[name] !== undefined);
  const isOfChannel =
    request.action === "create"
      ? request.kind === "channel"
      : "conversation_id" in request && isChannel(request.conversation_id);
  if (rule !== undefined && !isOfChannel) {
    throw new PigeonholeError("bad_request", `${rule}: must be left out; this is no channel`);
  }
}

function isTitle(title: string): boolean {
  const count = [...title].length;
  return count > 0 && count <= limits.TITLE_CHARS_MAX && bytes(title) <= limits.TITLE_BYTES_MAX;
}

function checkUsers(field: string, users: string[], min: number, max: number): void {
  const isUser = (id: string) => /^[!-~]+$/.test(id) && id.length <= limits.USER_ID_CHARS_MAX;
  if (users.length < min || users.length > max || !users.every(isUser) || new Set(users).size < users.length) {
    throw new PigeonholeError(
      "bad_request",
      `${field}: must be a list of ${min} to ${max} user ids, each of them once`,
    );
  }
}

/**
 * Refuses a frame that is too large, since API Gateway would close the socket at each try. Also refuses half a
 * character, which is invalid JSON for the server.
 */
export function checkRequest(request: Request): void {
  for (const [field, value] of Object.entries(request)) {
    if (!isWellFormed(value)) {
      throw new PigeonholeError("bad_request", `${field}: has half of a character, a surrogate without its other half`);
    }
  }
  const bodyFits = (body: string) =>
    bytes(body) <= limits.BODY_BYTES_MAX && bytes(JSON.stringify(body)) <= limits.BODY_JSON_BYTES_MAX;
  const isTooLong = "body" in request && typeof request.body === "string" && !bodyFits(request.body);
  if (isTooLong) {
    throw new PigeonholeError("too_large", "a message has at most 16 KiB, and 24 KiB once written as JSON");
  }
  if (bytes(requestFrame(request, Number.MAX_SAFE_INTEGER)) > limits.FRAME_BYTES_MAX) {
    throw new PigeonholeError("too_large", "a request has at most 32 KiB once written as JSON");
  }
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") {
    return !/\p{Cs}/u.test(value);
  }
  return typeof value !== "object" || value === null || Object.values(value).every(isWellFormed);
}

/** `delivered`: a device of the member has received it, two grey ticks. `read`: the member has read it, blue ticks. */
export type ReceiptKind = "delivered" | "read";

/** How far a member has come, and when. */
export type Receipt = Omit<ReceiptReadEvent, "type">;

/** A user who is typing, the conversation, the time, and the text so far of a service. */
export type Typing = Omit<TypingEvent, "type">;

/** A frame from the server. `gateway`: it has no `type`, so it is from API Gateway itself. */
export type Incoming =
  | { is: "reply"; id: string | undefined; result: unknown }
  | { is: "error"; id: string | undefined; problem: Problem }
  | { is: "messages"; conversationId: string; messages: Message[]; marks: Member[]; at: string | undefined }
  | { is: "receipt"; kind: ReceiptKind; receipt: Receipt }
  | { is: "typing"; typing: Typing }
  | { is: "presence"; presence: Presence }
  | { is: "settings"; settings: Settings }
  | { is: "profile" }
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
  if (type === "messages.new") {
    const messages = readMessages(field(frame, "messages")) ?? [];
    const [conversationId, marks] = [field(frame, "conversation_id"), field(frame, "marks")];
    return {
      is: "messages",
      conversationId: String(conversationId),
      messages,
      marks: Array.isArray(marks) ? marks.filter(isMember) : [],
      at: messages.at(-1)?.sent_at,
    };
  }
  if (isReceiptDeliveredEvent(frame) || isReceiptReadEvent(frame)) {
    const { conversation_id, user_id, seq, at } = frame;
    const kind = frame.type === "receipt.read" ? "read" : "delivered";
    return { is: "receipt", kind, receipt: { conversation_id, user_id, seq, at } };
  }
  if (isTypingEvent(frame)) {
    const { conversation_id, user_id, at, text } = frame;
    return { is: "typing", typing: { conversation_id, user_id, at, ...(text === undefined ? {} : { text }) } };
  }
  if (isPresenceEvent(frame)) {
    const { user_id, online, last_seen_at } = frame;
    return { is: "presence", presence: { user_id, online, last_seen_at } };
  }
  if (isSettingsEvent(frame)) {
    const { type: _, ...settings } = frame;
    return { is: "settings", settings };
  }
  if (type === "profile") {
    return { is: "profile" };
  }
  if (isConnectionReplacedEvent(frame)) {
    return { is: "replaced" };
  }
  return { is: "unknown" };
}

// Reads the entries and rows of a page one by one. If a later version wrote one in another form, the client skips only
// that one.

/** A page of what is pending. `undefined`: it can't be read. */
export function readDrain(result: unknown): DrainResult | undefined {
  return readPage(result, isDrainResult);
}

/** A page of a conversation. `undefined`: it can't be read. */
export function readHistory(result: unknown): HistoryResult | undefined {
  return readPage(result, isHistoryResult);
}

/** Reads the parts one by one only if the page as a whole can't be read, which is rare. */
function readPage<T>(result: unknown, isPage: (page: unknown) => page is T): T | undefined {
  if (isPage(result)) {
    return result;
  }
  const page = { ...fieldsOf(result), messages: readMessages(field(result, "messages")) };
  return isPage(page) ? page : undefined;
}

/**
 * Reads a page of the chat list, without conversations of kinds that this version does not know. `undefined` if it
 * can't be read.
 */
export function readInbox(result: unknown): InboxResult | undefined {
  const known = (row: unknown) => ["direct", "group"].includes(String(field(row, "kind")));
  const page = {
    ...fieldsOf(result),
    conversations: readRows(result)?.filter((row) => known(row) && isConversation(row)),
  };
  return isInboxResult(page) ? page : undefined;
}

/** A page of the list of channels. `undefined`: it can't be read. */
export function readChannels(result: unknown): ChannelsResult | undefined {
  const page = { ...fieldsOf(result), conversations: readRows(result)?.filter(isChannelRow) };
  return isChannelsResult(page) ? page : undefined;
}

/** Drops an unreadable group change from a row's last message: the row is the only way to the conversation. */
function readRows(result: unknown): unknown[] | undefined {
  const rows = field(result, "conversations");
  if (!Array.isArray(rows)) {
    return undefined;
  }
  return rows.map((row) => {
    const { system, ...rest } = fieldsOf(field(row, "last_message"));
    return system === undefined || isSystem(system) ? row : { ...row, last_message: rest };
  });
}

function readMessages(entries: unknown): Message[] | undefined {
  return Array.isArray(entries) ? entries.flatMap((entry) => readMessage(entry) ?? []) : undefined;
}

/** An entry with those of its fields that can be read. `undefined`: it lacks one that all have. */
function readMessage(entry: unknown): Message | undefined {
  if (isMessage(entry)) {
    return entry;
  }
  const { conversation_id, seq, message_id, sender_id, kind, sent_at, ...others } = fieldsOf(entry);
  const base = { conversation_id, seq, message_id, sender_id, kind, sent_at, body: "" };
  const more = Object.entries(others).filter(([name, value]) => isMessage({ ...base, [name]: value }));
  const message = { ...base, ...Object.fromEntries(more) };
  return isMessage(message) ? message : undefined;
}

function field(value: unknown, name: string): unknown {
  return fieldsOf(value)[name];
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
