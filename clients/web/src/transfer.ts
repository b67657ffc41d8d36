// Bytes over HTTP, to where the server's URLs point. Nothing is sent along but what those need: no cookies, no token.

/** Nothing moves for so long: the connection counts as dead. */
const STALL_MAX = 60_000;
/** The platform sets them itself. */
const OWN_HEADERS = ["content-length", "host"];

export interface Put {
  url: string;
  headers: Record<string, string>;
  bytes: Blob;
  signal: AbortSignal;
  /** How many bytes are sent. Not called where the platform doesn't tell. */
  progress: (sent: number) => void;
}

/** HTTP's status; 0: there was no answer. */
export function put(request: Put): Promise<number> {
  const headers = Object.entries(request.headers).filter(([name]) => !OWN_HEADERS.includes(name.toLowerCase()));
  // fetch says nothing of an upload until it is over.
  return typeof XMLHttpRequest === "undefined" ? putByFetch(request, headers) : putByXhr(request, headers);
}

async function putByFetch({ url, bytes, signal }: Put, headers: [string, string][]): Promise<number> {
  try {
    const options = { method: "PUT", headers, body: bytes, signal, credentials: "omit" } as const;
    const { status } = await fetch(url, { ...options, redirect: "error" });
    return status;
  } catch {
    return 0;
  }
}

function putByXhr({ url, bytes, signal, progress }: Put, headers: [string, string][]): Promise<number> {
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
    request.open("PUT", url);
    for (const [name, value] of headers) {
      request.setRequestHeader(name, value);
    }
    moved();
    request.send(bytes);
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
