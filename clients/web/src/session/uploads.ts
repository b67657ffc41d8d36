// Files that messages carry, on their way: announced, put, looked after. Then the message takes its place behind what was said meanwhile.

import { PigeonholeError } from "../errors.ts";
import { isUploadedResult, isUploadResult, type Request, type UploadRequest, type UploadResult } from "../frames.ts";
import type { QueuedMessage, Upload } from "../storage/storage.ts";
import type { Entry } from "./outbox.ts";
import type { Session } from "./session.ts";

/** Uploads under way at once. */
const UPLOADS_MAX = 2;
/** What is refused so often, in a row, are not the bytes that were announced. */
const REFUSED_MAX = 3;
/** The first pause after a PUT that failed is up to this, each further one up to twice the one before. */
const PUT_RETRY = 1000;
const PAUSE_MAX = 60_000;
const NOW = Number.NEGATIVE_INFINITY;

/** Bytes of a file that are to be put somewhere, with exactly these headers. */
export interface Put {
  file: Blob;
  offset: number;
  bytes: number;
  url: string;
  headers: Record<string, string>;
}

/** What came of it: HTTP's status; no answer, so that it may work later; or that the file can't be read, and never will be. */
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
  /** It was announced in an earlier run, so the message may have been sent, and its answer lost. */
  mayBeSent: boolean;
  /** Something was there before it was put. */
  wasThere: boolean;
  fails: number;
  refused: number;
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

  /** What may have been sent, and stands in no lane. */
  get unsure(): Entry[] {
    return this.#all.filter(({ mayBeSent }) => mayBeSent).map(({ entry }) => entry);
  }

  /** Whether that was in time: what it carries is not there yet. */
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

  /** This is where its bytes go. */
  #announced(uploading: Uploading, { media_id, url, headers = {}, parts = [] }: UploadResult): void {
    if (!this.#all.includes(uploading)) {
      return;
    }
    this.#remember(uploading, media_id);
    const { source, bytes } = uploadOf(uploading);
    if ("copy_of" in source) {
      // There is nothing to put.
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
      // It was sent, or has ended. The message says which.
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

  /** So many bytes of what is put have gone out. */
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
      // The answer had some of its parts. What is left, if anything is?
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
    // The URL may have ended: another one is asked for.
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

  /** It is not there, or is something else. Nothing of that can be mended but by other URLs. */
  #notReady(uploading: Uploading, retryAfter: number): void {
    const pause = Math.min(Math.max(retryAfter, PUT_RETRY), PAUSE_MAX);
    uploading.step = { is: "begin", at: this.#session.now + pause };
    if (uploading.wasThere) {
      uploading.wasThere = false;
      this.#remember(uploading, undefined);
    }
  }

  // And what becomes of it.

  /** All of it is there: the message is sent. */
  #enter(uploading: Uploading): void {
    if (this.#remove(uploading)) {
      this.#session.outbox.enter(uploading.entry, uploading.mayBeSent);
    }
  }

  /** The message was not sent, and what it carries has ended: from the beginning. */
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

  /** What the server calls it; `undefined`: it has to be announced anew. */
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
