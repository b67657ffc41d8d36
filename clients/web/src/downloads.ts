// Downloads of attachments: requests the URLs of several files together, fetches the bytes and checks them.

import { PigeonholeError } from "./errors.ts";
import { type Download, type DownloadResult, limits, type Media, type Message } from "./frames.ts";
import { clearOf, digestsOf, safeType } from "./media.ts";
import { Fetch } from "./transfer.ts";

const TRIES_MAX = 5;

interface Waiting {
  resolve: (download: Download) => void;
  reject: (error: unknown) => void;
}

export class Downloads {
  #call: (ids: string[]) => Promise<DownloadResult>;
  #wanted = new Map<string, Waiting[]>();

  constructor(call: (ids: string[]) => Promise<DownloadResult>) {
    this.#call = call;
  }

  /** @throws `gone`, `file`, or a code of the protocol. */
  async download(message: Pick<Message, "kind" | "media">, signal: AbortSignal | undefined): Promise<Blob> {
    const { kind } = message;
    const media = clearOf(message.media);
    if (!media) {
      throw new PigeonholeError("gone", "the message carries nothing");
    }
    const fetched = new Fetch(media.bytes);
    const place = () => unless(signal, this.#place(media.media_id));
    let { url } = await place();
    for (let tries = 1; ; tries += 1) {
      const end = await fetched.tryOnce(url, signal);
      if (end === "all") {
        break;
      }
      if (tries === TRIES_MAX) {
        const why = end === "url_ended" ? "they are not where the server says" : end.broken;
        throw new PigeonholeError("file", `the bytes can't be fetched: ${why}`);
      }
      // A URL was too old, perhaps. If the next one is no better, it is not scanned yet.
      await unless(signal, pause(end === "url_ended" ? tries - 1 : tries));
      if (end === "url_ended") {
        ({ url } = await place());
      }
    }
    const { bytes } = fetched;
    await check(bytes, media);
    return new Blob([bytes], { type: safeType(kind, media) });
  }

  /** Requests the URL, together with all others that are wanted now. */
  #place(id: string): Promise<Download> {
    return new Promise((resolve, reject) => {
      if (this.#wanted.size === 0) {
        setTimeout(() => this.#ask());
      }
      this.#wanted.set(id, [...(this.#wanted.get(id) ?? []), { resolve, reject }]);
    });
  }

  #ask(): void {
    const wanted = [...this.#wanted];
    this.#wanted.clear();
    for (let at = 0; at < wanted.length; at += limits.DOWNLOADS_MAX) {
      this.#askFor(new Map(wanted.slice(at, at + limits.DOWNLOADS_MAX)));
    }
  }

  async #askFor(wanted: Map<string, Waiting[]>): Promise<void> {
    try {
      const { items } = await this.#call([...wanted.keys()]);
      const found = new Map(items.map((item) => [item.media_id, item]));
      for (const [id, all] of wanted) {
        const item = found.get(id);
        for (const { resolve, reject } of all) {
          item ? resolve(item) : reject(new PigeonholeError("gone", "what the message carried is deleted"));
        }
      }
    } catch (error) {
      for (const { reject } of [...wanted.values()].flat()) {
        reject(error);
      }
    }
  }
}

/** Waits for the promise, or until the signal aborts. @throws The signal's reason, immediately. */
function unless<T>(signal: AbortSignal | undefined, wait: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal?.reason);
    if (signal?.aborted) {
      abort();
    }
    signal?.addEventListener("abort", abort);
    wait.then(resolve, reject).finally(() => signal?.removeEventListener("abort", abort));
  });
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}

async function check(bytes: Blob, { bytes: length, sha256 }: Media): Promise<void> {
  if (bytes.size !== length || (await digestsOf(bytes)).sha256 !== sha256) {
    throw new PigeonholeError("file", "other bytes have come than the message says");
  }
}
