// Uploads of attachments: announce, PUT, confirm. Then the message enters its send queue, behind the messages that were
// sent meanwhile.

import { PigeonholeError } from "../errors.ts";
import { isUploadedResult, isUploadResult, type Request, type UploadRequest, type UploadResult } from "../frames.ts";
import type { QueuedMessage, Upload } from "../saved.ts";
import type { Core, Put } from "./core.ts";
import type { Entry } from "./entry.ts";
import type { Requests } from "./requests.ts";

/** The limit of concurrent uploads. */
const UPLOADS_MAX = 2;
/** After this number of refusals in a row, the bytes are not those that were announced. */
const REFUSED_MAX = 3;
/** The first pause after a PUT that failed is up to this, each further one up to twice the one before. */
const PUT_RETRY = 1000;
const PAUSE_MAX = 60_000;
const NOW = Number.NEGATIVE_INFINITY;

/**
 * The result of a PUT: the HTTP status; `lost`, without a response, so that a retry may work; or `unreadable`, a file
 * that can't be read, now or later.
 */
export type PutEnd = number | "lost" | "unreadable";

type Step =
  /** To be announced, or announced again, not before this. */
  | { is: "begin"; at: number }
  | { is: "asked"; request: Request }
  /** The first is under way. */
  | { is: "putting"; puts: Put[] }
  /** All of it has been put: the server is to look. */
  | { is: "look" }
  | { is: "looking"; request: Request };

interface Uploading {
  entry: Entry & { queued: QueuedMessage };
  step: Step;
  /** An earlier run announced the file, so the message may have been sent and its reply lost. */
  mayBeSent: boolean;
  /** Something was there before it was put. */
  wasThere: boolean;
  fails: number;
  refused: number;
}

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly outbox: {
    enter(entry: Entry, mayBeSent: boolean): void;
    failed(entry: Entry, error: PigeonholeError): void;
  };
}

export class Uploads {
  #session: Session;
  /** In the order in which they were made. */
  #all: Uploading[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  add(entry: Entry & { queued: QueuedMessage }): void {
    const mayBeSent = entry.queued.media?.media_id !== undefined;
    const step: Step = { is: "begin", at: NOW };
    this.#all.push({ entry, step, mayBeSent, wasThere: false, fails: 0, refused: 0 });
  }

  get entries(): Entry[] {
    return this.#all.map(({ entry }) => entry);
  }

  /** Returns the messages that may have been sent and are in no send queue. */
  get unsure(): Entry[] {
    return this.#all.filter(({ mayBeSent }) => mayBeSent).map(({ entry }) => entry);
  }

  /** Cancels an upload. Returns whether that was in time, before the file was complete. */
  cancel(id: string): boolean {
    const found = this.#find(id);
    if (found) {
      this.#session.output({ do: "abort", id });
      if ("request" in found.step) {
        this.#session.requests.withdraw(found.step.request);
      }
      this.#fail(found, new PigeonholeError("cancelled", "the app has cancelled it"));
    }
    return found !== undefined;
  }

  next(): number {
    const waiting = this.#all.map(({ step }) => (step.is === "begin" ? step.at : Number.POSITIVE_INFINITY));
    return this.#underWay() < UPLOADS_MAX ? Math.min(...waiting) : Number.POSITIVE_INFINITY;
  }

  ask(): void {
    for (const uploading of this.#all) {
      const { step } = uploading;
      if (step.is === "begin" && this.#underWay() < UPLOADS_MAX && step.at <= this.#session.now) {
        this.#announce(uploading);
      } else if (step.is === "look") {
        this.#look(uploading);
      }
    }
  }

  #underWay(): number {
    return this.#all.filter(({ step }) => step.is !== "begin").length;
  }

  #find(id: string): Uploading | undefined {
    return this.#all.find(({ entry }) => entry.queued.clientMsgId === id);
  }

  // Announced.

  #announce(uploading: Uploading): void {
    const request = announcement(uploading.entry.queued);
    uploading.step = { is: "asked", request };
    this.#session.requests.ask(request, {
      answered: (result) => {
        const readable = isUploadResult(result);
        if (readable) {
          this.#announced(uploading, result);
        }
        return readable;
      },
      refused: (error) => this.#refused(uploading, error),
      lost: () => {
        uploading.step = { is: "begin", at: NOW };
      },
    });
  }

  /** Starts the PUTs of an announced file, at the URLs of the reply. */
  #announced(uploading: Uploading, { media_id, url, headers = {}, parts = [] }: UploadResult): void {
    if (!this.#all.includes(uploading)) {
      return;
    }
    this.#remember(uploading, media_id);
    const { source, bytes } = uploadOf(uploading);
    if ("copy_of" in source) {
      // No part is left to upload.
      this.#enter(uploading);
      return;
    }
    const { file } = source;
    const whole = url === undefined ? [] : [{ file, offset: 0, bytes, url, headers }];
    const puts = [...whole, ...parts.map(({ number: _, ...part }) => ({ file, ...part }))];
    if (puts.length === 0) {
      uploading.step = { is: "look" };
    } else {
      uploading.step = { is: "putting", puts };
      this.#put(uploading, puts);
    }
  }

  #refused(uploading: Uploading, error: PigeonholeError): void {
    if (!this.#all.includes(uploading)) {
      return;
    }
    if (error.code !== "gone" || uploadOf(uploading).media_id === undefined) {
      this.#fail(uploading, error);
    } else if (uploading.mayBeSent) {
      // The message was sent, or the announcement has expired. The reply to `send` tells which.
      this.#enter(uploading);
    } else {
      uploading.step = { is: "begin", at: NOW };
      this.#remember(uploading, undefined);
    }
  }

  // Put.

  #put(uploading: Uploading, [put]: Put[]): void {
    if (put) {
      this.#session.output({ do: "put", id: uploading.entry.queued.clientMsgId, put });
    }
  }

  /** Records the number of bytes of a PUT that have been sent. */
  progress(id: string, sent: number): void {
    const uploading = this.#find(id);
    const [put] = uploading?.step.is === "putting" ? uploading.step.puts : [];
    if (uploading && put) {
      const done = put.offset + Math.min(sent, put.bytes);
      this.#session.tell({ type: "uploading", clientMsgId: id, done, bytes: uploadOf(uploading).bytes });
    }
  }

  ended(id: string, end: PutEnd): void {
    const uploading = this.#find(id);
    if (uploading?.step.is !== "putting") {
      return;
    }
    if (end === "unreadable") {
      this.#fail(uploading, new PigeonholeError("file", "the file can't be read: it has changed, perhaps"));
    } else if (end !== "lost" && ((end >= 200 && end < 300) || end === 412)) {
      this.#wasPut(uploading, uploading.step.puts.slice(1), end);
    } else {
      this.#wasNotPut(uploading, end);
    }
  }

  #wasPut(uploading: Uploading, left: Put[], status: number): void {
    uploading.wasThere ||= status === 412;
    uploading.fails = 0;
    uploading.refused = 0;
    if (left.length > 0) {
      uploading.step = { is: "putting", puts: left };
      this.#put(uploading, left);
    } else if ((uploadOf(uploading).parts ?? []).length > 0) {
      // The reply had only some of the parts. The next request returns the others, if any.
      uploading.step = { is: "begin", at: NOW };
    } else {
      uploading.step = { is: "look" };
    }
  }

  #wasNotPut(uploading: Uploading, end: number | "lost"): void {
    const { now, timing } = this.#session;
    uploading.refused = end === 400 ? uploading.refused + 1 : 0;
    if (uploading.refused >= REFUSED_MAX) {
      this.#fail(uploading, new PigeonholeError("file", "the file is not what it was when it was announced"));
      return;
    }
    // The URL may have expired: the client requests another one.
    uploading.step = { is: "begin", at: now + this.#session.jitter(PUT_RETRY, timing.reconnectMax, uploading.fails) };
    uploading.fails += 1;
  }

  // Looked after.

  #look(uploading: Uploading): void {
    const { media_id = "" } = uploadOf(uploading);
    const request: Request = { action: "uploaded", media_id };
    uploading.step = { is: "looking", request };
    this.#session.requests.ask(request, {
      answered: (result) => {
        const readable = isUploadedResult(result);
        if (readable) {
          this.#enter(uploading);
        }
        return readable;
      },
      refused: (error, retryAfter = 0) => {
        if (error.code === "not_ready") {
          this.#notReady(uploading, retryAfter);
        } else {
          this.#refused(uploading, error);
        }
      },
      lost: () => {
        uploading.step = { is: "look" };
      },
    });
  }

  /** The object is missing or different. Only a new PUT, to other URLs, fixes this. */
  #notReady(uploading: Uploading, retryAfter: number): void {
    const pause = Math.min(Math.max(retryAfter, PUT_RETRY), PAUSE_MAX);
    uploading.step = { is: "begin", at: this.#session.now + pause };
    if (uploading.wasThere) {
      uploading.wasThere = false;
      this.#remember(uploading, undefined);
    }
  }

  // And what becomes of it.

  /** The file is complete: sends the message. */
  #enter(uploading: Uploading): void {
    if (this.#remove(uploading)) {
      this.#session.outbox.enter(uploading.entry, uploading.mayBeSent);
    }
  }

  /** Uploads from the start: the server did not store the message, and the announcement has expired. */
  anew(entry: Entry & { queued: QueuedMessage }): void {
    const unsent = { ...entry, underWay: false, ackedBefore: undefined, tries: 0 };
    this.add(unsent);
    const added = this.#all.at(-1);
    if (added) {
      added.mayBeSent = false;
      this.#remember(added, undefined);
    }
  }

  #fail(uploading: Uploading, error: PigeonholeError): void {
    if (this.#remove(uploading)) {
      this.#session.outbox.failed(uploading.entry, error);
    }
  }

  #remove(uploading: Uploading): boolean {
    const isThere = this.#all.includes(uploading);
    this.#all = this.#all.filter((other) => other !== uploading);
    return isThere;
  }

  /** Saves the server's id of the file; `undefined` if the client must announce the file again. */
  #remember(uploading: Uploading, mediaId: string | undefined): void {
    const { media_id, ...upload } = uploadOf(uploading);
    if (media_id === mediaId) {
      return;
    }
    const { queued } = uploading.entry;
    const media = mediaId === undefined ? upload : { ...upload, media_id: mediaId };
    uploading.entry.queued = { ...queued, media };
    uploading.mayBeSent = false;
    this.#session.save({
      uploading: { clientMsgId: queued.clientMsgId, ...(mediaId === undefined ? {} : { mediaId }) },
    });
  }
}

function uploadOf({ entry }: Uploading): Upload {
  return entry.queued.media as Upload;
}

function announcement({ target, media }: QueuedMessage): UploadRequest {
  const { source, kind, mime, bytes, sha256, parts = [], media_id } = media as Upload;
  if (media_id !== undefined) {
    return { action: "upload", media_id };
  }
  if ("copy_of" in source) {
    return { action: "upload", ...target, copy_of: source.copy_of };
  }
  return { action: "upload", ...target, kind, mime, bytes, sha256, ...(parts.length > 0 ? { parts } : {}) };
}
