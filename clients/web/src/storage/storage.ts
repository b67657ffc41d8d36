// What outlives a reload: the messages that were not answered yet, and how far each conversation has come.

import type { Target } from "../protocol.ts";

/** A message that waits for its answer. */
export interface Queued {
  /** The same at each try, so that the server stores it once. */
  clientMsgId: string;
  target: Target;
  body: string;
}

/** One thing to remember. */
export type Change =
  /** This message waits, after those that wait already. */
  | { queued: Queued }
  /** The message with this `clientMsgId` no longer waits. */
  | { done: string }
  /** The app is done with everything of this conversation up to here. Only rises. */
  | { held: { conversation_id: string; seq: number } }
  /** A time of the server's, up to which nothing is missing. */
  | { caughtUp: string };

/** All that is remembered. */
export interface Saved {
  /** Messages that wait, oldest first. */
  outbox: Queued[];
  /** For each conversation, the last seq that the app is done with. */
  held: Map<string, number>;
  caughtUp?: string;
}

/** Where the client keeps what must survive a restart. One client uses it at a time. */
export interface Storage {
  /** Everything that was written before. If this fails there is no client. */
  load(): Promise<Saved>;
  /** Where `load` has put what it could not read; all that it gave is empty then. */
  setAside?(): string | undefined;
  /**
   * Remembers these, in this order, all or none. Where one of them is `queued`, all are safe once this is done. If it
   * fails they are written again with the next ones; a message is refused instead.
   */
  write(changes: Change[]): Promise<void>;
  /** The client is closed: another one may use what is kept. */
  close?(): Promise<void>;
}

export function nothingSaved(): Saved {
  return { outbox: [], held: new Map() };
}

/** A copy that does not share its outbox and marks. */
export function copy({ outbox, held, ...rest }: Saved): Saved {
  return { ...rest, outbox: [...outbox], held: new Map(held) };
}

/** Applies one change. */
export function apply(saved: Saved, change: Change): void {
  if ("queued" in change) {
    saved.outbox.push(change.queued);
  } else if ("done" in change) {
    const at = saved.outbox.findIndex((queued) => queued.clientMsgId === change.done);
    if (at >= 0) {
      saved.outbox.splice(at, 1);
    }
  } else if ("held" in change) {
    const { conversation_id, seq } = change.held;
    saved.held.set(conversation_id, Math.max(seq, saved.held.get(conversation_id) ?? 0));
  } else {
    saved.caughtUp = change.caughtUp;
  }
}
