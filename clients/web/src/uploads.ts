// Messages whose bytes are on their way: put to where the server says, then looked at by the server, then handed to the outbox.
//
// Each goes on from where it is, after a lost connection and after a restart: what the server calls it is kept, and URLs are asked for
// again. A message takes its place in its conversation once its bytes are there, so a text may overtake it.

import { PigeonholeError } from "./errors.ts";
import type { Part, UploadResult } from "./frames.ts";
import type { CallRequest, CallResult } from "./session/calls.ts";
import type { Stored } from "./session/outbox.ts";
import type { QueuedMessage, Upload } from "./storage/storage.ts";
import { put } from "./transfer.ts";

/** More at once would only share the same network. */
const AT_ONCE_MAX = 2;
/** Where the server does not find what was put, or has no such upload any more, it is begun anew so often. */
const BEGINNINGS_MAX = 3;
/** So often it is asked whether the bytes are there, before they are put again. */
const LOOKS_MAX = 3;
/** An answer has no more of the parts that are missing. */
const PARTS_SHOWN_MAX = 8;
/** So often S3 may refuse what is put. */
const REFUSALS_MAX = 5;

/** What uploads need of the client. */
export interface UploadsClient {
  call<R extends CallRequest>(request: R): Promise<CallResult<R>>;
  /** Into the outbox, in the place of the upload. */
  queue(queued: QueuedMessage): Promise<{ stored: Promise<Stored> }>;
  keep(upload: Upload): Promise<void>;
  forget(clientMsgId: string): void;
  progress(clientMsgId: string, sent: number, bytes: number): void;
  failed(upload: Upload, error: PigeonholeError): void;
  /** How long what is not there yet is waited for, in milliseconds. */
  lookPause: number;
  /** How long to wait after so many failures in a row. */
  pause(failures: number): number;
}

interface Job {
  upload: Upload;
  end: AbortController;
  isRunning: boolean;
  resolve: (stored: Stored) => void;
  reject: (error: PigeonholeError) => void;
  beginnings: number;
  looks: number;
  refusals: number;
}

/** HTTP's status of what could not be put; 0: there was no answer. */
class NotPut extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the bytes were not taken: ${status}`);
    this.status = status;
  }
}

export class Uploads {
  #client: UploadsClient;
  /** In the order in which they were made. */
  #jobs = new Map<string, Job>();
  #wake = new Set<() => void>();

  constructor(client: UploadsClient) {
    this.#client = client;
  }

  get all(): Upload[] {
    return [...this.#jobs.values()].map(({ upload }) => upload);
  }

  /** What it gives resolves once the message is stored. */
  add(upload: Upload): Promise<Stored> {
    const stored = new Promise<Stored>((resolve, reject) => {
      const counts = { beginnings: 0, looks: 0, refusals: 0 };
      const job = { upload, end: new AbortController(), isRunning: false, resolve, reject, ...counts };
      this.#jobs.set(upload.clientMsgId, job);
    });
    // The app may ignore it.
    stored.catch(() => {});
    this.#next();
    return stored;
  }

  /** Whether that was in time. */
  cancel(clientMsgId: string): boolean {
    const job = this.#jobs.get(clientMsgId);
    if (job) {
      this.#jobs.delete(clientMsgId);
      this.#failed(job, new PigeonholeError("cancelled", "the upload was cancelled"));
      job.end.abort();
      this.#next();
    }
    return job !== undefined;
  }

  /** What waits to be tried again is tried now. */
  wake(): void {
    for (const wake of this.#wake) {
      wake();
    }
  }

  /** What is on its way stays in the storage. */
  close(): void {
    const jobs = [...this.#jobs.values()];
    this.#jobs.clear();
    for (const job of jobs) {
      job.reject(new PigeonholeError("closed", "the client is closed"));
      job.end.abort();
    }
  }

  #next(): void {
    const jobs = [...this.#jobs.values()];
    const room = AT_ONCE_MAX - jobs.filter(({ isRunning }) => isRunning).length;
    for (const job of jobs.filter(({ isRunning }) => !isRunning).slice(0, Math.max(room, 0))) {
      job.isRunning = true;
      this.#run(job).finally(() => this.#next());
    }
  }

  async #run(job: Job): Promise<void> {
    try {
      const mediaId = await this.#upload(job);
      this.#jobs.delete(job.upload.clientMsgId);
      const { stored } = await this.#client.queue(messageOf(job.upload, mediaId));
      stored.then(job.resolve, job.reject);
    } catch (error) {
      // One that was cancelled, or whose client was closed, is over already.
      if (!job.end.signal.aborted) {
        this.#jobs.delete(job.upload.clientMsgId);
        this.#failed(job, asError(error));
      }
    }
  }

  #failed({ upload, reject }: Job, error: PigeonholeError): void {
    this.#client.forget(upload.clientMsgId);
    reject(error);
    this.#client.failed(upload, error);
  }

  /** Until the bytes are there, however long there is no connection. Gives what the server calls them. */
  async #upload(job: Job): Promise<string> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#try(job);
      } catch (error) {
        job.end.signal.throwIfAborted();
        await this.#sleep(job, this.#afterwards(job, error, failures));
      }
    }
  }

  /** How long to wait until the next try. Throws what is final. */
  #afterwards(job: Job, error: unknown, failures: number): number {
    if (error instanceof NotPut) {
      // Without an answer, or where the URL is too old, it is put again.
      const isRefused = error.status >= 400 && error.status < 500 && error.status !== 403 && error.status !== 408;
      job.refusals += Number(isRefused);
      if (job.refusals >= REFUSALS_MAX) {
        throw new PigeonholeError("transfer", error.message);
      }
      return this.#client.pause(failures);
    }
    const { code } = asError(error);
    if (code === "not_ready" && job.looks < LOOKS_MAX) {
      job.looks += 1;
      return this.#client.lookPause;
    }
    const isAnew = (code === "not_ready" || code === "gone") && job.upload.mediaId !== undefined;
    if (!isAnew || job.beginnings >= BEGINNINGS_MAX) {
      throw error;
    }
    job.beginnings += 1;
    job.looks = 0;
    const { mediaId: _, ...upload } = job.upload;
    job.upload = upload;
    return this.#client.lookPause;
  }

  async #try(job: Job): Promise<string> {
    for (;;) {
      const place = await this.#place(job);
      if (place.parts) {
        await this.#putParts(job, place.parts);
        // There may be more of them than one answer has.
        continue;
      }
      if (place.url !== undefined) {
        await this.#put(job, { url: place.url, headers: place.headers ?? {} }, 0, job.upload.media.bytes);
      }
      if (!job.upload.copyOf) {
        await this.#call(job, { action: "uploaded", media_id: place.media_id });
      }
      this.#progress(job, job.upload.media.bytes);
      return place.media_id;
    }
  }

  /** Where to put what is not there yet. */
  async #place(job: Job): Promise<UploadResult> {
    const { mediaId, target, kind, media, parts, copyOf } = job.upload;
    if (mediaId !== undefined && copyOf === undefined) {
      return this.#call(job, { action: "upload", media_id: mediaId });
    }
    const { mime, bytes, sha256 } = media;
    const announced = copyOf ? { copy_of: copyOf } : { kind, mime, bytes, sha256, ...(parts ? { parts } : {}) };
    const place = await this.#call(job, { action: "upload", ...target, ...announced });
    job.upload = { ...job.upload, mediaId: place.media_id };
    // If it can't be written, a restart begins anew.
    await this.#client.keep(job.upload).catch(() => {});
    job.end.signal.throwIfAborted();
    return place;
  }

  async #putParts(job: Job, parts: Part[]): Promise<void> {
    let done = doneBefore(parts, job.upload.media.bytes);
    for (const part of parts) {
      await this.#put(job, part, part.offset, part.bytes, done);
      done += part.bytes;
    }
  }

  async #put(
    job: Job,
    { url, headers }: Pick<Part, "url" | "headers">,
    offset: number,
    bytes: number,
    done = 0,
  ): Promise<void> {
    const { signal } = job.end;
    const part = (job.upload.blob ?? new Blob()).slice(offset, offset + bytes);
    this.#progress(job, done);
    const status = await put({
      url,
      headers,
      bytes: part,
      signal,
      progress: (sent) => this.#progress(job, done + sent),
    });
    signal.throwIfAborted();
    // 412: it is there already.
    if (status !== 412 && (status < 200 || status >= 300)) {
      throw new NotPut(status);
    }
  }

  #progress({ upload }: Job, sent: number): void {
    const { bytes } = upload.media;
    this.#client.progress(upload.clientMsgId, Math.min(sent, bytes), bytes);
  }

  /** Over when the job is. */
  #call<R extends CallRequest>({ end: { signal } }: Job, request: R): Promise<CallResult<R>> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      signal.throwIfAborted();
      signal.addEventListener("abort", abort, { once: true });
      const ended = () => signal.removeEventListener("abort", abort);
      this.#client.call(request).then(resolve, reject).finally(ended);
    });
  }

  #sleep({ end: { signal } }: Job, ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = () => {
        clearTimeout(timer);
        this.#wake.delete(over);
        signal.removeEventListener("abort", over);
        signal.aborted ? reject(signal.reason) : resolve();
      };
      const timer = setTimeout(over, ms);
      this.#wake.add(over);
      signal.addEventListener("abort", over);
    });
  }
}

/** Of what is uploaded in parts, of which some are missing. All behind an answer that is full may be missing, too. */
function doneBefore(missing: Part[], bytes: number): number {
  const last = missing.at(-1);
  const isFull = missing.length >= PARTS_SHOWN_MAX;
  const behind = isFull && last ? bytes - last.offset - last.bytes : 0;
  return bytes - behind - missing.reduce((sum, part) => sum + part.bytes, 0);
}

function messageOf({ clientMsgId, target, kind, body, replyTo, mentions, media }: Upload, id: string): QueuedMessage {
  return {
    clientMsgId,
    target,
    kind,
    body,
    ...(replyTo === undefined ? {} : { replyTo }),
    ...(mentions === undefined ? {} : { mentions }),
    media: { media_id: id, ...media },
  };
}

function asError(error: unknown): PigeonholeError {
  return error instanceof PigeonholeError ? error : new PigeonholeError("transfer", String(error), { cause: error });
}
