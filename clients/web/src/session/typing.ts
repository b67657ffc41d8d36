// That the user writes: told at most once in a while, and neither kept nor repeated, since a moment later it is no longer true.

import { limits } from "../frames.ts";
import { isChannel } from "../protocol.ts";
import type { Session } from "./session.ts";

export class Typing {
  #session: Session;
  /** When each conversation was last told, as long as that matters. */
  #toldAt = new Map<string, number>();

  constructor(session: Session) {
    this.#session = session;
  }

  send(conversation_id: string): void {
    if (isChannel(conversation_id)) {
      // There it is told to nobody.
      return;
    }
    const { now, links } = this.#session;
    for (const [conversation, toldAt] of this.#toldAt) {
      if (now - toldAt >= limits.TYPING_PAUSE_MS) {
        this.#toldAt.delete(conversation);
      }
    }
    const link = links.current();
    if (link !== undefined && !this.#toldAt.has(conversation_id)) {
      this.#toldAt.set(conversation_id, now);
      // Without an id: it is never answered.
      this.#session.output({ do: "send", link, frame: JSON.stringify({ action: "typing", conversation_id }) });
    }
  }
}
