// Requests on their way to the server, with a send queue per conversation, and one for new groups.

import type { PigeonholeError } from "../errors.ts";
import type { OpenedChange } from "../events.ts";
import {
  type Conversation,
  isAddResult,
  isLeaveResult,
  isSendResult,
  type Message,
  type Request,
  type SendResult,
  type System,
} from "../frames.ts";
import { carried, counts, infoOf, isChannel, isGroup, requestFor, targetOf } from "../protocol.ts";
import type { Queued, QueuedMessage, QueuedRequest, RefusedRequest, StoringRequest } from "../saved.ts";
import type { Channels } from "./channels.ts";
import type { Core } from "./core.ts";
import type { Entry, Stored } from "./entry.ts";
import { type Requests, TRY_MAX } from "./requests.ts";
import type { Uploads } from "./uploads.ts";
import type { Waiter } from "./waiter.ts";

/**
 * The send queue of one conversation. Only one entry is on its way, unless two queues turned out to be for the same
 * conversation.
 */
type Lane = Entry[];

/** The name of a send queue. */
const toUser = (user: string) => `to ${user}`;
const toConversation = (conversation: string) => `in ${conversation}`;
/** Groups that are to be made. */
const TO_NEW = "new";

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly uploads: Uploads;
  readonly channels: Channels;
  readonly refused: RefusedRequest[];
  readonly conversations: {
    acked(id: string): number | undefined;
    arrived(message: Message, missed: boolean): void;
    hasBegun(id: string): boolean;
    isPassed(id: string, seq: number): boolean;
    stored(id: string, seq: number, acknowledged: boolean): void;
    shown(id: string): number;
  };
}

export class Outbox {
  #session: Session;
  #lanes = new Map<string, Lane>();
  /** Send queues that may have something to send. The others are empty or wait for a reply. */
  #ready = new Set<string>();
  /** The direct conversations with these users. */
  #direct = new Map<string, string>();
  /**
   * Messages with a reply, in conversations that are new on this device and whose start is not known. The storage keeps
   * them until it is, so that a restart finds them.
   */
  #answeredEarly = new Map<string, string[]>();
  #lastOrder = 0;

  constructor(session: Session, saved: Queued[]) {
    this.#session = session;
    for (const queued of saved) {
      // An earlier run may have sent it.
      this.add(queued, undefined, 1);
    }
  }

  add(queued: Queued, waiter: Waiter<Stored> | undefined, tries = 0): void {
    this.#lastOrder += 1;
    const order = this.#lastOrder;
    const entry = { order, queued, waiter, underWay: false, ackedBefore: undefined, tries, told: false };
    if (carries(entry)) {
      // The attachment goes first.
      this.#session.uploads.add({ ...entry, tries: 0 });
      return;
    }
    const key = this.#laneOf(queued);
    this.#lanes.set(key, [...(this.#lanes.get(key) ?? []), entry]);
    this.#ready.add(key);
  }

  /**
   * Adds a message whose file is uploaded at the end of its send queue. A message that may have been sent goes to the
   * front, where `isUnsure` looks for it.
   */
  enter(entry: Entry, mayBeSent: boolean): void {
    const key = this.#laneOf(entry.queued);
    const lane = this.#lanes.get(key) ?? [];
    const entered = { ...entry, tries: Number(mayBeSent) };
    this.#lanes.set(key, mayBeSent ? [entered, ...lane] : [...lane, entered]);
    this.#ready.add(key);
  }

  /** Returns the requests without a reply, oldest first. */
  waiting(): Queued[] {
    const entries = [...[...this.#lanes.values()].flat(), ...this.#session.uploads.entries];
    entries.sort((one, other) => one.order - other.order);
    return entries.map(({ queued }) => queued);
  }

  sendWaiting(): void {
    const ready = [...this.#ready];
    this.#ready.clear();
    for (const key of ready) {
      const lane = this.#lanes.get(key) ?? [];
      const entry = lane[0];
      if (entry && !lane.some(({ underWay }) => underWay)) {
        this.#send(key, entry);
      }
    }
  }

  #send(key: string, entry: Entry): void {
    const { conversations, requests, stats } = this.#session;
    entry.underWay = true;
    if (entry.tries === 0) {
      // No conversation with this user is known yet, so this is its first message; the new group does not exist yet
      // either.
      entry.ackedBefore = key.startsWith("in ") ? conversations.acked(key.slice("in ".length)) : 0;
      stats.sent += 1;
    } else {
      stats.resent += 1;
    }
    // For a saved request, the time of its last try is unknown.
    const lostUntil = entry.tries > 0 ? (entry.runsUntil ?? this.#session.now + TRY_MAX) : 0;
    entry.tries += 1;
    const asker = {
      answered: (result: unknown) => {
        const readable = isAnswer(entry.queued, result);
        if (readable) {
          this.#answered(entry, result);
        }
        return readable;
      },
      refused: (error: PigeonholeError) => this.#refused(entry, error),
      lost: (runsUntil: number) => {
        entry.underWay = false;
        entry.runsUntil = runsUntil;
        this.#ready.add(this.#laneOf(entry.queued));
      },
    };
    requests.ask(requestFor(entry.queued), asker, lostUntil);
  }

  /** Waits for the reply to a request that is in the outbox. Returns `false` if none has this id. */
  join(clientMsgId: string, waiter: Waiter<Stored> | undefined): boolean {
    const entries = [...[...this.#lanes.values()].flat(), ...this.#session.uploads.entries];
    const entry = entries.find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (entry) {
      entry.waiter = waiter ?? entry.waiter;
    }
    return entry !== undefined;
  }

  /** Records that the entry came by another way than its reply. */
  told(clientMsgId: string): void {
    const entry = [...this.#lanes.values()].flat().find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (entry) {
      entry.told = true;
    }
  }

  #answered(entry: Entry, answer: Stored): void {
    this.#session.stats.answered += 1;
    this.#remove(entry);
    if (isSendResult(answer)) {
      this.#stored(entry, answer);
    } else {
      const { queued, waiter } = entry;
      this.#session.save({ done: queued.clientMsgId });
      this.#session.answer(waiter, answer);
      if ("request" in queued && queued.request.action === "leave") {
        this.#session.channels.left(queued.request.conversation_id);
        this.#session.views.gone(queued.request.conversation_id);
      }
    }
  }

  #stored(entry: Entry, stored: SendResult): void {
    const { clientMsgId } = entry.queued;
    const { conversation_id, seq } = stored;
    const { conversations, me } = this.#session;
    const request = requestFor(entry.queued);
    if (request.action === "send" && "to" in request) {
      this.rememberDirect(request.to, conversation_id);
    }
    if (request.action === "delete" && request.seq === seq) {
      // A former member's delete: the reply has the place of the message, and the member sees no entry of the delete.
      this.#session.save({ done: clientMsgId });
      this.#session.answer(entry.waiter, stored);
      this.#session.tell({ type: "reacted", clientMsgId, request });
      return;
    }
    if (isChannel(conversation_id)) {
      this.#session.save({ done: clientMsgId });
      this.#session.answer(entry.waiter, stored);
      if (request.action === "react") {
        // A reaction in a channel is counted, and no entry: the reply is about its message.
        this.#session.tell({ type: "reacted", clientMsgId, request });
      } else {
        this.#session.channels.stored(ownEntry(me, request, stored));
      }
      return;
    }
    this.#answeredEarly.set(conversation_id, [...(this.#answeredEarly.get(conversation_id) ?? []), clientMsgId]);
    if (conversations.hasBegun(conversation_id)) {
      this.forgetSent(conversation_id);
    }
    this.#session.answer(entry.waiter, stored);
    // If all earlier entries were acknowledged, the server has raised the delivered mark to this one.
    const isAcked = entry.ackedBefore === seq - 1 || (stored.read_seq ?? 0) >= seq;
    conversations.stored(conversation_id, seq, isAcked);
    if (conversations.shown(conversation_id) >= seq) {
      this.#session.views.settled(clientMsgId);
    }
    const message = ownEntry(me, request, stored);
    if (!entry.told && conversations.isPassed(conversation_id, seq)) {
      this.#session.tell({ type: "message", message, missed: false });
    } else {
      conversations.arrived(message, false);
    }
  }

  #refused(entry: Entry, error: PigeonholeError): void {
    this.#remove(entry);
    if (error.code === "gone" && carries(entry)) {
      // The file was uploaded and confirmed, and its announcement has expired since.
      this.#session.uploads.anew(entry);
    } else {
      this.failed(entry, error);
    }
  }

  /** Ends a request for good. The entry is in no send queue any more. */
  failed({ queued, waiter }: Entry, error: PigeonholeError): void {
    const { clientMsgId } = queued;
    this.#session.stats.failed += 1;
    if (this.#session.keeper === "store" && showsRefusal(queued, error)) {
      this.#session.save({ refused: { clientMsgId, code: error.code } });
      this.#session.refused.push({ queued, code: error.code });
    } else {
      this.#session.save({ done: clientMsgId });
    }
    this.#session.refuse(waiter, error);
    this.#session.tell({ type: "failed", ...queued, error });
  }

  /** Removes the conversation's requests with a reply from the storage. */
  forgetSent(conversation: string): void {
    for (const done of this.#answeredEarly.get(conversation) ?? []) {
      this.#session.save({ done });
    }
    this.#answeredEarly.delete(conversation);
  }

  /** Returns whether a sent message without a reply may be in this conversation, in which these users have written. */
  isUnsure(conversation: string, users: string[]): boolean {
    const uploads = new Set(this.#session.uploads.unsure.map(({ queued }) => this.#laneOf(queued)));
    const sent = (key: string) => (this.#lanes.get(key)?.[0]?.tries ?? 0) > 0 || uploads.has(key);
    const toAnyone = () => [...this.#lanes.keys(), ...uploads].some((key) => key.startsWith(toUser("")) && sent(key));
    if (sent(toConversation(conversation))) {
      return true;
    }
    if (isGroup(conversation)) {
      // The conversation may be the one that `create` is making.
      return sent(TO_NEW);
    }
    // Sent by another device; the recipient is unknown here.
    const to = (user: string) => (user === this.#session.me ? toAnyone() : sent(toUser(user)));
    return ![...this.#direct.values()].includes(conversation) && users.some(to);
  }

  /** Forgets the assumption that this conversation's entries are acknowledged. */
  forgetAcked(conversation: string): void {
    for (const entry of this.#lanes.get(toConversation(conversation)) ?? []) {
      entry.ackedBefore = undefined;
    }
  }

  /** Remembers the direct conversations of the chat list. */
  rememberRows(rows: Conversation[]): void {
    for (const { peer_id, conversation_id } of rows) {
      if (peer_id !== undefined) {
        this.rememberDirect(peer_id, conversation_id);
      }
    }
  }

  /** Messages to this user go to this conversation. */
  rememberDirect(user: string, conversation: string): void {
    if (this.#direct.get(user) === conversation) {
      return;
    }
    this.#direct.set(user, conversation);
    const lane = this.#lanes.get(toUser(user));
    if (!lane) {
      return;
    }
    this.#lanes.delete(toUser(user));
    const key = toConversation(conversation);
    const merged = [...(this.#lanes.get(key) ?? []), ...lane];
    // Requests that were sent stay in front, where `isUnsure` looks for them.
    merged.sort((one, other) => Number(one.tries === 0) - Number(other.tries === 0) || one.order - other.order);
    this.#lanes.set(key, merged);
    this.#ready.add(key);
  }

  /** Returns the conversation of a message, if it is known. */
  conversationOf(request: Request): string | undefined {
    if ("conversation_id" in request) {
      return request.conversation_id;
    }
    return request.action === "send" && "to" in request ? this.#direct.get(request.to) : undefined;
  }

  /** Returns the send queue of a conversation, the same whether its messages name the user or the conversation. */
  #laneOf(queued: Queued): string {
    const target = targetOf(queued);
    if (!target) {
      return TO_NEW;
    }
    if ("conversation_id" in target) {
      return toConversation(target.conversation_id);
    }
    const known = this.#direct.get(target.to);
    return known === undefined ? toUser(target.to) : toConversation(known);
  }

  #remove(entry: Entry): void {
    const key = this.#laneOf(entry.queued);
    const rest = (this.#lanes.get(key) ?? []).filter((other) => other !== entry);
    if (rest.length === 0) {
      this.#lanes.delete(key);
    } else {
      this.#lanes.set(key, rest);
      this.#ready.add(key);
    }
  }
}

function carries(entry: Entry): entry is Entry & { queued: QueuedMessage } {
  return "body" in entry.queued && entry.queued.media !== undefined;
}

function isAnswer(queued: Queued, result: unknown): result is Stored {
  const request = requestFor(queued);
  if (request.action === "add") {
    return isAddResult(result);
  }
  const hasNoEntry = request.action === "leave" && isChannel(request.conversation_id);
  return hasNoEntry ? isLeaveResult(result) : isSendResult(result);
}

/**
 * Returns whether the user must see this refusal. A message that the user has taken back goes, and a change of a message
 * that is deleted: the message shows that itself.
 */
function showsRefusal(queued: Queued, { code }: PigeonholeError): boolean {
  // No view shows a silent message.
  const isSilent = "body" in queued && !counts(carried(queued));
  return code !== "cancelled" && !isSilent && ("body" in queued || code !== "gone");
}

type GroupAction = "create" | "add" | "remove" | "leave" | "role" | "restrict" | "update";

/** The entry as the server has stored it. */
export function ownEntry(me: string, request: StoringRequest, stored: SendResult): Message {
  const { conversation_id, seq, message_id, sent_at, version, message } = stored;
  const { client_msg_id } = request;
  // The team's filter has rewritten it.
  if (message !== undefined) {
    return { ...message, ...(client_msg_id === undefined ? {} : { client_msg_id }) };
  }
  const place = { conversation_id, seq, message_id, sender_id: me, sent_at };
  const entry = { ...place, body: "", ...(client_msg_id === undefined ? {} : { client_msg_id }) };
  switch (request.action) {
    case "send": {
      const { body, kind, media, data, reply_to, mentions } = request;
      return {
        ...entry,
        body,
        kind,
        ...(media ? { media } : {}),
        ...(data ? { data } : {}),
        ...(reply_to === undefined ? {} : { reply_to }),
        ...(mentions ? { mentions } : {}),
      };
    }
    case "edit": {
      const { seq: target_seq, body, data } = request;
      const kept: Partial<OpenedChange> = data === undefined ? { keeps_data: true } : data ? { data } : {};
      return { ...entry, kind: "edit", target_seq, body, ...kept, ...(version === undefined ? {} : { version }) };
    }
    case "delete":
      return { ...entry, kind: "delete", target_seq: request.seq };
    case "react": {
      const { seq: target_seq, emoji } = request;
      return { ...entry, kind: "reaction", target_seq, ...(emoji === null ? {} : { emoji }) };
    }
    case "pin":
      return { ...entry, kind: "pin", target_seq: request.seq, pinned: request.pinned };
    default:
      return { ...entry, kind: "system", system: systemOf(me, request, stored) };
  }
}

/** Returns the change of the group that the request made. */
function systemOf(me: string, request: QueuedRequest<GroupAction>["request"], stored: Stored): System {
  switch (request.action) {
    case "create": {
      const { title, members } = request;
      const left = "not_added" in stored ? (stored.not_added ?? []).map(({ user_id }) => user_id) : [];
      const others = members.filter((user) => user !== me && !left.includes(user));
      return { event: "created", title, members: [me, ...others] };
    }
    case "add":
      return { event: "members.added", members: "added" in stored ? stored.added : request.members };
    case "remove":
      return { event: "members.removed", members: [request.user_id] };
    case "leave":
      return { event: "member.left" };
    case "role":
      return { event: "role.changed", user_id: request.user_id, role: request.role };
    case "restrict": {
      const { user_id, until } = request;
      return { event: "member.restricted", user_id, ...(until === null ? {} : { until }) };
    }
    case "update": {
      return { event: "info.changed", ...infoOf(request) };
    }
  }
}
