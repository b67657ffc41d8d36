// Bytes over HTTP, to where the server's URLs point. Nothing is sent along but what those need: no cookies, no token.

import type { Put, PutEnd } from "./session/uploads.ts";

/** Nothing moves for so long: the connection counts as dead. */
const STALL_MAX = 60_000;
/** The platform sets them itself. */
const OWN_HEADERS = ["content-length", "host"];

export interface PutRequest {
  put: Put;
  signal: AbortSignal;
  /** How many bytes are sent. Not called where the platform doesn't tell. */
  progress: (sent: number) => void;
}

/** What came of it, once that is certain. */
export async function put(request: PutRequest): Promise<PutEnd> {
  const { file, offset, bytes, headers } = request.put;
  const sent = Object.entries(headers).filter(([name]) => !OWN_HEADERS.includes(name.toLowerCase()));
  const part = file.slice(offset, offset + bytes);
  // fetch says nothing of an upload until it is over.
  const way = typeof XMLHttpRequest === "undefined" ? putByFetch : putByXhr;
  const status = await way(request, part, sent);
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

/** HTTP's status; 0: there was no answer. */
async function putByFetch({ put, signal }: PutRequest, body: Blob, headers: [string, string][]): Promise<number> {
  try {
    const options = { method: "PUT", headers, body, signal, credentials: "omit" } as const;
    const { status } = await fetch(put.url, { ...options, redirect: "error" });
    return status;
  } catch {
    return 0;
  }
}

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

/** `undefined`: there was no answer, or it broke off. */
export async function get(url: string, signal: AbortSignal | undefined): Promise<Response | undefined> {
  try {
    return await fetch(url, { credentials: "omit", redirect: "error", ...(signal ? { signal } : {}) });
  } catch {
    return undefined;
  }
}
