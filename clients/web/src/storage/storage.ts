// What outlives a reload: the messages that were not answered yet, and how far each conversation has come.

import type { Media } from "../frames.ts";
import type { MediaInfo, MediaKind } from "../media.ts";
import type { GroupInfo, NewGroup, Target } from "../protocol.ts";

/** What waits for its answer: a message, a change of one, or one of a group. */
export type Queued = QueuedMessage | QueuedChange | QueuedCreate | QueuedGroupChange;

export interface QueuedMessage {
  /** The same at each try, so that the server stores it once. */
  clientMsgId: string;
  target: Target;
  body: string;
  /** The message that this one answers. */
  replyTo?: number;
  /** Whom it names, or `*`: all members. */
  mentions?: string[];
  /** Of one that carries something: a text has neither. */
  kind?: MediaKind;
  media?: Media;
}

/** A message whose bytes are on their way. Once they are there, a `QueuedMessage` with the same `clientMsgId` takes its place. */
export interface Upload {
  clientMsgId: string;
  target: Target;
  kind: MediaKind;
  /** The caption. */
  body: string;
  replyTo?: number;
  mentions?: string[];
  media: MediaInfo;
  /** Left out of one that is forwarded. */
  blob?: Blob;
  /** Of a large one, the digest of each part. */
  parts?: string[];
  /** The message that it is forwarded from. */
  copyOf?: { conversation_id: string; seq: number };
  /** What the server calls it, once that is known. */
  mediaId?: string;
}

interface InConversation {
  clientMsgId: string;
  target: { conversation_id: string };
}

/** The message with this `seq` is to say something else. */
export interface QueuedEdit extends InConversation {
  edit: { seq: number; body: string };
}

/** The message with this `seq` is to be deleted for everybody. */
export interface QueuedDelete extends InConversation {
  delete: { seq: number };
}

/** The user's reaction to the message with this `seq`. `null` takes it back. */
export interface QueuedReaction extends InConversation {
  react: { seq: number; emoji: string | null };
}

/** Of what is stored without a message of its own: the change of another. */
export type QueuedChange = QueuedEdit | QueuedDelete | QueuedReaction;

/** A group is to be made. The answer says which conversation it is. */
export interface QueuedCreate {
  clientMsgId: string;
  create: NewGroup;
}

/** These are to be members. */
export interface QueuedAdd extends InConversation {
  add: { members: string[] };
}

export interface QueuedRemove extends InConversation {
  remove: { user_id: string };
}

export interface QueuedLeave extends InConversation {
  leave: Record<string, never>;
}

export interface QueuedRole extends InConversation {
  role: { user_id: string; role: "owner" | "admin" | "member" };
}

export interface QueuedUpdate extends InConversation {
  update: GroupInfo;
}

export type QueuedGroupChange = QueuedAdd | QueuedRemove | QueuedLeave | QueuedRole | QueuedUpdate;

/** One thing to remember. */
export type Change =
  /** This waits, after what waits already. An upload with this `clientMsgId` is over. */
  | { queued: Queued }
  /** This is on its way; or, where it was before, it has got its `mediaId`. A storage that can't keep bytes passes over it. */
  | { uploading: Upload }
  /** What has this `clientMsgId` no longer waits, nor is on its way. */
  | { done: string }
  /** The app is done with everything of this conversation up to here. Only rises. */
  | { held: { conversation_id: string; seq: number } }
  /** A time of the server's, up to which nothing is missing. */
  | { caughtUp: string };

/** All that is remembered. */
export interface Saved {
  /** What waits, oldest first. */
  outbox: Queued[];
  /** For each conversation, the last seq that the app is done with. */
  held: Map<string, number>;
  caughtUp?: string;
  /** Oldest first. */
  uploads?: Upload[];
}

/** Where the client keeps what must survive a restart. One client uses it at a time. */
export interface Storage {
  /** Everything that was written before. If this fails there is no client. */
  load(): Promise<Saved>;
  /** Where `load` has put what it could not read; all that it gave is empty then. */
  setAside?(): string | undefined;
  /**
   * Remembers these, in this order, all or none. Where one is `queued` or `uploading`, all are safe once this is done. If it
   * fails they are written again with the next ones; what is `queued` or `uploading` is refused instead.
   */
  write(changes: Change[]): Promise<void>;
  /** The client is closed: another one may use what is kept. */
  close?(): Promise<void>;
}

export function nothingSaved(): Saved {
  return { outbox: [], held: new Map() };
}

/** A copy that does not share its outbox and marks. */
export function copy({ outbox, held, uploads, ...rest }: Saved): Saved {
  return { ...rest, outbox: [...outbox], held: new Map(held), ...(uploads ? { uploads: [...uploads] } : {}) };
}

/** Applies one change. */
export function apply(saved: Saved, change: Change): void {
  if ("queued" in change) {
    saved.outbox.push(change.queued);
    endUpload(saved, change.queued.clientMsgId);
  } else if ("uploading" in change) {
    const { uploading } = change;
    const uploads = saved.uploads ?? [];
    const at = uploads.findIndex(({ clientMsgId }) => clientMsgId === uploading.clientMsgId);
    saved.uploads = at < 0 ? [...uploads, uploading] : uploads.map((upload, of) => (of === at ? uploading : upload));
  } else if ("done" in change) {
    const at = saved.outbox.findIndex((queued) => queued.clientMsgId === change.done);
    if (at >= 0) {
      saved.outbox.splice(at, 1);
    }
    endUpload(saved, change.done);
  } else if ("held" in change) {
    const { conversation_id, seq } = change.held;
    saved.held.set(conversation_id, Math.max(seq, saved.held.get(conversation_id) ?? 0));
  } else {
    saved.caughtUp = change.caughtUp;
  }
}

function endUpload(saved: Saved, id: string): void {
  if (saved.uploads) {
    saved.uploads = saved.uploads.filter(({ clientMsgId }) => clientMsgId !== id);
  }
}
