// The messages, media, changes of messages and new groups that the user sends. Each waits in the client's outbox.

import type {
  Client,
  ClientEvent,
  Draft,
  MediaDraft,
  Message,
  NewGroup,
  PigeonholeError,
  Queued,
  QueuedRequest,
  Sent,
  Target,
} from "@pigeonhole/client/events";
import { fileOf } from "../carried.ts";
import { Chat } from "../chat.ts";
import { type Group, UNKNOWN } from "../group.ts";
import type { Inbox } from "./inbox.ts";
import type { Model } from "./model.ts";
import type { OpenChat } from "./open-chat.ts";
import { isFinal, reason, whyNotMade } from "./refusals.ts";

export class Outgoing {
  #client: Client;
  #model: Model;
  #openChat: OpenChat;
  #inbox: Inbox;
  /** The chats of the messages and changes sent from here, by `client_msg_id`. */
  #sent = new Map<string, Chat>();

  constructor(client: Client, model: Model, openChat: OpenChat, inbox: Inbox) {
    this.#client = client;
    this.#model = model;
    this.#openChat = openChat;
    this.#inbox = inbox;
  }

  /** Shows the entries that the outbox has kept over a reload. */
  resume(): void {
    for (const queued of this.#client.outbox) {
      const chat = this.#chatFor(queued);
      if (chat) {
        this.#queued(chat, queued);
      }
    }
  }

  #chatFor(queued: Queued): Chat | undefined {
    if ("target" in queued) {
      return this.#inbox.chatOf(queued.target);
    }
    const { clientMsgId, request } = queued;
    return request.action === "create" ? this.#making(clientMsgId, request) : this.#inbox.chatOf(request);
  }

  /** Returns the chat to which a message or a change was sent from here. */
  chatOf(clientMsgId: string | undefined): Chat | undefined {
    return this.#sent.get(clientMsgId ?? "");
  }

  // Messages.

  async send(chat: Chat, draft: Exclude<Draft, string>): Promise<void> {
    const target = targetOf(chat);
    if (target) {
      const unsaved = (clientMsgId: string) => ({ clientMsgId, target, ...draft });
      await this.#queue(chat, this.#client.send(target, draft), unsaved);
    }
    this.#replied(chat);
  }

  sendMedia(chat: Chat, draft: MediaDraft): Promise<void> {
    return this.#carry(chat, (target) => this.#client.sendMedia(target, draft));
  }

  /** Sends the text or the media of a message to another chat. */
  forward(chat: Chat, message: Message): Promise<void> {
    const { body, media } = message;
    return media
      ? this.#carry(chat, (target) => this.#client.forward(target, message, body))
      : this.send(chat, { body });
  }

  /** Sends media. The page shows the message immediately, with the progress of its upload. */
  async #carry(chat: Chat, send: (target: Target) => Promise<Sent>): Promise<void> {
    const target = targetOf(chat);
    if (!target) {
      return;
    }
    chat.refused = "";
    try {
      const { queued } = await send(target);
      this.#queued(chat, queued);
    } catch (error) {
      chat.refused = `Not sent: ${reason(error as PigeonholeError, false, chat)}`;
    }
    this.#replied(chat);
  }

  /** Removes the separator of unread messages: a user who replies has seen them. */
  #replied(chat: Chat): void {
    chat.timeline.close();
    this.#openChat.look();
    this.#model.watcher.changed();
  }

  /** Shows why the server refused a message. */
  refuse(chat: Chat, why: string): void {
    chat.refused = why;
    this.#model.watcher.changed();
  }

  cancel(clientMsgId: string): void {
    this.#client.cancel(clientMsgId);
  }

  dismiss(chat: Chat, clientMsgId: string): void {
    chat.timeline.dismiss(clientMsgId);
    this.#model.watcher.changed();
  }

  /** Sends failed media again, in place of the failed message. */
  retry(chat: Chat, failed: Queued): void {
    this.dismiss(chat, failed.clientMsgId);
    const blob = fileOf(failed);
    if (blob && "body" in failed && failed.media) {
      const { body, replyTo, mentions, media } = failed;
      const { kind, name, width, height, duration_ms: durationMs, thumbhash, waveform } = media;
      const all = { name, replyTo, mentions, width, height, durationMs, thumbhash, waveform };
      const known = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
      this.sendMedia(chat, { blob, kind, body, ...known });
    }
  }

  /** Reports that the user types. To be called at each key. */
  typing(chat: Chat): void {
    if (chat.id !== undefined) {
      this.#client.typing(chat.id);
    }
  }

  // Changes of messages.

  edit(chat: Chat, seq: number, body: string): void {
    this.#change(chat, { action: "edit", seq, body }, (id) => this.#client.edit(id, seq, body));
  }

  delete(chat: Chat, seq: number): void {
    this.#change(chat, { action: "delete", seq }, (id) => this.#client.delete(id, seq));
  }

  /** Sets the user's reaction, or removes it with `null`. */
  react(chat: Chat, seq: number, emoji: string | null): void {
    this.#change(chat, { action: "react", seq, emoji }, (id) => this.#client.react(id, seq, emoji));
  }

  async #change(chat: Chat, change: Change, send: (conversation: string) => Promise<Sent>): Promise<void> {
    const { id: conversation_id } = chat;
    if (conversation_id !== undefined) {
      const unsaved = (clientMsgId: string) => ({
        clientMsgId,
        request: { ...change, conversation_id, client_msg_id: clientMsgId },
      });
      await this.#queue(chat, send(conversation_id), unsaved);
      this.#model.watcher.changed();
    }
  }

  // New groups.

  /** Opens the new group before the server has it. Until then its messages wait, over a reload too. */
  async create(group: NewGroup): Promise<void> {
    const { queued } = await this.#client.create(group);
    this.#openChat.show(this.#making(queued.clientMsgId, group));
  }

  /** Removes a group that the server refused to create. */
  putAway(chat: Chat): void {
    this.#openChat.forget(chat);
    this.#model.watcher.changed();
  }

  #making(clientMsgId: string, group: NewGroup): Chat {
    const chat = Chat.ofGroup(this.#model.me, clientMsgId, group.kind === "channel");
    chat.group = begun(group);
    chat.isKnown = true;
    this.#model.add(chat);
    this.#sent.set(clientMsgId, chat);
    return chat;
  }

  /** Returns the chat of a group, which is the one that was created here if `created` has no id yet. */
  made(conversation: string, created: Chat | undefined): Chat {
    if (!created?.isGroup || created.id !== undefined) {
      return this.#model.group(conversation);
    }
    const known = this.#model.of(conversation);
    if (!known) {
      return created;
    }
    this.#model.replace(created, known);
    if (created === this.#model.open) {
      this.#openChat.show(known);
    }
    return known;
  }

  // The outbox.

  /** Shows an entry immediately, even if the outbox could not save it. */
  async #queue(chat: Chat, sent: Promise<Sent>, unsaved: (clientMsgId: string) => Queued): Promise<void> {
    try {
      const { queued } = await sent;
      this.#queued(chat, queued);
    } catch (error) {
      const queued = unsaved(crypto.randomUUID());
      this.#queued(chat, queued);
      chat.timeline.failed(queued.clientMsgId, reason(error as PigeonholeError, "request" in queued, chat));
    }
  }

  #queued(chat: Chat, queued: Queued): void {
    this.#sent.set(queued.clientMsgId, chat);
    chat.timeline.queued(queued, new Date().toISOString());
  }

  /** Shows why an entry of the outbox failed. */
  failed({ clientMsgId, error, ...queued }: Extract<ClientEvent, { type: "failed" }>): void {
    const chat = this.chatOf(clientMsgId);
    if (chat && "request" in queued && queued.request.action === "create") {
      chat.isNotMade = true;
      chat.refused = `Not created: ${whyNotMade(error, queued.request)}`;
      return;
    }
    const timeline = chat?.timeline;
    if (error.code === "cancelled") {
      timeline?.failed(clientMsgId, error.code);
      timeline?.dismiss(clientMsgId);
      return;
    }
    const isChange = "request" in queued;
    if (isFinal(error)) {
      chat?.final.add(clientMsgId);
    }
    timeline?.failed(clientMsgId, reason(error, isChange, chat));
    if (isChange && error.code === "gone") {
      // The message is deleted: no notice is needed.
      timeline?.dismiss(clientMsgId);
    }
  }
}

/** A change of a message, without its conversation and the id that the client gives it. */
type Change = Unnamed<QueuedRequest<"edit" | "delete" | "react">["request"]>;
type Unnamed<R> = R extends unknown ? Omit<R, "conversation_id" | "client_msg_id"> : never;

/** Returns where to send; `undefined` for a group that the server has not created yet. */
function targetOf({ id, peer }: Chat): Target | undefined {
  if (id !== undefined) {
    return { conversation_id: id };
  }
  return peer === undefined ? undefined : { to: peer };
}

/** Returns a new group's rules; an omitted one has the protocol's default. */
function begun({ kind, title, history = "joined", post, add, join }: NewGroup): Group {
  const unsaid = kind === "channel" ? "admins" : "all";
  const rules = { history, post: post ?? unsaid, add: add ?? unsaid };
  return { ...UNKNOWN, title, role: "owner", ...rules, ...(kind === "channel" ? { join: join ?? "admins" } : {}) };
}
