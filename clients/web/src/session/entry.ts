// A request that waits in the outbox, and the reply to it.

import type { AddResult, LeaveResult, SendResult } from "../frames.ts";
import type { Queued } from "../saved.ts";
import type { Waiter } from "./waiter.ts";

/** The server's reply. The entry is absent if an addition found no new member, or if the user has left a channel. */
export type Stored = SendResult | AddResult | LeaveResult;

export interface Entry {
  /** The order over all send queues. */
  order: number;
  queued: Queued;
  waiter: Waiter<Stored> | undefined;
  underWay: boolean;
  /** The server's acknowledged mark when this was first sent; `undefined`: unknown, or not sent. */
  ackedBefore: number | undefined;
  tries: number;
  /** The server can carry out an earlier try until then. */
  runsUntil?: number;
  /** The app got the entry before the reply came. */
  told: boolean;
}
