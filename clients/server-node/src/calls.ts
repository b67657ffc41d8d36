import type { ErrorCode } from "./types.ts";

/** A request of the function `admin`, or of `/v1/services/{op}`. */
export type Call = { op: string } & Record<string, unknown>;

/** The server refused the request. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  readonly code: ErrorCode;
  /** With `rejected`: the filter's reason, for a user. */
  readonly reason: string | undefined;

  constructor({ code, message, reason }: Problem) {
    super(`${code}: ${message}`);
    this.code = code;
    this.reason = reason;
  }
}

/** Why the server refused a request. */
export interface Problem {
  code: ErrorCode;
  message: string;
  reason?: string;
  retry_after_ms?: number;
}

/** The reply to a call. */
export type Answer = { result: unknown } | { error: Problem };

/** Carries a call to the server. */
export type Transport = (call: Call) => Promise<Answer>;

/** The part of the AWS SDK's `Lambda` that {@link byLambda} uses. */
export interface LambdaClient {
  invoke(input: {
    FunctionName: string;
    Payload: Uint8Array;
  }): Promise<{ FunctionError?: string | undefined; Payload?: Uint8Array | undefined }>;
}

/** Codes whose request may succeed later, unchanged. */
const RETRYABLE = ["conflict", "unavailable", "rate_limited", "not_ready"];
const TRIES_MAX = 5;
const WAIT_MS = 200;
const WAIT_MS_MAX = 10_000;
/** Longer than API Gateway waits for a function. */
const HTTP_MS_MAX = 35_000;

/** Calls the function `admin`. `functionName` is the stack's output `AdminFunctionName`. */
export function byLambda(client: LambdaClient, functionName: string): Transport {
  return async (call) => {
    const Payload = new TextEncoder().encode(JSON.stringify(call));
    const reply = await client.invoke({ FunctionName: functionName, Payload });
    const text = new TextDecoder().decode(reply.Payload);
    return reply.FunctionError === undefined
      ? (JSON.parse(text) as Answer)
      : { error: { code: "unavailable", message: `the function failed: ${text}` } };
  };
}

/**
 * Calls `POST {url}/v1/services/{op}` from outside AWS. `token` is called for each try, and returns a JWT whose `sub` is
 * the service.
 */
export function overHttp({ url, token }: { url: string; token: () => string | Promise<string> }): Transport {
  return async ({ op, as: _, ...fields }) => {
    const headers = { authorization: `Bearer ${await token()}`, "content-type": "application/json" };
    const request = { method: "POST", headers, body: JSON.stringify(fields), signal: AbortSignal.timeout(HTTP_MS_MAX) };
    try {
      const response = await fetch(`${url.replace(/\/$/, "")}/v1/services/${op}`, request);
      return answerOf(response.status, await response.text());
    } catch (error) {
      return { error: { code: "unavailable", message: String(error) } };
    }
  };
}

/** API Gateway's own replies have neither a result nor an error. */
function answerOf(status: number, text: string): Answer {
  try {
    const body = JSON.parse(text);
    if (body !== null && typeof body === "object" && ("result" in body || typeof body.error === "object")) {
      return body;
    }
  } catch {
    // No JSON, so API Gateway wrote it.
  }
  const codes: Record<number, string> = { 401: "token_expired", 403: "forbidden", 404: "unknown_action" };
  const code = codes[status] ?? (status === 429 ? "rate_limited" : "unavailable");
  return { error: { code, message: `HTTP ${status}: ${text}` } };
}

/** Returns the result of a call. A call that may succeed later is repeated up to 4 times. */
export async function result(transport: Transport, call: Call): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const answer = await transport(call);
    if ("result" in answer) {
      return answer.result;
    }
    const { error } = answer;
    if (tries === TRIES_MAX || !RETRYABLE.includes(error.code)) {
      throw new RefusedError(error);
    }
    const wait = Math.max(error.retry_after_ms ?? 0, WAIT_MS * 2 ** (tries - 1) * (0.5 + Math.random() / 2));
    if (wait > WAIT_MS_MAX) {
      throw new RefusedError(error);
    }
    await new Promise((waited) => setTimeout(waited, wait));
  }
}
