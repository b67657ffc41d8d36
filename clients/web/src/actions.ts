// The requests of an app.

import type { Encryption } from "./config.ts";
import { Downloads } from "./downloads.ts";
import { canonicalEmoji } from "./emoji.ts";
import type { Engine } from "./engine.ts";
import { PigeonholeError } from "./errors.ts";
import {
  type AddResult,
  type ChannelsResult,
  type Data,
  type DownloadResult,
  type HistoryResult,
  type InboxResult,
  type JoinResult,
  type LeaveResult,
  limits,
  type MembersResult,
  type Message,
  type MutedUntil,
  type Presence,
  type PresenceResult,
  type ProfileChange,
  type ProfilesResult,
  type ReactionsResult,
  type ReadResult,
  type ReceiptsResult,
  type ReportRequest,
  type SendResult,
  type WatchResult,
} from "./frames.ts";
import { clearOf, digestsOf, infoOf, isMediaKind, type MediaDraft } from "./media.ts";
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
} from "./protocol.ts";
import { fileOf, plain, type Queued, type QueuedRequest, type Target } from "./saved.ts";
import type { Stored } from "./session/entry.ts";
import type { CallRequest, CallResult } from "./session/waiter.ts";
import { withFile } from "./store/rows.ts";
import { uuid } from "./uuid.ts";

/**
 * All requests of a user.
 *
 * The client sends each request immediately, or as soon as it has a connection, however long that takes.
 */
export class Actions {
  /** @internal */
  readonly engine: Engine;
  #downloads: Downloads;
  #encryption: Encryption | undefined;

  /** @internal */
  constructor(engine: Engine, encryption?: Encryption) {
    this.engine = engine;
    this.#encryption = encryption;
    this.#downloads = new Downloads((ids) => this.#call({ action: "download", media_ids: ids }));
  }

  /**
   * Puts a message into the outbox. The client sends it, and repeats it until the server has replied, across reloads
   * too if the storage survives them. The server stores messages of one conversation in the order of these calls.
   *
   * When it resolves, the message is in the outbox; `stored` of the result waits for the reply.
   *
   * @throws `too_large`, `bad_request`, `storage` or `closed`: the message is not in the outbox, and the client will
   * not send it.
   */
  send(target: Target, draft: Draft): Promise<Sent> {
    return this.#queue({ clientMsgId: uuid(), target, ...saidBy(draft) });
  }

  /**
   * Sends a picture, a file or a voice note through the outbox. The client uploads it first and retries until the
   * upload succeeds. Messages to the conversation do not wait for the upload. Events `uploading` report the progress.
   *
   * The upload continues after a reload if the storage can keep bytes (`indexedDbStorage`).
   *
   * @throws As `send`, and `file`: the file can't be read. `config`: without TLS, the platform has no digests.
   */
  async sendMedia(target: Target, draft: MediaDraft): Promise<Sent> {
    const info = infoOf(draft);
    const { sha256, parts } = await digestsOf(draft.blob);
    const file = await this.#encryption?.sealFile(draft.blob);
    const { blob, kind, body = "", replyTo, mentions, data, thumbnail } = draft;
    const sealed = file && thumbnail !== undefined ? { ...file, thumbnail } : file;
    return this.#queue({
      clientMsgId: uuid(),
      target,
      body,
      ...(replyTo === undefined ? {} : { replyTo }),
      ...(mentions === undefined ? {} : { mentions }),
      ...(data === undefined ? {} : { data }),
      media: { source: { file: blob }, kind, ...info, sha256, ...(parts && { parts }), ...(sealed && { sealed }) },
    });
  }

  /**
   * Sends another message's attachment again, with this caption. The server copies the bytes. Works otherwise as
   * `sendMedia`.
   */
  async forward(target: Target, message: Forwarded, draft: Draft = ""): Promise<Sent> {
    const { kind, conversation_id, seq } = message;
    const media = clearOf(message.media);
    if (!media || !isMediaKind(kind)) {
      throw new PigeonholeError("bad_request", "media: is missing; the message carries nothing");
    }
    const { media_id: _, ...info } = media;
    const source = { copy_of: { conversation_id, seq } };
    return this.#queue({ clientMsgId: uuid(), target, ...saidBy(draft), media: { source, kind, ...info } });
  }

  /**
   * Cancels a message that is being uploaded; the message fails with `cancelled`. Returns `false` if the upload is
   * complete.
   *
   * An earlier run of the app may have sent the message already. In this case the message still comes as an event.
   */
  cancel(clientMsgId: string): Promise<boolean> {
    return this.engine.cancel(clientMsgId);
  }

  /**
   * Downloads a message's attachment and checks its digest. The result's `type` is set only for a picture or a
   * recording: a page from another user must not run as part of the app. Cache the result by its `media_id`.
   *
   * @throws `gone`: the message is deleted. `file`: the attachment can't be fetched, or differs from the message. A
   * code of the protocol; `closed`.
   */
  download(message: Pick<Message, "kind" | "media">, signal?: AbortSignal): Promise<Blob> {
    const download = (carrier: typeof message) => this.#downloads.download(carrier, signal);
    return this.#encryption?.openFile(message, download) ?? download(message);
  }

  /** As `send`, to the direct conversation with this user. */
  sendTo(user: string, draft: Draft): Promise<Sent> {
    return this.send({ to: user }, draft);
  }

  /** Works as `send`, for a reply to the message with this `seq`. */
  reply(conversation: string, seq: number, draft: Draft): Promise<Sent> {
    return this.send({ conversation_id: conversation }, { ...saidBy(draft), replyTo: seq });
  }

  /**
   * Changes the text of the user's own message with this `seq`. The edit uses the outbox as a message does, after all
   * earlier requests to the same conversation. `data` replaces the message's data; `null` removes it; without it, the
   * data stays.
   *
   * @throws As `send`. `stored` of the result throws `gone` if the message is deleted by then.
   */
  edit(conversation: string, seq: number, body: string, data?: Data | null): Promise<Sent> {
    const said = { body, ...(data === undefined ? {} : { data }) };
    return this.#request({ action: "edit", conversation_id: conversation, seq, ...said });
  }

  /**
   * Deletes the message with this `seq` for all members: an own one, or another as an admin of the group. Works as
   * `edit`.
   */
  delete(conversation: string, seq: number): Promise<Sent> {
    return this.#request({ action: "delete", conversation_id: conversation, seq });
  }

  /**
   * Sets the user's reaction to the message with this `seq`, in place of an earlier one; `null` removes it. Works
   * otherwise as `edit`.
   */
  react(conversation: string, seq: number, emoji: string | null): Promise<Sent> {
    const canonical = emoji === null ? null : canonicalEmoji(emoji);
    return this.#request({ action: "react", conversation_id: conversation, seq, emoji: canonical });
  }

  /**
   * Pins the message with this `seq` for all members, or takes the pin off. In a group or a channel, the owner and
   * admins do so. Works otherwise as `edit`.
   */
  pin(conversation: string, seq: number, pinned: boolean): Promise<Sent> {
    return this.#request({ action: "pin", conversation_id: conversation, seq, pinned });
  }

  /**
   * Creates a group with these members, owned by the user; with `kind: "channel"`, a channel. The request uses the
   * outbox, with a send queue of its own. `stored` of the result has the `conversation_id`.
   *
   * @throws As `send`.
   */
  create(group: NewGroup): Promise<Sent> {
    const isClear = !this.#encryption || group.kind === "channel";
    return this.#request({ action: "create", ...(isClear ? {} : { encrypted: true }), ...group });
  }

  /**
   * Adds these users to a group. All changes of a group use the outbox, after all earlier requests to the same
   * conversation. `stored` of the result lists the new members. If no user is new, the server writes no entry, and the
   * result has no `seq`.
   *
   * @throws As `send`.
   */
  add(conversation: string, users: string[]): Promise<Sent<AddResult>> {
    return this.#request<AddResult>({ action: "add", conversation_id: conversation, members: users });
  }

  /** Removes this user from a group. Otherwise as `edit`. */
  remove(conversation: string, user: string): Promise<Sent> {
    return this.#request({ action: "remove", conversation_id: conversation, user_id: user });
  }

  /**
   * Leaves a group or a channel. A leave of a channel has no entry, so `stored` of the result has no `seq`. Works
   * otherwise as `edit`.
   */
  leave(conversation: string): Promise<Sent<LeaveResult>> {
    return this.#request<LeaveResult>({ action: "leave", conversation_id: conversation });
  }

  /** Joins a channel whose `join` is `open`. Returns the channel's last `seq`; later entries count as unread. */
  join(channel: string): Promise<JoinResult> {
    return this.#call({ action: "join", conversation_id: channel });
  }

  /** Requests a page of the user's channels, in the order of their ids. `inbox` does not list channels. */
  channels({ cursor }: Pick<Page, "cursor"> = {}): Promise<ChannelsResult> {
    return this.#call({ action: "channels", ...(cursor ? { cursor } : {}) });
  }

  /**
   * Subscribes to a channel that the app shows. Each entry comes once and in order as a `message` event, until
   * `unwatch` or an `unwatched` event. The subscription survives reconnects but not a restart.
   *
   * Entries begin above `afterSeq`, the `seq` up to which the app has the channel; without it, above the channel's
   * current last entry. A second call repeats the request, and the entries continue where they are.
   *
   * Returns the server's first reply, which the app may ignore.
   *
   * @throws A code of the protocol. `unwatched`, `closed`: the subscription ended before the reply.
   */
  watch(channel: string, afterSeq?: number): Promise<WatchResult> {
    return this.engine.watch(channel, afterSeq);
  }

  /** The app no longer shows this channel. */
  unwatch(channel: string): void {
    this.engine.say({ unwatch: channel });
  }

  /**
   * Sets the role of a member of a group. With `owner`, the user transfers the ownership. Works otherwise as `edit`.
   */
  role(conversation: string, user: string, role: Role): Promise<Sent> {
    return this.#request({ action: "role", conversation_id: conversation, user_id: user, role });
  }

  /**
   * Lets a member of a group or a channel only read until then, or `forever`. With `null`, the restriction ends. Works
   * otherwise as `edit`.
   */
  restrict(conversation: string, user: string, until: MutedUntil | null): Promise<Sent> {
    return this.#request({ action: "restrict", conversation_id: conversation, user_id: user, until });
  }

  /** Changes what a group is called, and what its members may do: at least one of these. Otherwise as `edit`. */
  update(conversation: string, info: GroupInfo): Promise<Sent> {
    return this.#request({ action: "update", conversation_id: conversation, ...info });
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
   * Reports that the user is typing; call this function at each key. The client notifies the other members at most
   * every 4 s, and only while it has a connection. The report is not saved, and has no reply.
   */
  typing(conversation: string): void {
    checkRequest({ action: "typing", conversation_id: conversation });
    this.engine.say({ typing: conversation });
  }

  /**
   * Requests which of these users (1 to 20) are online, and when the others last were. The result omits a user with
   * whom the caller has no direct conversation.
   */
  async presence(users: string[]): Promise<Presence[]> {
    const found = await this.#call({ action: "presence", user_ids: users });
    return found.users;
  }

  /**
   * As `presence`. The server then sends changes of the users in `watched`, as `presence` events. The client renews the
   * watch, until the next call of this function replaces it. Request users that are not in `watched` again, once a
   * minute.
   */
  watchPresence(users: string[]): Promise<PresenceResult> {
    return this.#call({ action: "presence", user_ids: users, watch: true });
  }

  /**
   * Reports that the user has read the conversation up to `seq`: the badge disappears, and the authors see blue ticks.
   * The client sends at most one report per second and conversation; earlier calls share the next report. Returns the
   * number of unread messages, and in groups how many of them mention the user; the app may ignore the result.
   */
  read(conversation: string, seq: number): Promise<ReadResult> {
    return this.engine.read(conversation, seq);
  }

  /**
   * Requests a page of the chat list, most recently active first. The page is the first one, or the one at the
   * `next_cursor` of the previous page.
   */
  inbox(cursor?: string | null): Promise<InboxResult> {
    return this.#call({ action: "inbox", limit: limits.INBOX_LIMIT_MAX, ...(cursor ? { cursor } : {}) });
  }

  /** Requests URLs of at most 10 files, for an app that downloads them itself. `download` does all steps. */
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
   * Mutes or archives a conversation, or blocks a user. A field that is left out keeps its value. The second of two
   * calls about the same conversation or user counts.
   *
   * The client repeats the request until the server has replied; then comes a `settings` event. A restart forgets the
   * request; the rows of `inbox` have the settings that the server stored. The app may ignore the result.
   *
   * @throws A code of the protocol: the server has not changed the settings. `closed`: the result is unknown.
   */
  async settings(settings: Settings): Promise<void> {
    await this.#call({ action: "settings", ...settings });
  }

  /**
   * Reports messages, a conversation or a user to the operator. The same report again changes nothing.
   *
   * @throws A code of the protocol. `closed`: the result is unknown.
   */
  async report(report: Omit<ReportRequest, "action" | "id">): Promise<string> {
    return (await this.#call({ action: "report", ...report })).report_id;
  }

  /**
   * Requests the profiles of users and services (1 to 50). The result omits an id without a profile. Request those in
   * `left` again.
   */
  profiles(users: string[]): Promise<ProfilesResult> {
    return this.#call({ action: "profiles", user_ids: users });
  }

  /** Changes the user's own profile. A field that is left out stays, and `null` removes it. Returns the version. */
  async setProfile(set: ProfileChange): Promise<number> {
    return (await this.#call({ action: "profile", set })).version;
  }

  /**
   * Registers this device for push notifications, in place of its earlier registration. With `null`, as at a logout,
   * removes the registration. Call this function after each start and whenever the token changes: a registration
   * expires after 60 days, and a repetition is cheap. In browsers the token is Firebase's (`fcm`); in React Native it
   * is the phone's.
   *
   * The client repeats the request until the server has replied. A restart forgets the request. The app may ignore the
   * result.
   *
   * @throws A code of the protocol: the device is not registered. `closed`: the result is unknown.
   */
  async registerDevice(registration: Registration | null): Promise<void> {
    await this.#call(registration ? { action: "device", ...registration } : { action: "device", token: null });
  }

  /**
   * Retries everything immediately that waits for a retry. In browsers, the client calls `wake` itself when the page
   * becomes visible or the network changes. On other platforms, the app calls it.
   *
   * After the state `replaced` only this call connects again, so call it only if the user is present.
   */
  wake(): void {
    this.engine.say({ wake: true });
  }

  #request<R extends Stored = SendResult>(unnamed: Unnamed<QueuedRequest["request"]>): Promise<Sent<R>> {
    const clientMsgId = uuid();
    const request = { ...unnamed, client_msg_id: clientMsgId } as QueuedRequest["request"];
    return this.#queue<R>({ clientMsgId, request });
  }

  async #queue<R extends Stored = SendResult>(given: Queued): Promise<Sent<R>> {
    const { clientMsgId } = given;
    checkQueued(given);
    const queued = withFile(plain(given), fileOf(given));
    const { stored } = await this.engine.send<R>(queued);
    return { clientMsgId, queued, stored };
  }

  #call<R extends CallRequest>(request: R): Promise<CallResult<R>> {
    return this.engine.call(plain(request));
  }
}

function pageOf({ limit, cursor }: Page = {}): { limit?: number; cursor?: string } {
  return { ...(limit === undefined ? {} : { limit }), ...(cursor ? { cursor } : {}) };
}

type Unnamed<R> = R extends unknown ? Omit<R, "client_msg_id"> : never;

/** A message with an attachment that is sent again. */
export type Forwarded = Pick<Message, "conversation_id" | "seq" | "kind" | "media">;

/** A message or a change that is in the outbox. */
export interface Sent<R = SendResult> {
  /** The event of this request has the same id as `client_msg_id`. */
  clientMsgId: string;
  /** The content of the outbox for this request, for `Timeline.queued`. */
  queued: Queued;
  /**
   * Resolves when the server has stored the request, however long the client has no connection. For a change, the
   * result is the place of its own entry. The app may ignore it.
   *
   * @throws A code of the protocol: the server will never store the request. `closed`: the request is still in the
   * outbox.
   */
  stored: Promise<R>;
}

function saidBy(draft: Draft): Exclude<Draft, string> {
  return typeof draft === "string" ? { body: draft } : draft;
}
