// One message without a socket: for a reply from a notification or a share extension, whose process lives for seconds.

import { PigeonholeError, type PigeonholeErrorCode } from "./errors.ts";
import type { SendRequest, SendResult } from "./frames.ts";

const TRIES_MAX = 3;
const ANSWER_MS_MAX = 5_000;
const WAIT_MS = 300;

/** A message as the protocol's `send` takes it. `kind` is `text` if left out. */
export type OnceMessage = ({ to: string } | { conversation_id: string }) &
  Pick<SendRequest, "client_msg_id" | "body" | "data" | "reply_to" | "mentions"> & { kind?: string };

/**
 * Sends a message over HTTP, to a server whose `HttpApi` is on. `url` is the stack's `HttpUrl`. A repeated call with the
 * same `client_msg_id` is the same message. The app's other clients get the message as an event.
 *
 * @throws {PigeonholeError} With the server's code; `unavailable` without a reply after 3 tries. The message may be
 * stored then, so give the same `client_msg_id` to the next try, or to the client's `send`.
 */
export async function sendOnce(
  { url, token, fetch = globalThis.fetch }: { url: string; token: string; fetch?: typeof globalThis.fetch },
  message: OnceMessage,
): Promise<SendResult> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ kind: "text", ...message });
  for (let tries = 1; ; tries++) {
    const answer = await post(fetch, `${url.replace(/\/$/, "")}/v1/send`, { method: "POST", headers, body });
    if ("result" in answer) {
      return answer.result;
    }
    if (tries === TRIES_MAX || !answer.retryable) {
      throw new PigeonholeError(answer.code, answer.message);
    }
    await new Promise((waited) => setTimeout(waited, Math.max(answer.retry_after_ms ?? 0, WAIT_MS * tries)));
  }
}

type Answer =
  | { result: SendResult }
  | { code: PigeonholeErrorCode; message: string; retryable: boolean; retry_after_ms?: number };

async function post(fetch: typeof globalThis.fetch, url: string, request: RequestInit): Promise<Answer> {
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    const text = await response.text();
    return frameOf(text) ?? ofGateway(response.status, text);
  } catch (error) {
    return { code: "unavailable", message: String(error), retryable: true };
  }
}

function frameOf(text: string): Answer | undefined {
  try {
    const frame = JSON.parse(text);
    return frame.type === "reply" ? { result: frame.result } : frame.type === "error" ? frame.error : undefined;
  } catch {
    return undefined;
  }
}

/** A reply without a frame is API Gateway's. */
function ofGateway(status: number, text: string): Answer {
  const message = `HTTP ${status}: ${text}`;
  if (status === 401 || status === 403) {
    return { code: status === 401 ? "token_expired" : "forbidden", message, retryable: false };
  }
  return { code: "unavailable", message, retryable: status === 429 || status >= 500 };
}
