// Sends `typing` from time to time. The frame is neither saved nor repeated, since a moment later it is no longer true.

import { limits } from "../frames.ts";
import { isChannel } from "../protocol.ts";
import type { Core, LinkId } from "./core.ts";

/** The session, as this part knows it. */
interface Session extends Core {
  readonly links: { current(): LinkId | undefined };
  readonly reports: { typed(conversation: string): void };
}

export class Typing {
  #session: Session;
  /** The time of the last `typing` of each conversation, while it is recent enough to count. */
  #toldAt = new Map<string, number>();

  constructor(session: Session) {
    this.#session = session;
  }

  send(conversation_id: string): void {
    if (isChannel(conversation_id)) {
      // The server sends no such event in a channel.
      return;
    }
    const { now, links, reports } = this.#session;
    reports.typed(conversation_id);
    for (const [conversation, toldAt] of this.#toldAt) {
      if (now - toldAt >= limits.TYPING_PAUSE_MS) {
        this.#toldAt.delete(conversation);
      }
    }
    const link = links.current();
    if (link !== undefined && !this.#toldAt.has(conversation_id)) {
      this.#toldAt.set(conversation_id, now);
      // Without an id: the server never replies.
      this.#session.output({ do: "send", link, frame: JSON.stringify({ action: "typing", conversation_id }) });
    }
  }
}
