// One connection: opened, listened to, closed.

import { address, type Config, type OpenSocket, type Socket, type Timing, type TokenNeed } from "./config.ts";
import { PigeonholeError } from "./errors.ts";
import type { Why } from "./events.ts";
import type { LinkId } from "./session/core.ts";
import type { Session } from "./session/session.ts";
import { subject, timeLeft } from "./token.ts";

/** The reports of a connection. After `failed` or `ended` none follows. */
export interface Listener {
  /** With the token's remaining lifetime in milliseconds, if the token contains its expiry. */
  opened(tokenLeft: number | undefined): void;
  failed(why: Why): void;
  frame(text: string): void;
  /** The end of a request over HTTP. */
  posted(take: TakePosted): void;
  ended(why: Why): void;
}

/** Gives what has come over HTTP to the session of this connection. */
export type TakePosted = (session: Session, link: LinkId, now: number) => void;

export class Dialer {
  /** The last requests leave by the socket, whose close waits for them. */
  isClosing?: boolean;
  #url: string;
  #userId: string;
  #token: Config["token"];
  #open: OpenSocket;
  #timing: Timing;
  /** The last try failed, and the platform gave no reason. */
  #unsure = false;

  constructor(config: Config, deviceId: string, timing: Timing) {
    this.#url = address(config, deviceId);
    this.#userId = config.userId;
    this.#token = config.token;
    this.#open = config.webSocket ?? globalSocket();
    this.#timing = timing;
  }

  /** Begins to open a connection. */
  dial(need: TokenNeed, listener: Listener): Link {
    const tried: Listener = {
      ...listener,
      opened: (tokenLeft) => {
        this.#unsure = false;
        listener.opened(tokenLeft);
      },
      failed: (why) => {
        this.#unsure = why.reason === "unreachable";
        listener.failed(why);
      },
    };
    const link = new Link(this.#timing, tried);
    this.#connect(need === "connect" && this.#unsure ? "unsure" : need, link);
    return link;
  }

  async #connect(need: TokenNeed, link: Link): Promise<void> {
    let token: string;
    try {
      token = await this.#token(need);
    } catch (error) {
      link.fail({ reason: "no_token", detail: String(error) });
      return;
    }
    // The platform's error would have the token in it, which ends up in logs.
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(token)) {
      link.fail({ reason: "no_token", detail: "it has characters that no token has, perhaps a line's end" });
      return;
    }
    const sub = subject(token);
    if (sub !== undefined && sub !== this.#userId) {
      const [whose, own] = [JSON.stringify(sub), JSON.stringify(this.#userId)];
      const detail = `the token is for the user ${whose} (its sub), and the client for ${own}: get a token for ${own}`;
      link.fail({ reason: "wrong_user", detail });
      return;
    }
    // Browsers can't set headers, so the token goes where every platform can put it.
    const open = () => this.#open(this.#url, ["pigeonhole.v1", `bearer.${token}`]);
    link.connect(open, () => timeLeft(token, Date.now()));
  }
}

export class Link {
  #timing: Timing;
  #listener: Listener;
  #socket: Socket | undefined;
  #isOpen = false;
  /** Closed by the client, or ended. */
  #isOver = false;
  #timer: ReturnType<typeof setTimeout>;
  /** The reason of the failure, if the platform gives one. */
  #detail = "";

  constructor(timing: Timing, listener: Listener) {
    this.#timing = timing;
    this.#listener = listener;
    const detail = `no answer within ${timing.dialWait} ms`;
    this.#timer = setTimeout(() => this.fail({ reason: "unreachable", detail }), timing.dialWait);
  }

  /** Reports that the socket has not opened and won't. */
  fail(why: Why): void {
    if (!this.#isOver) {
      this.#end();
      this.#listener.failed(why);
    }
  }

  connect(open: () => Socket, tokenLeft: () => number | undefined): void {
    if (this.#isOver) {
      return;
    }
    let socket: Socket;
    try {
      socket = open();
    } catch (error) {
      // The URL is invalid.
      this.fail({ reason: "unreachable", detail: String(error) });
      return;
    }
    this.#socket = socket;
    socket.onopen = () => {
      clearTimeout(this.#timer);
      this.#isOpen = true;
      this.#listener.opened(tokenLeft());
    };
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (typeof data === "string") {
        this.#listener.frame(data);
      }
    };
    socket.onerror = (event: { message?: unknown }) => {
      this.#detail = typeof event.message === "string" ? event.message : "";
      // Node's own sockets end with it: no close event follows a failed try.
      if (!this.#isOpen) {
        this.#closed(1006);
      }
    };
    socket.onclose = ({ code }: { code: number }) => this.#closed(code);
  }

  send(frame: string): void {
    // If it is not open any more, that is about to be reported.
    if (this.#isOpen && !this.#isOver) {
      this.#socket?.send(frame);
    }
  }

  /** Closes it, and takes the frames that still come before the server closes. Resolves once it is closed. */
  close(): Promise<void> {
    const socket = this.#socket;
    const wasOpen = this.#isOpen && !this.#isOver;
    this.#isOver = true;
    clearTimeout(this.#timer);
    if (!socket || !wasOpen) {
      this.#end();
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const end = () => {
        this.#end();
        resolve();
      };
      this.#timer = setTimeout(end, this.#timing.closeWait);
      socket.onclose = end;
      socket.close();
    });
  }

  #closed(code: number): void {
    if (this.#isOver) {
      return;
    }
    const { opened, why } = { opened: this.#isOpen, why: whyClosed(code, this.#detail) };
    this.#end();
    if (opened) {
      this.#listener.ended(why);
    } else {
      this.#listener.failed(whyNotOpened(this.#detail));
    }
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket) {
      socket.onopen = null;
      socket.onmessage = null;
      socket.onclose = null;
      // Some platforms throw an error event without a listener.
      socket.onerror = () => {};
      socket.close();
    }
  }
}

/** Returns the reason why an open connection has closed. Platforms report 1006 if the server sent no close frame. */
export function whyClosed(code: number, detail = ""): Why {
  return code === 1006 ? { reason: "lost", detail } : { reason: "closed", detail: `${code}` };
}

/**
 * Returns the reason why a socket did not open. Browsers give none; React Native and Node put the HTTP status into the
 * error's text.
 */
export function whyNotOpened(detail: string): Why {
  // Not any number: they also name the port.
  const status = Number(/(?:'|response: |server: |HTTP )([45]\d\d)\b/.exec(detail)?.[1]);
  if (status === 401 || status === 403) {
    return { reason: "token_refused", status, detail };
  }
  return status ? { reason: "refused", status, detail } : { reason: "unreachable", detail };
}

function globalSocket(): OpenSocket {
  if (typeof WebSocket !== "function") {
    throw new PigeonholeError("config", "there is no WebSocket here: give one as `webSocket`");
  }
  return (url, protocols) => new WebSocket(url, protocols);
}
