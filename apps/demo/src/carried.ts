// Media of messages, as far as this page has fetched or sent them.

import type { MessageItem, Upload } from "@pigeonhole/client";

/** More than these are forgotten, those first that were fetched first. */
const KEPT_MAX = 100;

/** The bytes that a message which is not stored carries, if they are here. */
export function fileOf({ upload }: MessageItem): Blob | undefined {
  return upload && "file" in upload.source ? upload.source.file : undefined;
}

export class Carried {
  #download: (message: MessageItem) => Promise<Blob>;
  /** URLs of the page's own, by digest: what was sent from here need not be fetched. */
  #urls = new Map<string, Promise<string>>();

  constructor(download: (message: MessageItem) => Promise<Blob>) {
    this.#download = download;
  }

  /** An address for `img`, `audio` and downloads. */
  urlOf(message: MessageItem): Promise<string> {
    const digest = message.media?.sha256 ?? "";
    const known = this.#urls.get(digest);
    if (known) {
      return known;
    }
    const url = this.#download(message).then((blob) => URL.createObjectURL(blob));
    this.#keep(digest, url);
    // The next one may find it.
    url.catch(() => this.#urls.delete(digest));
    return url;
  }

  /** Returns a URL for an upload of this page. */
  urlOfOwn({ sha256, kind }: Pick<Upload, "sha256" | "kind">, file: Blob): Promise<string> {
    const known = this.#urls.get(sha256);
    if (known) {
      return known;
    }
    // A page must not become one of this origin, not even the user's own file.
    const bytes = kind === "file" ? new Blob([file], { type: "application/octet-stream" }) : file;
    const url = Promise.resolve(URL.createObjectURL(bytes));
    this.#keep(sha256, url);
    return url;
  }

  /** Returns the URL if the file is here already. */
  known(digest: string): Promise<string> | undefined {
    return this.#urls.get(digest);
  }

  /** Deleted, it is not kept here either. */
  forget(digest: string): void {
    const url = this.#urls.get(digest);
    this.#urls.delete(digest);
    url?.then((url) => URL.revokeObjectURL(url)).catch(() => {});
  }

  #keep(digest: string, url: Promise<string>): void {
    this.#urls.set(digest, url);
    const [oldest] = this.#urls.keys();
    if (this.#urls.size > KEPT_MAX && oldest !== undefined) {
      this.forget(oldest);
    }
  }
}
