// Bytes over HTTP, to where the server's URLs point. Nothing is sent along but what those need: no cookies, no token.

import type { Output, Put } from "./session/core.ts";
import type { PutEnd } from "./session/uploads.ts";

/** After this time without a byte, the connection counts as dead. */
const STALL_MAX = 60_000;
/** The platform sets them itself. */
const OWN_HEADERS = ["content-length", "host"];

export interface PutRequest {
  put: Put;
  signal: AbortSignal;
  /** Called with the number of sent bytes, if the platform reports it. */
  progress: (sent: number) => void;
}

/** Uploads the bytes and returns the result, once it is certain. */
export async function put(request: PutRequest): Promise<PutEnd> {
  const { file, offset, bytes, headers, sealed } = request.put;
  const sent = Object.entries(headers).filter(([name]) => !OWN_HEADERS.includes(name.toLowerCase()));
  const part = await (sealed?.() ?? file.slice(offset, offset + bytes));
  // `fetch` reports no progress of an upload.
  const way = typeof XMLHttpRequest === "undefined" ? putByFetch : putByXhr;
  // The platform throws for an invalid URL or header. No response comes then, either.
  const status = await way(request, part, sent).catch(() => 0);
  if (status > 0) {
    return status;
  }
  // The network, or the file?
  const isReadable = await part
    .slice(0, 1)
    .arrayBuffer()
    .then(
      () => true,
      () => false,
    );
  return isReadable ? "lost" : "unreadable";
}

/** Returns the HTTP status. @throws If no response comes. */
async function putByFetch({ put, signal }: PutRequest, body: Blob, headers: [string, string][]): Promise<number> {
  const options = { method: "PUT", headers, body, signal, credentials: "omit" } as const;
  const { status } = await fetch(put.url, { ...options, redirect: "error" });
  return status;
}

/** Returns the HTTP status; 0 if no response came. */
function putByXhr({ put, signal, progress }: PutRequest, body: Blob, headers: [string, string][]): Promise<number> {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const moved = () => {
      clearTimeout(timer);
      timer = setTimeout(() => request.abort(), STALL_MAX);
    };
    const abort = () => request.abort();
    const over = (status: number) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      resolve(status);
    };
    request.onload = () => over(request.status);
    request.onerror = () => over(0);
    request.onabort = () => over(0);
    request.upload.onprogress = ({ loaded }) => {
      moved();
      progress(loaded);
    };
    signal.addEventListener("abort", abort);
    request.open("PUT", put.url);
    for (const [name, value] of headers) {
      request.setRequestHeader(name, value);
    }
    moved();
    request.send(body);
  });
}

/** Carries a file of the encryption. Returns its bytes, none after a PUT. @throws If it was not carried. */
export async function carried(
  what: Extract<Output, { do: "carry" }>["what"],
  signal: AbortSignal,
): Promise<Uint8Array> {
  if ("put" in what) {
    const end = await put({ put: what.put, signal, progress: () => {} });
    // 412: an earlier try has put the bytes.
    if (typeof end === "number" && ((end >= 200 && end < 300) || end === 412)) {
      return new Uint8Array();
    }
  } else {
    const fetched = new Fetch(what.bytes);
    if ((await fetched.tryOnce(what.get, signal)) === "all") {
      return new Uint8Array(await fetched.bytes.arrayBuffer());
    }
  }
  throw new Error("the file was not carried");
}

/** The end of a try to fetch, with the reason if it broke. The received bytes are kept. */
export type FetchEnd = "all" | "url_ended" | { broken: string };

/** React Native's `fetch` resolves with the last byte, and reports nothing before. */
const HAS_STREAMS = typeof Response !== "undefined" && "body" in Response.prototype;

/** Bytes that are being fetched. */
export class Fetch {
  #length: number;
  #chunks: BlobPart[] = [];
  #done = 0;

  constructor(length: number) {
    this.#length = length;
  }

  get bytes(): Blob {
    return new Blob(this.#chunks);
  }

  /** Continues where the last try broke. @throws The reason with which `signal` was aborted. */
  async tryOnce(url: string, signal: AbortSignal | undefined): Promise<FetchEnd> {
    signal?.throwIfAborted();
    const own = new AbortController();
    const abort = () => own.abort();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const moved = () => {
      clearTimeout(timer);
      timer = HAS_STREAMS ? setTimeout(abort, STALL_MAX) : undefined;
    };
    signal?.addEventListener("abort", abort);
    moved();
    try {
      const headers: HeadersInit = this.#done > 0 ? { range: `bytes=${this.#done}-` } : {};
      const response = await fetch(url, { headers, credentials: "omit", redirect: "error", signal: own.signal });
      if (response.status === 403 || response.status === 404) {
        return "url_ended";
      }
      if (!response.ok) {
        return { broken: `HTTP ${response.status}` };
      }
      if (response.status !== 206) {
        // S3 returned the whole object instead of the requested range.
        this.#chunks = [];
        this.#done = 0;
      }
      await this.#read(response, moved);
      return this.#done < this.#length ? { broken: "it ends early" } : "all";
    } catch {
      signal?.throwIfAborted();
      return { broken: own.signal.aborted ? "nothing comes" : "no answer, or it broke off" };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      own.abort();
    }
  }

  async #read(response: Response, moved: () => void): Promise<void> {
    const reader = response.body?.getReader();
    if (!reader) {
      const all = await response.blob();
      this.#take(all, all.size);
      return;
    }
    // More than there should be is not read to its end.
    while (this.#done <= this.#length) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      moved();
      this.#take(value, value.length);
    }
  }

  #take(chunk: BlobPart, length: number): void {
    this.#chunks.push(chunk);
    this.#done += length;
  }
}
