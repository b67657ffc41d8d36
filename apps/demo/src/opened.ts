// The open chat, and the views of the client that follow it. No DOM.

import type { Chat, ChatRow, MemberRow, MessagesView, Pigeonhole, Roster } from "@pigeonhole/client";
import { emptyRow, hasMembers, isChannel } from "@pigeonhole/client";

/** Where a chat is: a user, a conversation, or the row of a group that the server has not created yet. */
export type Place = { peer: string } | { id: string } | { key: string };

export function placeOf({ conversationId, peerId, key }: ChatRow): Place {
  if (conversationId !== undefined) {
    return { id: conversationId };
  }
  return peerId === undefined ? { key } : { peer: peerId };
}

export class Opened {
  /** `undefined` for a group that the server has not created yet. */
  readonly chat: Chat | undefined;
  readonly view: MessagesView | undefined;
  readonly place: Place;
  /** Why the last request was refused, or what became of it. */
  refused = "";
  /** Requests under way. */
  asked = 0;
  #row: ChatRow;
  #roster: Roster | undefined;
  #changed = () => {};
  #ends: (() => void)[] = [];

  constructor(pigeonhole: Pigeonhole, place: Place, row: ChatRow | undefined, changed: () => void) {
    this.place = place;
    this.#row =
      row ?? emptyRow("peer" in place ? { to: place.peer } : { conversation_id: "id" in place ? place.id : "" });
    if ("key" in place) {
      return;
    }
    const chat = "peer" in place ? pigeonhole.direct(place.peer) : pigeonhole.conversation(place.id);
    this.chat = chat;
    this.view = chat.messages({ at: "firstUnread" });
    this.#changed = changed;
    this.#ends.push(this.view.subscribe(changed));
    this.lookAround();
  }

  /** Requests the members. No event reports joins and leaves of a channel. */
  lookAround(): void {
    const { chat } = this;
    if (chat && hasMembers(chat.id)) {
      this.#roster?.close();
      this.#roster = chat.roster();
      this.#ends.push(this.#roster.subscribe(this.#changed));
    }
  }

  /** The views of the client that have names. */
  get views(): readonly (MessagesView | Roster | undefined)[] {
    return [this.view, this.#roster];
  }

  /** The row of the view is the newest; before it has one, that of the list. */
  get row(): ChatRow {
    return this.view?.chat ?? this.#row;
  }

  /** Takes the row of the list. */
  listed(row: ChatRow | undefined): void {
    this.#row = row ?? this.#row;
  }

  get members(): readonly MemberRow[] {
    return this.#roster?.members ?? [];
  }

  /** The messages have been read from the store or the server. */
  get isLoaded(): boolean {
    return this.view?.getSnapshot() !== undefined;
  }

  get isChannel(): boolean {
    return this.chat ? isChannel(this.chat.id) : this.#row.kind === "channel";
  }

  close(): void {
    for (const end of this.#ends) {
      end();
    }
    this.view?.close();
    this.#roster?.close();
  }
}
