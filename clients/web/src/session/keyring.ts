// The keys of this device, as the session sees them.

import type { Notice, Unreadable } from "../events.ts";
import type { AddRequest, Message, Problem, Opened as Proof, Request } from "../frames.ts";

/** A conversation that can be encrypted: by its other user, or a group by its id. */
export type Party = { user: string } | { conversation: string };

/**
 * The outcome of an entry. `own`: this device sealed it, and the outbox has its text. `later`: no outcome yet. `proof`: for
 * a report, since the keys are gone.
 */
export type Opened = { plain: Message; proof?: Proof } | "own" | "nothing" | "later" | { unreadable: Unreadable };

export interface Sealed {
  epoch: number;
  /** Base64. */
  body: string;
  silent: boolean;
  /** The upload of its file. */
  media_id?: string;
  /** The digest for a report. */
  frank?: string;
}

export type Readiness = "ready" | "waits" | { held: string } | { refused: string };

/** A change of a group's members. */
export type Change = { add: string[] } | { remove: string };

/** The commit of a change of a group's members. */
export type Rekeyed = Pick<AddRequest, "epoch" | "commit" | "welcome" | "group_info" | "tree">;

/** How a change of a group's members leaves: `plain` as it is, `ready` with a commit. */
export type Prepared =
  | "plain"
  | "waits"
  | { ready: Rekeyed }
  | { held: string }
  | { refused: [code: string, users: string[]] };

/** The plaintext of a message, as its author wrote it. */
export interface Envelope {
  kind: string;
  body: string;
  at: string;
  after: number;
  fields: Record<string, unknown>;
}

/** The outcome of a reply. `entry`: the own commit that the server has stored, and sends to other connections only. */
export interface Answered {
  notices: Notice[];
  entry: Message | undefined;
}

/** A part of a commit that has no room in a frame, for an upload of kind `sealed`. */
export interface PartUpload {
  conversation: string;
  /** The `client_msg_id` of the commit. */
  id: string;
  part: string;
  sha256: string;
  data: Uint8Array<ArrayBuffer>;
}

/** A part of a commit that is to be downloaded. */
export interface PartFetch {
  conversation: string;
  media: string;
  bytes: number;
  sha256: string;
}

/** The keys of this device, in WebAssembly. Rows and bytes are base64, times milliseconds since 1970. */
export interface Keyring {
  takeChanges(): [key: string, value: string | null][];
  connected(): void;
  keysLow(left: number): void;
  requests(nowMs: number): [key: unknown, request: Request][];
  answered(key: unknown, reply: { result: unknown } | { problem: Problem }, nowMs: number): Answered;
  wakeAt(): number | undefined;
  /** The client has everything that was pending. */
  caughtUp(nowMs: number): void;
  /** The server's features have `encryption.report`, or not: each message then has a digest. */
  franking(isOn: boolean): void;
  /** The conversations whose log is to be requested, at least up to this `seq`. */
  due(): [conversation: string, seq: number][];
  /** This group was created encrypted. */
  created(group: string): void;
  /** The chat list has this encrypted conversation. */
  met(party: Party, nowMs: number): void;
  take(entry: Message, nowMs: number): { shown: Opened; notices: Notice[] };
  position(conversation: string): number | undefined;
  prepare(party: Party, nowMs: number): Readiness;
  seal(party: Party, clientMsgId: string, envelope: Envelope): Sealed;
  sealed(party: Party, clientMsgId: string): Sealed | undefined;
  stale(party: Party, clientMsgId: string, epoch: number, lastSeq: number, nowMs: number): void;
  /** The message was not stored, since these users have left. */
  rekey(party: Party, clientMsgId: string, left: string[], nowMs: number): void;
  /** The message is stored at this `seq` and told, or refused for good. */
  sent(party: Party, clientMsgId: string, seq: number | undefined, nowMs: number): void;
  roll(group: string, clientMsgId: string, change: Change, nowMs: number): Prepared;
  /** The outcome of a change that left with a commit. */
  rolled(group: string, clientMsgId: string, outcome: { seq: number } | { problem: Problem }, nowMs: number): void;
  /** Returns the parts to upload, each once. */
  uploads(nowMs: number): PartUpload[];
  /** `undefined`: the upload failed, and is due again later. */
  uploaded(upload: PartUpload, mediaId: string | undefined, nowMs: number): void;
  /** Returns the parts to download, each once. */
  fetches(nowMs: number): PartFetch[];
  /** `undefined`, or other bytes: the download is due again later. */
  fetched(fetch: PartFetch, data: Uint8Array | undefined, nowMs: number): void;
  /** A call of the app. */
  security(name: string, fields: object): unknown;
}
