// The data that a session saves, for a test without a store.

import type { Mark } from "../src/protocol.ts";
import { type Saved, type StorageChange, withMediaId } from "../src/saved.ts";

/** A copy that does not share its lists and marks. */
export function copy({ outbox, held, refused, reads, ...rest }: Saved): Saved {
  return { ...rest, outbox: [...outbox], held: new Map(held), refused: [...refused], reads: new Map(reads) };
}

/** Applies one change. */
export function apply(saved: Saved, change: StorageChange): void {
  const place = (id: string) => saved.outbox.findIndex((queued) => queued.clientMsgId === id);
  if ("queued" in change) {
    saved.outbox.push(change.queued);
  } else if ("uploading" in change) {
    const { clientMsgId, mediaId } = change.uploading;
    const at = place(clientMsgId);
    const found = saved.outbox[at];
    if (found) {
      saved.outbox[at] = withMediaId(found, mediaId);
    }
  } else if ("done" in change) {
    const at = place(change.done);
    if (at >= 0) {
      saved.outbox.splice(at, 1);
    } else {
      saved.refused = saved.refused.filter(({ queued }) => queued.clientMsgId !== change.done);
    }
  } else if ("refused" in change) {
    const { clientMsgId, code } = change.refused;
    const at = place(clientMsgId);
    const removed = at < 0 ? [] : saved.outbox.splice(at, 1);
    saved.refused.push(...removed.map((queued) => ({ queued, code })));
  } else if ("held" in change) {
    raise(saved.held, change.held);
  } else if ("read" in change) {
    raise(saved.reads, change.read);
  } else if ("readTold" in change) {
    const { conversation_id, seq } = change.readTold;
    if ((saved.reads.get(conversation_id) ?? Number.POSITIVE_INFINITY) <= seq) {
      saved.reads.delete(conversation_id);
    }
  } else if ("listed" in change) {
    saved.listed = true;
  } else {
    saved.caughtUp = change.caughtUp;
  }
}

function raise(marks: Map<string, number>, { conversation_id, seq }: Mark): void {
  marks.set(conversation_id, Math.max(seq, marks.get(conversation_id) ?? 0));
}
