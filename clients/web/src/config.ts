// Where to connect, as which user, and how long to wait for what.

import { PigeonholeError } from "./errors.ts";
import { limits } from "./frames.ts";
import type { Storage } from "./storage/storage.ts";
import { uuid } from "./uuid.ts";

/**
 * Why the app is asked for a token.
 *
 * - `connect`: for a new connection. A cached token will do.
 * - `unsure`: the last try failed, and browsers don't say whether because of the token. Give the cached token again as long
 *   as it is valid by its own `exp`: where the server is down, everybody is asked this, and an issuer must not fail with it.
 * - `refused`: the server refused the last token. Get a new one.
 * - `expired`: the last token has expired, or is about to. Get a new one.
 */
export type TokenNeed = "connect" | "unsure" | "refused" | "expired";

export interface Config {
  /** The WebSocket API, its stage included: `wss://….amazonaws.com/v1`. */
  url: string;
  /** The user that the tokens are for (their `sub`). */
  userId: string;
  /**
   * Asked for a token before each connection is opened. Where it is a JWT, its `exp` says when the connection has to be
   * replaced; nothing else in it is read.
   */
  token: (need: TokenNeed) => string | Promise<string>;
  /** 1 to 64 of `A-Za-z0-9_-`, one per installation. A random one for as long as this client lives, unless it is given. */
  deviceId?: string;
  /** Where the outbox and the marks are kept. In memory, unless another is given. */
  storage?: Storage;
  /** Opens a socket, where there is no global `WebSocket` or another is wanted. */
  webSocket?: OpenSocket;
  /** How long the client waits for what. */
  timing?: Partial<Timing>;
}

export type OpenSocket = (url: string, protocols: string[]) => Socket;

/** The part of `WebSocket` that is used. */
export interface Socket {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  send(text: string): void;
  close(): void;
}

/** Every time that the client waits for, in milliseconds. */
export interface Timing {
  /** A request without an answer is sent again after this, then after twice as long each time, up to eight times. */
  answerWait: number;
  /** The first retry after an error that may pass waits up to this, each further one up to twice the one before, and at most `answerWait`. */
  retryFirst: number;
  /** Nothing at all from the server for so long, while it owes an answer: the connection counts as dead. */
  silenceMax: number;
  /** How often the server is asked whether something is pending. API Gateway ends sockets that are idle for 10 min. */
  pingEvery: number;
  /** The least time between two acknowledgements, and between two reports of having read the same conversation. */
  ackEvery: number;
  /** How long a message that is out of turn waits for those before it, until `history` is asked for them. */
  gapWait: number;
  /** How long until it is asked again for what it did not have; each further time up to twice as long. */
  gapRetry: number;
  /** The first reconnect waits up to this, each further one up to twice the one before. */
  reconnectFirst: number;
  /** No reconnect waits longer, as long as the server is not overloaded. */
  reconnectMax: number;
  /**
   * No reconnect waits longer, after the server has answered 429 or 5xx, or after some failures in a row of which the
   * platform doesn't say why.
   */
  reconnectBusyMax: number;
  /** How long opening a connection may take, the token included. */
  dialWait: number;
  /** How long closing a connection may take. */
  closeWait: number;
  /** A connection is replaced when it is that old, or a minute before its token ends. API Gateway ends it at 2 h. */
  lifetime: number;
  /** Up to this much earlier, at random, so that devices that have connected at once don't do so again. */
  lifetimeJitter: number;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

export const defaultTiming: Readonly<Timing> = {
  answerWait: 5 * SECOND,
  retryFirst: 200,
  silenceMax: 15 * SECOND,
  pingEvery: 5 * MINUTE,
  ackEvery: SECOND,
  gapWait: 200,
  gapRetry: SECOND,
  reconnectFirst: 500,
  reconnectMax: 30 * SECOND,
  reconnectBusyMax: 5 * MINUTE,
  dialWait: 10 * SECOND,
  closeWait: SECOND,
  lifetime: 115 * MINUTE,
  lifetimeJitter: 55 * MINUTE,
};

/** The URL with the device id in it. */
export function address({ url, deviceId = uuid() }: Config): string {
  if (!/^wss?:\/\/[^/]/.test(url)) {
    throw new PigeonholeError("config", `${url} is no WebSocket address: it begins with wss:// and a host`);
  }
  if (!/^[A-Za-z0-9_-]+$/.test(deviceId) || deviceId.length > limits.DEVICE_ID_CHARS_MAX) {
    throw new PigeonholeError("config", "a device id is 1 to 64 of A-Z, a-z, 0-9, _ and -");
  }
  return `${url}${url.includes("?") ? "&" : "?"}device_id=${deviceId}`;
}
