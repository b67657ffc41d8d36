// Views, which an interface draws.

import type { Filter, ListSnapshot } from "./chat/conversations.ts";
import type { Item, Reply } from "./chat/item.ts";
import type { MemberRow, RosterSnapshot } from "./chat/roster.ts";
import type { ChatRow } from "./chat/row.ts";
import type { Act, Screen, Shown, ViewId, ViewOf } from "./chat/views.ts";
import type { At } from "./chat/window.ts";
import type { Engine, Input } from "./engine.ts";
import { guarded } from "./errors.ts";
import { plain } from "./saved.ts";

/** How long a view stays open without a listener, in milliseconds. */
const ENDS_AFTER = 1000;

/** The open views of an app, each by its query. */
export class OpenViews {
  readonly engine: Engine;
  #lastId: ViewId = 0;
  #open = new Map<ViewId, View<unknown>>();

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /** Returns the open view of this query, or makes it. */
  find<V extends View<unknown>>(of: ViewOf, make: () => V): V {
    const same = [...this.#open.values()].find((view) => isSame(view.of, of));
    return (same as V | undefined) ?? make();
  }

  /** Opens a view, and returns its number. */
  add(view: View<unknown>): ViewId {
    this.#lastId += 1;
    this.#open.set(this.#lastId, view);
    this.say({ open: { view: this.#lastId, of: view.of } });
    return this.#lastId;
  }

  remove(id: ViewId): void {
    if (this.#open.delete(id)) {
      this.say({ close: id });
    }
  }

  /** Not within this call: a view shows nothing before its maker can have a listener, nor while React renders. */
  say(input: Input): void {
    const said = plain(input);
    queueMicrotask(() => this.engine.say(said));
  }

  show(id: ViewId, shown: Shown): void {
    this.#open.get(id)?.show(shown);
  }

  /** Returns the open views of a conversation. */
  ofConversation(id: string): MessagesView[] {
    return [...this.#open.values()].filter(
      (view) => view instanceof MessagesView && view.conversationId === id,
    ) as MessagesView[];
  }
}

/** A value that changes. `subscribe` and `getSnapshot` are for React's `useSyncExternalStore`, and need no `this`. */
export interface Changing<T> {
  /** Calls the listener after each change, until the returned function is called. */
  readonly subscribe: (listener: () => void) => () => void;
  readonly getSnapshot: () => T;
}

function isSame(one: ViewOf, other: ViewOf): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * A view for an interface, which follows everything that happens. The view ends 1 s after its last listener is gone, or
 * after it was made without one. The next listener begins it again.
 */
export abstract class View<T> implements Changing<T | undefined> {
  /** @internal */
  of: ViewOf;
  #views: OpenViews;
  /** `undefined`: the view has ended. */
  #id: ViewId | undefined;
  #listeners = new Set<() => void>();
  #shown: T | undefined;
  #end: ReturnType<typeof setTimeout> | undefined;

  /** @internal */
  constructor(views: OpenViews, of: ViewOf) {
    this.#views = views;
    this.of = of;
    this.#begin();
    this.#endSoon();
  }

  /** Calls the listener after each change, until the returned function is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    // A function that subscribes twice is two listeners.
    const call = () => listener();
    clearTimeout(this.#end);
    this.#listeners.add(call);
    this.#begin();
    return () => {
      if (this.#listeners.delete(call) && this.#listeners.size === 0) {
        this.#endSoon();
      }
    };
  };

  /** Returns what to draw now. `undefined`: the message store has not been read yet. */
  readonly getSnapshot = (): T | undefined => this.#shown;

  /** Ends the view now. */
  close(): void {
    clearTimeout(this.#end);
    if (this.#id !== undefined) {
      this.#views.remove(this.#id);
      this.#id = undefined;
    }
  }

  #begin(): void {
    this.#id ??= this.#views.add(this);
  }

  #endSoon(): void {
    clearTimeout(this.#end);
    this.#end = setTimeout(() => this.close(), ENDS_AFTER);
  }

  protected act(act: Act): void {
    if (this.#id !== undefined) {
      this.#views.say({ act: { view: this.#id, act } });
    }
  }

  protected abstract read(shown: Shown): T | undefined;

  /** @internal */
  show(shown: Shown): void {
    this.#shown = this.read(shown);
    for (const listener of [...this.#listeners]) {
      guarded(listener);
    }
  }
}

/** A view of the chat list. */
export class ChatList extends View<ListSnapshot> {
  /**
   * Pinned conversations first, then those with the latest message. A row that did not change is the same object as
   * before.
   */
  get rows(): readonly ChatRow[] {
    return this.getSnapshot()?.rows ?? [];
  }

  /** The number of unread messages of all conversations that are not muted, for the app's badge. */
  get unread(): number {
    return this.getSnapshot()?.unread ?? 0;
  }

  /** Requests the rows of channels again: no event tells the news of a channel that no view shows. */
  refresh(): void {
    this.act("refresh");
  }

  /** Selects other rows. */
  select(filter: Filter): void {
    this.of = { chats: filter };
    this.act({ filter });
  }

  protected override read(shown: Shown): ListSnapshot | undefined {
    return "chats" in shown ? shown.chats : undefined;
  }
}

/** A view of the members of a group or a channel. */
export class Roster extends View<RosterSnapshot> {
  /** The owner, the admins and then the others. A row that did not change is the same object as before. */
  get members(): readonly MemberRow[] {
    return this.getSnapshot()?.members ?? [];
  }

  protected override read(shown: Shown): RosterSnapshot | undefined {
    return "members" in shown ? shown.members : undefined;
  }
}

/** A view of the messages of a conversation. Older ones come from the store and the server. */
export class MessagesView extends View<Screen> {
  /** A direct conversation has its id before its first message. */
  readonly conversationId: string;

  /** @internal */
  constructor(views: OpenViews, of: ViewOf, conversationId: string) {
    super(views, of);
    this.conversationId = conversationId;
  }

  /** Everything to draw, in order. An item that did not change is the same object as before. */
  get items(): readonly Item[] {
    return this.getSnapshot()?.items ?? [];
  }

  /** `loadOlder` brings more. */
  get hasOlder(): boolean {
    return this.getSnapshot()?.hasOlder ?? false;
  }

  /** `loadNewer` brings more: the view has left the end, and new messages are not among the items. */
  get hasNewer(): boolean {
    return this.getSnapshot()?.hasNewer ?? false;
  }

  /** The number of unread messages, for the arrow that leads to the end. */
  get unread(): number {
    return this.getSnapshot()?.unread ?? 0;
  }

  /** The pinned messages that are not deleted, the last pinned first. Without a message: `jumpTo`. */
  get pins(): readonly Reply[] {
    return this.getSnapshot()?.pins ?? [];
  }

  /**
   * The conversation's row of the chat list: its title, who is typing, whether the peer is online. `undefined` as long
   * as the conversation does not exist.
   */
  get chat(): ChatRow | undefined {
    return this.getSnapshot()?.chat;
  }

  /** Shows older messages: the user has come near the first item. */
  loadOlder(): void {
    this.act("older");
  }

  /** Shows newer messages: the user has come near the last item. */
  loadNewer(): void {
    this.act("newer");
  }

  /** Shows another part of the conversation: around a message, or its end. */
  jumpTo(at: At): void {
    this.act({ jump: at });
  }

  /**
   * The item was on the screen: the client marks it as read, with all unread messages before it. Call it for each item
   * of which half was visible for 300 ms while the page was visible.
   */
  seen(item: Item | string | undefined): void {
    if (item !== undefined) {
      this.act({ seen: typeof item === "string" ? item : item.key });
    }
  }

  protected override read(shown: Shown): Screen | undefined {
    return "messages" in shown ? shown.messages : undefined;
  }
}
