// The interface for apps.

import { type Config, defaultTiming } from "./config.ts";
import { Downloads } from "./downloads.ts";
import { clock, Driver } from "./driver.ts";
import { PigeonholeError } from "./errors.ts";
import type { ClientEvent } from "./events.ts";
import {
  type AddResult,
  type ChannelsResult,
  type DownloadResult,
  type HistoryResult,
  type InboxResult,
  type JoinResult,
  type LeaveResult,
  limits,
  type MembersResult,
  type Message,
  type Presence,
  type ReactionsResult,
  type ReadResult,
  type ReceiptsResult,
  type SendResult,
  type WatchResult,
} from "./frames.ts";
import { digestsOf, infoOf, isMediaKind, type MediaDraft } from "./media.ts";
import {
  checkQueued,
  checkRequest,
  type Draft,
  type GroupInfo,
  type NewGroup,
  type Page,
  type Registration,
  type Role,
  type Settings,
  type Side,
  type Target,
} from "./protocol.ts";
import type { CallRequest, CallResult } from "./session/calls.ts";
import type { Stored } from "./session/outbox.ts";
import { Session, type Stats } from "./session/session.ts";
import { Dialer } from "./socket.ts";
import { memoryStorage } from "./storage/memory.ts";
import type { Queued } from "./storage/storage.ts";
import { watchSurroundings } from "./surroundings.ts";
import { uuid } from "./uuid.ts";

/**
 * Reads what the last client has saved, and connects in the background. Without a network it waits for one; `state` events
 * say so.
 *
 * @throws `config`: the address or the device id can't work. `storage`, `storage_busy`: the storage can't be read.
 */
export async function connect(config: Config): Promise<Client> {
  const timing = { ...defaultTiming, ...config.timing };
  const storage = config.storage ?? memoryStorage();
  const dialer = new Dialer(config, timing);
  const saved = await storage.load().catch((cause: unknown) => {
    throw cause instanceof PigeonholeError
      ? cause
      : new PigeonholeError("storage", "the outbox can't be read", { cause });
  });
  const session = new Session({ me: config.userId, timing, saved, random: Math.random, now: clock() });
  const events = new Events((conversation, seq) => driver.act((at, now) => at.handled(conversation, seq, now)));
  const driver = new Driver(session, dialer, storage, (event) => events.push(event));
  const client = new Client(driver, events);
  const setAside = storage.setAside?.();
  if (setAside !== undefined) {
    events.push({ type: "storage", setAside });
  }
  driver.act((at, now) => at.tick(now));
  return client;
}

/**
 * A user's connection to Pigeonhole.
 *
 * Requests are sent at once, or when there is a connection again, however long that takes.
 */
export class Client {
  /** Events, in order. */
  readonly events: Events;
  #driver: Driver;
  #downloads: Downloads;
  #unwatch: () => void;

  /** @internal */
  constructor(driver: Driver, events: Events) {
    this.#driver = driver;
    this.events = events;
    this.#downloads = new Downloads((ids) => this.#call({ action: "download", media_ids: ids }));
    this.#unwatch = watchSurroundings({
      shown: () => this.wake(),
      networkChanged: () => {
        driver.act((session, now) => session.networkChanged(now));
      },
    });
  }

  /**
   * Puts a message into the outbox, from where it is sent, again and again until the server has answered, over reloads too
   * if the storage outlives them. Messages to the same conversation are stored in the order of these calls.
   *
   * When it resolves, the message is in the outbox; `stored` of the result waits for the answer.
   *
   * @throws `too_large`, `bad_request`, `storage` or `closed`: it is not in the outbox, and will not be sent.
   */
  send(target: Target, draft: Draft): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target, ...saidBy(draft) });
  }

  /**
   * Sends a picture, a file or a voice note, by way of the outbox: it is uploaded first, as often as it takes, and what is said to the
   * conversation meanwhile goes ahead of it. Events `uploading` say how far it is. It goes on after a reload where the storage can keep
   * bytes (`indexedDbStorage`).
   *
   * @throws As `send`, and `file`: it can't be read. `config`: there are no digests without TLS.
   */
  async sendMedia(target: Target, draft: MediaDraft): Promise<Sent> {
    const info = infoOf(draft);
    const { sha256, parts } = await digestsOf(draft.blob);
    const { blob, kind, body = "", replyTo, mentions } = draft;
    return this.#queue({
      clientMsgId: uuid(),
      target,
      body,
      ...(replyTo === undefined ? {} : { replyTo }),
      ...(mentions === undefined ? {} : { mentions }),
      media: { source: { file: blob }, kind, ...info, sha256, ...(parts ? { parts } : {}) },
    });
  }

  /** Sends what a message carries once more, with this as its caption. The bytes are copied where they are. Otherwise as `sendMedia`. */
  async forward(target: Target, message: Message, draft: Draft = ""): Promise<Sent> {
    const { kind, media, conversation_id, seq } = message;
    if (!media || !isMediaKind(kind)) {
      throw new PigeonholeError("bad_request", "media: is missing; the message carries nothing");
    }
    const { media_id: _, ...info } = media;
    const source = { copy_of: { conversation_id, seq } };
    return this.#queue({ clientMsgId: uuid(), target, ...saidBy(draft), media: { source, kind, ...info } });
  }

  /**
   * The message that is being uploaded is not to be sent. It fails with `cancelled`; `false`: that is too late, since what it carries is
   * there. One that waits since before a restart may have been sent then, and comes back as a message if it was.
   */
  cancel(clientMsgId: string): boolean {
    let isCancelled = false;
    this.#driver.act((session, now) => {
      isCancelled = session.cancel(clientMsgId, now);
    });
    return isCancelled;
  }

  /**
   * What a message carries, once its digest is found to be right. Its `type` is that of a picture or a recording; of all else it says
   * nothing, since a stranger's page must not become one of the app's. Keep it under its `media_id`.
   *
   * @throws `gone`: it is deleted. `file`: it can't be fetched, or is not what the message says. A code of the protocol; `closed`.
   */
  download(message: Pick<Message, "kind" | "media">, signal?: AbortSignal): Promise<Blob> {
    return this.#downloads.download(message, signal);
  }

  /** As `send`, to the direct conversation with this user. */
  sendTo(user: string, draft: Draft): Promise<Sent> {
    return this.send({ to: user }, draft);
  }

  /** As `send`, of an answer to the message with this `seq`. */
  reply(conversation: string, seq: number, draft: Draft): Promise<Sent> {
    return this.send({ conversation_id: conversation }, { ...saidBy(draft), replyTo: seq });
  }

  /**
   * Gives the user's own message with this `seq` another text. It goes by the outbox as a message does, after what waits there
   * for the same conversation.
   *
   * @throws As `send`. `stored` of the result throws `gone` if the message is deleted by then.
   */
  edit(conversation: string, seq: number, body: string): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target: { conversation_id: conversation }, edit: { seq, body } });
  }

  /** Deletes the message with this `seq` for everybody: an own one, or as an admin of the group. Otherwise as `edit`. */
  delete(conversation: string, seq: number): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target: { conversation_id: conversation }, delete: { seq } });
  }

  /** The user's reaction to the message with this `seq`, in the place of the one before; `null`: none. Otherwise as `edit`. */
  react(conversation: string, seq: number, emoji: string | null): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target: { conversation_id: conversation }, react: { seq, emoji } });
  }

  /**
   * Makes a group of the user, who owns it, and these; with `kind: "channel"` a channel. It goes by the outbox, in a lane of its own;
   * `stored` of the result has the `conversation_id`.
   *
   * @throws As `send`.
   */
  create(group: NewGroup): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), create: group });
  }

  /**
   * Adds these to a group. As all changes of a group it goes by the outbox, after what waits there for the same conversation.
   * `stored` of the result says who is new; where nobody is, there is no entry, and no `seq`.
   *
   * @throws As `send`.
   */
  add(conversation: string, users: string[]): Promise<Sent<AddResult>> {
    const target = { conversation_id: conversation };
    return this.#queue<AddResult>({ clientMsgId: uuid(), target, add: { members: users } });
  }

  /** Removes this user from a group. Otherwise as `edit`. */
  remove(conversation: string, user: string): Promise<Sent> {
    const target = { conversation_id: conversation };
    return this.#queue({ clientMsgId: uuid(), target, remove: { user_id: user } });
  }

  /** Leaves a group or a channel, where that is no entry: `stored` of the result has no `seq` then. Otherwise as `edit`. */
  leave(conversation: string): Promise<Sent<LeaveResult>> {
    return this.#queue<LeaveResult>({ clientMsgId: uuid(), target: { conversation_id: conversation }, leave: {} });
  }

  /** Becomes a member of a channel that takes everybody. Gives where it ends: what comes after that is unread. */
  join(channel: string): Promise<JoinResult> {
    return this.#call({ action: "join", conversation_id: channel });
  }

  /** A page of the user's channels, in the order of their ids. They are not in `inbox`. */
  channels({ cursor }: Pick<Page, "cursor"> = {}): Promise<ChannelsResult> {
    return this.#call({ action: "channels", ...(cursor ? { cursor } : {}) });
  }

  /**
   * The app shows a channel: what is written there comes as `message` events, each entry once and in order, until `unwatch` or an
   * `unwatched` event, over all connections; a restart forgets it. It begins after this `seq`, up to where the app has the channel;
   * or where it ends now. Called again it asks again, and goes on where it is.
   *
   * Gives the server's first answer, which the app may ignore.
   *
   * @throws A code of the protocol. `unwatched`, `closed`: it was ended before the answer.
   */
  watch(channel: string, afterSeq?: number): Promise<WatchResult> {
    return this.#driver.ask((session, waiter, now) => session.watch(channel, afterSeq, waiter, now));
  }

  /** The app no longer shows this channel. */
  unwatch(channel: string): void {
    this.#driver.act((session, now) => session.unwatch(channel, now));
  }

  /** Says what a member of a group may do from now on. With `owner` the user hands the group over. Otherwise as `edit`. */
  role(conversation: string, user: string, role: Role): Promise<Sent> {
    const target = { conversation_id: conversation };
    return this.#queue({ clientMsgId: uuid(), target, role: { user_id: user, role } });
  }

  /** Changes what a group is called, and what its members may do: at least one of these. Otherwise as `edit`. */
  update(conversation: string, info: GroupInfo): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target: { conversation_id: conversation }, update: info });
  }

  /** A page of who is in a group, in the order of their ids. */
  members(conversation: string, page?: Page): Promise<MembersResult> {
    return this.#call({ action: "members", conversation_id: conversation, ...pageOf(page) });
  }

  /** A page of how far the other members of a group have come, for `Timeline.receipts`. */
  receipts(conversation: string, page?: Page): Promise<ReceiptsResult> {
    return this.#call({ action: "receipts", conversation_id: conversation, ...pageOf(page) });
  }

  /** A page of who reacted to the message with this `seq`, in any kind of conversation. */
  reactions(conversation: string, seq: number, page?: Page): Promise<ReactionsResult> {
    return this.#call({ action: "reactions", conversation_id: conversation, seq, ...pageOf(page) });
  }

  /**
   * The user writes there: to be called at each key. Told to the others at most every 4 s, and only while there is a
   * connection; never kept, nor answered.
   */
  typing(conversation: string): void {
    checkRequest({ action: "typing", conversation_id: conversation });
    this.#driver.act((session, now) => session.type(conversation, now));
  }

  /** Who of these (1 to 20) is there now, or when they were. Those with whom there is no direct conversation are left out. */
  presence(users: string[]): Promise<Presence[]> {
    return this.#call({ action: "presence", user_ids: users });
  }

  /**
   * The user has read the conversation up to here: the badge is cleared, the others see blue ticks. At most one report a
   * second for each conversation; calls that come sooner share the next one. Gives how many messages are left unread, and in
   * groups how many of those name the user; the app may ignore that.
   */
  read(conversation: string, seq: number): Promise<ReadResult> {
    return this.#driver.ask((session, waiter, now) => session.read(conversation, seq, waiter, now));
  }

  /** A page of the chat list, most recently active first: the first one, or the one at the `next_cursor` of the page before. */
  inbox(cursor?: string | null): Promise<InboxResult> {
    return this.#call({ action: "inbox", limit: limits.INBOX_LIMIT_MAX, ...(cursor ? { cursor } : {}) });
  }

  /** Where these files are to be had, at most 10 at once: for a download of one's own. `download` does it all. */
  urls(mediaIds: string[]): Promise<DownloadResult> {
    return this.#call({ action: "download", media_ids: mediaIds });
  }

  /**
   * A page of a conversation, of at most `limit` messages (1 to 100), nearest to the given side. Independent of
   * events: its messages come, or have come, as events too, if they are new on this device.
   */
  history(conversation: string, side: Side = {}, limit: number = limits.HISTORY_LIMIT_MAX): Promise<HistoryResult> {
    return this.#call({ action: "history", conversation_id: conversation, ...side, limit });
  }

  /**
   * Mutes or archives a conversation, or blocks a user. What is left out stays as it is. Of two calls about the same
   * conversation or user, the second one stands.
   *
   * It is asked again and again until the server has answered; a `settings` event says so. But a restart forgets it: what
   * stands then is in the rows of `inbox`. The app may ignore what this gives.
   *
   * @throws A code of the protocol: it is not set. `closed`: nobody knows.
   */
  settings(settings: Settings): Promise<void> {
    return this.#call({ action: "settings", ...settings });
  }

  /**
   * Has this device rung, in the place of what it registered before; or, with `null`, no longer, as when the user logs out.
   * Call it after each start, and whenever the token changes: a registration ends after 60 days, and the same again costs
   * next to nothing. In browsers the token is Firebase's (`fcm`); in React Native it is the phone's.
   *
   * It is asked again and again until the server has answered. But a restart forgets it. The app may ignore what this gives.
   *
   * @throws A code of the protocol: it is not registered. `closed`: nobody knows.
   */
  registerDevice(registration: Registration | null): Promise<void> {
    return this.#call(registration ? { action: "device", ...registration } : { action: "device", token: null });
  }

  /**
   * Tries at once what waits to be tried again. In browsers the client calls it itself when the page is visible again or the
   * network has changed; elsewhere the app should. After the state `replaced` nothing else connects again, so call it only if
   * the user is there then.
   */
  wake(): void {
    this.#driver.act((session, now) => session.wake(now));
  }

  /** Messages and changes that wait for the server's answer, oldest first: after a reload, what is to be shown as not sent yet. */
  get outbox(): readonly Queued[] {
    return this.#driver.session.outbox.waiting();
  }

  /** What has been done so far. */
  get stats(): Readonly<Stats> {
    return { ...this.#driver.session.stats };
  }

  /**
   * Acknowledges what the app is done with, and closes the connection. What is in the outbox stays there. When it resolves,
   * another client may use the storage.
   */
  async close(): Promise<void> {
    this.#unwatch();
    await this.#driver.close();
    this.events.end();
  }

  async #queue<R extends Stored = SendResult>(queued: Queued): Promise<Sent<R>> {
    const { clientMsgId } = queued;
    checkQueued(queued);
    const { stored } = await this.#driver.send<R>(queued);
    return { clientMsgId, queued, stored };
  }

  #call<R extends CallRequest>(request: R): Promise<CallResult<R>> {
    return this.#driver.ask((session, waiter, now) => session.call(request, waiter, now));
  }
}

function pageOf({ limit, cursor }: Page = {}): { limit?: number; cursor?: string } {
  return { ...(limit === undefined ? {} : { limit }), ...(cursor ? { cursor } : {}) };
}

/** A message or a change that is in the outbox. */
export interface Sent<R = SendResult> {
  /** Its event carries the same, as `client_msg_id`. */
  clientMsgId: string;
  /** What is in the outbox, for `Timeline.queued`. */
  queued: Queued;
  /**
   * Resolves once the server has stored it, however long there is no connection: of a change, with the place of its own entry.
   * May be ignored.
   *
   * @throws A code of the protocol: it will never be stored. `closed`: it is still in the outbox.
   */
  stored: Promise<R>;
}

/**
 * Events, in order, for one `for await` at a time.
 *
 * Asking for the next event says that the app is `done` with the last one: only then is a message acknowledged to the server,
 * and remembered as one that need not come again. An app that stores messages does so before the loop's next round, and a
 * crash at any point loses none. For an app that never asks, everything stays pending on the server.
 */
export class Events implements AsyncIterableIterator<ClientEvent> {
  #queue: ClientEvent[] = [];
  #handled: (conversation: string, seq: number) => void;
  /** The event that the app has, and is perhaps not done with. */
  #last: ClientEvent | undefined;
  #wake = () => {};
  #isOver = false;

  /** @internal */
  constructor(handled: (conversation: string, seq: number) => void) {
    this.#handled = handled;
  }

  async next(): Promise<IteratorResult<ClientEvent, undefined>> {
    this.done();
    while (this.#queue.length === 0 && !this.#isOver) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    this.#last = this.#queue.shift();
    return this.#last ? { done: false, value: this.#last } : { done: true, value: undefined };
  }

  /** After `break`, another loop can go on. */
  async return(): Promise<IteratorResult<ClientEvent, undefined>> {
    return { done: true, value: undefined };
  }

  /** The app is done with the last event, though it does not ask for another one: before it closes the client, for example. */
  done(): void {
    const last = this.#last;
    this.#last = undefined;
    if (last?.type === "message") {
      this.#handled(last.message.conversation_id, last.message.seq);
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @internal */
  push(event: ClientEvent): void {
    this.#queue.push(event);
    this.#wake();
  }

  /** @internal */
  end(): void {
    this.#isOver = true;
    this.#wake();
  }
}

function saidBy(draft: Draft): Exclude<Draft, string> {
  return typeof draft === "string" ? { body: draft } : draft;
}
