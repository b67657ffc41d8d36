// What outlives a reload: the messages that were not answered yet, and how far each conversation has come.

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
  /** What it carries. */
  media?: Upload;
}

/** A file on its way to where a message says that it is. */
export interface Upload extends MediaInfo {
  /** Its bytes, or the message that it is forwarded from. */
  source: { file: Blob } | { copy_of: { conversation_id: string; seq: number } };
  kind: MediaKind;
  /** Of a large one, the digest of each part. */
  parts?: string[];
  /** What the server calls it, once that is known. */
  media_id?: string;
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
export type StorageChange =
  /** This waits, after what waits already. A storage that can't keep bytes passes over what carries some. */
  | { queued: Queued }
  /** What the message with this `clientMsgId` carries is called so from now on; without `mediaId` it is to be uploaded anew. */
  | { uploading: { clientMsgId: string; mediaId?: string } }
  /** What has this `clientMsgId` no longer waits. */
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
}

/** Where the client keeps what must survive a restart. One client uses it at a time. */
export interface Storage {
  /** Everything that was written before. If this fails there is no client. */
  load(): Promise<Saved>;
  /** Where `load` has put what it could not read; all that it gave is empty then. */
  setAside?(): string | undefined;
  /**
   * Remembers these, in this order, all or none. Where one of them is `queued`, all are safe once this is done. If it
   * fails they are written again with the next ones; what is `queued` is refused instead.
   */
  write(changes: StorageChange[]): Promise<void>;
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
export function apply(saved: Saved, change: StorageChange): void {
  if ("queued" in change) {
    saved.outbox.push(change.queued);
  } else if ("uploading" in change) {
    const { clientMsgId, mediaId } = change.uploading;
    const at = saved.outbox.findIndex((queued) => queued.clientMsgId === clientMsgId);
    const found = saved.outbox[at];
    if (found) {
      saved.outbox[at] = withMediaId(found, mediaId);
    }
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

/** The message, of which the server calls what it carries so; `undefined`: nothing any more. */
export function withMediaId(queued: Queued, mediaId: string | undefined): Queued {
  if (!("body" in queued) || !queued.media) {
    return queued;
  }
  const { media_id: _, ...upload } = queued.media;
  return { ...queued, media: mediaId === undefined ? upload : { ...upload, media_id: mediaId } };
}

/** Bytes that the message carries, if they are on this device. */
export function fileOf(queued: Queued): Blob | undefined {
  const source = "body" in queued ? queued.media?.source : undefined;
  return source && "file" in source ? source.file : undefined;
}
