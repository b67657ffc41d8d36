// Where to connect, as which user, and how long to wait for what.

import { PigeonholeError } from "./errors.ts";
import { limits, type Message } from "./frames.ts";
import type { SealedFile } from "./saved.ts";
import type { Storage } from "./store/database.ts";

/**
 * The reason why the client requests a token from the app.
 *
 * - `connect`: for a new connection. A cached token is enough.
 * - `unsure`: the last try failed, and browsers don't tell whether because of the token. Return the cached token again
 *   while its own `exp` allows. If the server is down, every client gets this reason, and an issuer must not fail with
 *   the server.
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
   * Returns a token; called before the client opens each connection. If the token is a JWT, the client reads two
   * claims. The client replaces the connection before `exp`. `sub` must be `userId`; otherwise the client does not use
   * the token, and the state `offline` has `wrong_user`.
   */
  token: (need: TokenNeed) => string | Promise<string>;
  /** 1 to 64 of `A-Za-z0-9_-`, different for each installation. Default: a random id, which the storage keeps. */
  deviceId?: string;
  /** The storage of the messages and the outbox. Default: for `open` IndexedDB, if the platform has one; or memory. */
  storage?: Storage;
  /** Opens a socket, if the platform has no global `WebSocket` or the app wants another one. */
  webSocket?: OpenSocket;
  /** How long the client waits for what. */
  timing?: Partial<Timing>;
  /** Sends requests over HTTP, which cost less, while HTTP works: `overHttp(url)`. */
  http?: Http;
  /**
   * The end-to-end encryption of direct conversations and groups, from `@pigeonhole/client/sealed`. With it, a message
   * to a user or to an encrypted group leaves encrypted or not at all. Other groups, channels and services stay as they
   * are. Only `open` can have it.
   */
  encrypted?: Encryption;
}

/** Requests over HTTP, from `overHttp`. */
export interface Http {
  /** Returns a `Dialer` whose connections send requests over HTTP. @internal */
  dialer(config: Config, deviceId: string, timing: Timing): unknown;
}

type Carrier = Pick<Message, "kind" | "media">;

/** The maker of a session with encryption: `Keys`. */
export interface Encryption {
  /** Returns a session for these options. @internal */
  session(options: never, deviceId: string): unknown;
  /** Makes a key for a file. @internal */
  sealFile(file: Blob): Promise<SealedFile>;
  /** Opens the file of a message, which `download` fetches. @internal */
  openFile(message: Carrier, download: (message: Carrier) => Promise<Blob>): Promise<Blob>;
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
  /**
   * The client repeats a request without a reply after this time, then after twice as long each time, up to eight times
   * as long.
   */
  answerWait: number;
  /**
   * The first retry after a temporary error waits up to this time, each further retry up to twice the previous one, and
   * at most `answerWait`.
   */
  retryFirst: number;
  /**
   * While a reply is outstanding and the server sends no frame for this time, the client treats the connection as dead.
   */
  silenceMax: number;
  /**
   * The interval of pings, which return whether messages are pending. API Gateway closes sockets that are idle for 10
   * min.
   */
  pingEvery: number;
  /** The least time between two acknowledgements, and between two reports of having read the same conversation. */
  ackEvery: number;
  /** The time that a message with a gap before it waits until the client requests `history`. */
  gapWait: number;
  /** The time until the client repeats a request for missing entries; each further wait is up to twice as long. */
  gapRetry: number;
  /** The first reconnect waits up to this, each further one up to twice the one before. */
  reconnectFirst: number;
  /** No reconnect waits longer, as long as the server is not overloaded. */
  reconnectMax: number;
  /**
   * The longest wait before a reconnect after the server has replied 429 or 5xx. The limit also applies after several
   * failures in a row without a reason from the platform.
   */
  reconnectBusyMax: number;
  /** How long opening a connection may take, the token included. */
  dialWait: number;
  /** How long closing a connection may take. */
  closeWait: number;
  /** A connection is replaced when it is that old, or a minute before its token ends. API Gateway ends it at 2 h. */
  lifetime: number;
  /**
   * The client closes a connection up to this much earlier, at random, so that devices that connected together
   * reconnect apart.
   */
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
export function address({ url }: Config, deviceId: string): string {
  if (!/^wss?:\/\/[^/]/.test(url)) {
    throw new PigeonholeError("config", `${url} is no WebSocket address: it begins with wss:// and a host`);
  }
  if (!/^[A-Za-z0-9_-]+$/.test(deviceId) || deviceId.length > limits.DEVICE_ID_CHARS_MAX) {
    throw new PigeonholeError("config", "a device id is 1 to 64 of A-Z, a-z, 0-9, _ and -");
  }
  return `${url}${url.includes("?") ? "&" : "?"}device_id=${deviceId}`;
}
