// Requests over HTTP, for clients that have a socket too. An app without `overHttp` has nothing of it in its bundle.

import type { Config, Http, Timing, TokenNeed } from "./config.ts";
import { clock } from "./driver.ts";
import { parseFrame } from "./protocol.ts";
import type { LinkId } from "./session/core.ts";
import type { Session } from "./session/session.ts";
import { Dialer, type Link, type Listener } from "./socket.ts";

const ACTIONS = ["send", "edit", "delete", "react", "read", "ack", "drain", "inbox", "history", "profiles"];

/** After the first failure, all requests go by the socket for this time; after each further one, for twice as long. */
const REST_FIRST = 60_000;
const REST_MAX = 10 * REST_FIRST;

/** API Gateway waits 29 s for a function. */
const POST_MS_MAX = 30_000;

/**
 * Sends requests over HTTP while HTTP works, for a server whose `HttpApi` is on: `open({…, http: overHttp(url)})`. `url`
 * is the stack's `HttpUrl`. After a failure or 5 s without a reply, the client uses its socket for a minute, then two,
 * up to ten. Events come by the socket alone.
 */
export function overHttp(url: string, fetch: typeof globalThis.fetch = globalThis.fetch): Http {
  return { dialer: (config, deviceId, timing) => new HttpDialer(url, fetch, config, deviceId, timing) };
}

/** Decides which way a request goes, without I/O and clock. */
export class Ways {
  #restsUntil = 0;
  /** Failures since HTTP last worked. */
  #failures = 0;
  /** The ids of the requests whose last try went over HTTP, and has no reply. */
  #posted = new Set<string>();

  /** Returns whether this try of a request goes over HTTP. */
  takes(action: string, id: string, now: number): boolean {
    if (this.#posted.delete(id)) {
      // The session repeats it, after 5 s.
      this.#ended(false, now);
    }
    const takes = now >= this.#restsUntil && ACTIONS.includes(action);
    if (takes) {
      this.#posted.add(id);
    }
    return takes;
  }

  /** Gives the end of a POST to the session. `link` is the connection whose token it had. */
  posted(session: Session, link: LinkId, id: string, posted: Posted | undefined, now: number): void {
    const incoming = parseFrame(posted?.body ?? "");
    const isAnswer = incoming.is === "reply" || incoming.is === "error";
    this.#ended(isAnswer && (posted?.status ?? 0) < 500, now);
    const isAwaited = this.#posted.delete(id);
    session.now = now;
    if (incoming.is === "reply") {
      session.requests.answered(incoming.id, incoming.result);
    } else if (incoming.is !== "error") {
      if (isAwaited) {
        session.requests.retryNow(Number(id));
      }
    } else if (incoming.problem.code === "token_expired") {
      session.links.tokenExpired(link);
    } else {
      session.requests.refused(incoming.id, incoming.problem);
    }
    session.tick(now);
  }

  /** Requests that fail together count as one. */
  #ended(works: boolean, now: number): void {
    if (now < this.#restsUntil) {
      return;
    }
    if (!works) {
      this.#restsUntil = now + Math.min(REST_FIRST * 2 ** this.#failures, REST_MAX);
    }
    this.#failures = works ? 0 : this.#failures + 1;
  }
}

/** A response. */
interface Posted {
  status: number;
  body: string;
}

class HttpDialer extends Dialer {
  #ways = new Ways();
  #url: string;
  #fetch: typeof globalThis.fetch;
  #deviceId: string;
  /** The token of the last try to connect. */
  #last: { token: string };

  constructor(url: string, fetch: typeof globalThis.fetch, config: Config, deviceId: string, timing: Timing) {
    const last = { token: "" };
    const token = async (need: TokenNeed) => {
      last.token = await config.token(need);
      return last.token;
    };
    super({ ...config, token }, deviceId, timing);
    this.#url = url.replace(/\/$/, "");
    this.#fetch = fetch;
    this.#deviceId = deviceId;
    this.#last = last;
  }

  override dial(need: TokenNeed, listener: Listener): Link {
    let token = "";
    const opened = (tokenLeft: number | undefined) => {
      token = this.#last.token;
      listener.opened(tokenLeft);
    };
    const link = super.dial(need, { ...listener, opened });
    const send = link.send.bind(link);
    link.send = (frame) => {
      const { action, id } = JSON.parse(frame);
      if (this.isClosing || !this.#ways.takes(action, id, clock())) {
        send(frame);
        return;
      }
      this.#post(action, frame, token).then((posted) =>
        listener.posted((session, number, now) => this.#ways.posted(session, number, id, posted, now)),
      );
    };
    return link;
  }

  async #post(action: string, body: string, token: string): Promise<Posted | undefined> {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "x-device-id": this.#deviceId,
    };
    try {
      const request = { method: "POST", headers, body, signal: AbortSignal.timeout(POST_MS_MAX) };
      const response = await this.#fetch.call(globalThis, `${this.#url}/v1/${action}`, request);
      return { status: response.status, body: await response.text() };
    } catch {
      return undefined;
    }
  }
}
