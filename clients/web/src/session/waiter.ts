// Requests of the app and of its views that have a reply.

import type { PigeonholeError } from "../errors.ts";
import type { Request, Results } from "../frames.ts";

export type CallRequest = Extract<Request, { action: keyof Results }>;
export type CallResult<R extends CallRequest> = Results[R["action"]];

/** Called with the reply. */
export interface Waiter<T> {
  /** A view of the session waits, and gets the reply within the turn. */
  isOfView?: true;
  resolve(answer: T): void;
  reject(error: PigeonholeError): void;
}
