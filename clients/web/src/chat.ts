// One conversation, in the hands of an app.

import type { Actions, Forwarded, Sent } from "./actions.ts";
import type { Item } from "./chat/item.ts";
import type { ChatRow } from "./chat/row.ts";
import type { At } from "./chat/window.ts";
import type {
  AddResult,
  Data,
  HistoryResult,
  JoinResult,
  LeaveResult,
  MembersResult,
  MutedUntil,
  ReactionsResult,
  ReadResult,
  ReceiptsResult,
} from "./frames.ts";
import type { MediaDraft } from "./media.ts";
import type { Draft, GroupInfo, Page, Role, Side } from "./protocol.ts";
import { plain, type Target } from "./saved.ts";
import type { DraftText } from "./store/types.ts";
import { type Changing, MessagesView, type OpenViews, Roster } from "./view.ts";

/**
 * A conversation: direct, a group or a channel.
 *
 * A function that returns a `Sent` uses the outbox: when it resolves, a reload does not lose the request. The server
 * stores a conversation's requests in the order of the calls.
 */
export class Chat {
  /** A direct conversation has its id before its first message. */
  readonly id: string;
  /**
   * The conversation's row of the chat list: its title, who is typing, whether the peer is online. `undefined` as long
   * as it is not known. A listener opens a view of the conversation, if none is open.
   */
  readonly row: Changing<ChatRow | undefined> = {
    subscribe: (listener) => (this.#views.ofConversation(this.id)[0] ?? this.messages()).subscribe(listener),
    getSnapshot: () => this.#views.ofConversation(this.id)[0]?.chat,
  };
  #actions: Actions;
  #views: OpenViews;
  /** Where messages go: to the conversation, or to the user. */
  #target: Target;

  /** @internal */
  constructor(id: string, target: Target, actions: Actions, views: OpenViews) {
    this.id = id;
    this.#target = target;
    this.#actions = actions;
    this.#views = views;
  }

  /**
   * Opens a view of the messages, at the end, around the first unread message, or around a message. The same query
   * returns the same view as long as it is open.
   */
  messages({ at = "newest" }: { at?: At | undefined } = {}): MessagesView {
    const of = { messages: { with: this.#target, at } };
    return this.#views.find(of, () => new MessagesView(this.#views, of, this.id));
  }

  /** Opens a view of the members of this group or channel, with their roles and marks. */
  roster(): Roster {
    const of = { members: this.id };
    return this.#views.find(of, () => new Roster(this.#views, of));
  }

  /** Sends a text, or a message of the app's own kind. */
  send(draft: Draft): Promise<Sent> {
    return this.#actions.send(this.#target, draft);
  }

  /** Sends a text as a reply to the message at `seq`. */
  reply(seq: number, body: string): Promise<Sent> {
    return this.#actions.send(this.#target, { body, replyTo: seq });
  }

  /** Sends a picture, a file or a voice note. The client uploads it first, over reloads too. */
  sendFile(draft: MediaDraft): Promise<Sent> {
    return this.#actions.sendMedia(this.#target, draft);
  }

  /** Sends another message's attachment again, with this caption. */
  forward(message: Forwarded, draft: Draft = ""): Promise<Sent> {
    return this.#actions.forward(this.#target, message, draft);
  }

  /** Changes the text of an own message, and its data: `null` removes it; without `data`, it stays. */
  edit(seq: number, body: string, data?: Data | null): Promise<Sent> {
    return this.#actions.edit(this.id, seq, body, data);
  }

  /** Deletes a message for all members: an own one, or another as an admin of the group. */
  delete(seq: number): Promise<Sent> {
    return this.#actions.delete(this.id, seq);
  }

  /** Reacts to a message, in place of an earlier reaction. `null` takes it back. */
  react(seq: number, emoji: string | null): Promise<Sent> {
    return this.#actions.react(this.id, seq, emoji);
  }

  /** The item was on the screen, in a view of this conversation. See `MessagesView.seen`. */
  seen(item: Item | string | undefined): void {
    for (const view of this.#views.ofConversation(this.id)) {
      view.seen(item);
    }
  }

  /** The user has read everything up to `seq`. Calls within a second share one report. */
  read(seq: number): Promise<ReadResult> {
    return this.#actions.read(this.id, seq);
  }

  /** The user has read everything, although some of it may never have come to this device. */
  readAll(): void {
    this.#views.engine.say({ readAll: this.id });
  }

  /** The user is typing: call it at each key. */
  typing(): void {
    this.#actions.typing(this.id);
  }

  /** Saves a text that the user has begun, 300 ms after a key. `undefined`: it was sent or removed. */
  draft(draft: Draft | undefined): void {
    const text: DraftText | undefined = typeof draft === "string" ? { body: draft } : draft;
    this.#views.engine.say({ draft: { target: this.#target, draft: text && plain(text) } });
  }

  /** No push until this time, or `forever`. `null`: not muted. */
  mute(until: Date | "forever" | null): Promise<void> {
    const muted_until = until instanceof Date ? until.toISOString() : until;
    return this.#actions.settings({ conversation_id: this.id, set: { muted_until } });
  }

  /** While the group is muted, mentions send no push either. */
  muteMentions(muted: boolean): Promise<void> {
    return this.#actions.settings({ conversation_id: this.id, set: { mute_mentions: muted } });
  }

  /** Hides the conversation in the chat list, until its next message. */
  archive(archived: boolean): Promise<void> {
    return this.#actions.settings({ conversation_id: this.id, set: { archived } });
  }

  /** Keeps the conversation at the top of the chat list. Ten conversations can be there, and ten channels. */
  pinToTop(pinned: boolean): Promise<void> {
    return this.#actions.settings({ conversation_id: this.id, set: { pinned } });
  }

  /** Shows the conversation as unread, on all devices, until it is read. `unread` stays the number. */
  markUnread(unread: boolean): Promise<void> {
    return this.#actions.settings({ conversation_id: this.id, set: { unread } });
  }

  /** Adds members to a group or a channel. */
  add(userIds: string[]): Promise<Sent<AddResult>> {
    return this.#actions.add(this.id, userIds);
  }

  /** Removes a member. */
  remove(userId: string): Promise<Sent> {
    return this.#actions.remove(this.id, userId);
  }

  /** Leaves the group or the channel. */
  leave(): Promise<Sent<LeaveResult>> {
    return this.#actions.leave(this.id);
  }

  /** Sets the role of a member. With `owner`, the user transfers the ownership. */
  role(userId: string, role: Role): Promise<Sent> {
    return this.#actions.role(this.id, userId, role);
  }

  /** Lets a member only read until then, or `forever`. With `null`, the restriction ends. */
  restrict(userId: string, until: MutedUntil | null): Promise<Sent> {
    return this.#actions.restrict(this.id, userId, until);
  }

  /** Changes the title, and what members may do. */
  update(info: GroupInfo): Promise<Sent> {
    return this.#actions.update(this.id, info);
  }

  /** Joins a channel whose `join` is `open`. */
  join(): Promise<JoinResult> {
    return this.#actions.join(this.id);
  }

  /** A page of the members, in the order of their ids. */
  members(page?: Page): Promise<MembersResult> {
    return this.#actions.members(this.id, page);
  }

  /** A page of how far the members of a group have received and read. */
  receipts(page?: Page): Promise<ReceiptsResult> {
    return this.#actions.receipts(this.id, page);
  }

  /** Pins a message for all members, or takes the pin off. `Messages.pins` of a view has the pinned ones. */
  pin(seq: number, pinned: boolean): Promise<Sent> {
    return this.#actions.pin(this.id, seq, pinned);
  }

  /** A page of who reacted to a message. */
  reactions(seq: number, page?: Page): Promise<ReactionsResult> {
    return this.#actions.reactions(this.id, seq, page);
  }

  /** A page of entries, as the server has them. Views need no call of it. */
  history(side?: Side, limit?: number): Promise<HistoryResult> {
    return this.#actions.history(this.id, side, limit);
  }
}
