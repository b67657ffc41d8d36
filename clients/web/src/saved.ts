// The data that survives a reload: the requests without a reply, and the mark of each conversation.

import type { Data, Request } from "./frames.ts";
import type { Digests, MediaInfo, MediaKind } from "./media.ts";

/** The recipient of a message: a user, whose direct conversation the first message creates, or a known conversation. */
export type Target = { to: string } | { conversation_id: string };

/** A request that the server stores: it has an idempotency key. */
type Keyed<R> = R extends Request ? ("client_msg_id" extends keyof R ? R : never) : never;
export type StoringRequest = Exclude<Keyed<Request>, { action: "commit" }>;
type Of<A> = Extract<StoringRequest, { action: A }>;

/** A request without a reply: a message, or another stored request. */
export type Queued = QueuedMessage | QueuedRequest;

/** A stored request that is no message, as the client sends it. */
export interface QueuedRequest<
  A extends Exclude<StoringRequest["action"], "send"> = Exclude<StoringRequest["action"], "send">,
> {
  /** The idempotency key: the same at each try, so that the server stores the request once. */
  clientMsgId: string;
  request: Of<A>;
  /** When the user made it, by this device's clock. The client sets it. */
  madeAt?: string;
}

export interface QueuedMessage {
  /** The idempotency key: the same at each try, so that the server stores the message once. */
  clientMsgId: string;
  target: Target;
  body: string;
  /** The message that this one replies to. */
  replyTo?: number;
  /** The mentioned users, or `*`: all members. */
  mentions?: string[];
  /** A kind of the app's own. Without it: a text, or the kind of the attachment. */
  kind?: string;
  /** The app's own object. */
  data?: Data;
  /** The attachment. */
  media?: Upload;
  /** When the user wrote it, by this device's clock. The client sets it. */
  madeAt?: string;
}

/** An attachment, from the upload to the message. */
export interface Upload extends MediaInfo {
  /** Its bytes, or the message that it is forwarded from. */
  source: { file: Blob } | { copy_of: { conversation_id: string; seq: number } };
  kind: MediaKind;
  /** The digest of each part, for a large file. */
  parts?: string[];
  /** For an encrypted conversation. */
  sealed?: SealedFile;
  /** The server's id of the file, once known. */
  media_id?: string;
}

/** The key of a file, and the digests of its ciphertext. */
export interface SealedFile extends Digests {
  /** Base64. */
  key: string;
  /** A small image in base64, for the encrypted message alone. */
  thumbnail?: string;
}

/** One thing to remember. */
export type StorageChange =
  /** A new request, after all earlier ones. A storage that can't keep bytes skips a message with an attachment. */
  | { queued: Queued }
  /**
   * The server's id for the attachment of the message with this `clientMsgId`, from now on. Without `mediaId`, the
   * client must upload it again.
   */
  | { uploading: { clientMsgId: string; mediaId?: string } }
  /** The request with this `clientMsgId` has its reply. */
  | { done: string }
  /** The app is done with everything of this conversation up to here. Only rises. */
  | { held: { conversation_id: string; seq: number } }
  /** A time of the server's, up to which nothing is missing. */
  | { caughtUp: string }
  /** The server refused a request for good. The request stays until the user discards it or tries again. */
  | { refused: { clientMsgId: string; code: string } }
  /** The whole chat list has come. */
  | { listed: true }
  /** The user has read the conversation up to here, and the server does not know it yet. Only rises. */
  | { read: { conversation_id: string; seq: number } }
  /** The server knows the read mark up to here, or refused it. */
  | { readTold: { conversation_id: string; seq: number } };

/** All that is remembered. */
export interface Saved {
  /** The requests without a reply, oldest first. */
  outbox: Queued[];
  /** For each conversation, the last seq that the app is done with. */
  held: Map<string, number>;
  caughtUp?: string;
  /** Requests that the server refused for good, oldest first. */
  refused: RefusedRequest[];
  /** The whole chat list has come. */
  listed: boolean;
  /** The user's read marks that the server does not know yet. */
  reads: Map<string, number>;
  /** The rows of the end-to-end encryption, as base64. */
  sealing: Map<string, string>;
}

/** A request that the server refused for good, with the code of the refusal. */
export interface RefusedRequest {
  queued: Queued;
  code: string;
}

export function nothingSaved(): Saved {
  return { outbox: [], held: new Map(), refused: [], listed: false, reads: new Map(), sealing: new Map() };
}

/** Returns the message with the server's id of its attachment; `undefined` removes the id. */
export function withMediaId(queued: Queued, mediaId: string | undefined): Queued {
  if (!("body" in queued) || !queued.media) {
    return queued;
  }
  const { media_id: _, ...upload } = queued.media;
  return { ...queued, media: mediaId === undefined ? upload : { ...upload, media_id: mediaId } };
}

/** Returns a copy as a store and other tabs can have it. A framework's proxy can't be cloned. */
export function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

/** Returns the attachment's bytes, if they are on this device. */
export function fileOf(queued: Queued): Blob | undefined {
  const source = "body" in queued ? queued.media?.source : undefined;
  return source && "file" in source ? source.file : undefined;
}

/** Whether this version of the client has written it. */
export function isQueued(queued: unknown): queued is Queued {
  if (!isObject(queued) || typeof queued.clientMsgId !== "string") {
    return false;
  }
  const { request, target, body, replyTo, mentions, kind = "", data = {} } = queued;
  if (isObject(request)) {
    return typeof request.action === "string";
  }
  const isMessage = isObject(target) && typeof body === "string" && isListOfText(mentions ?? []);
  return (
    isMessage && typeof kind === "string" && isObject(data) && (replyTo === undefined || Number.isSafeInteger(replyTo))
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function isListOfText(list: unknown): boolean {
  return Array.isArray(list) && list.every((item) => typeof item === "string");
}
