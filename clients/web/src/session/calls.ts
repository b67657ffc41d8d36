// Questions of the app: pages of lists and of conversations, settings, notifications, presence.

import { PigeonholeError } from "../errors.ts";
import {
  type HistoryRequest,
  isChannelsResult,
  isHistoryResult,
  isInboxResult,
  isReceiptsResult,
  isResult,
  type Results,
} from "../frames.ts";
import { checkRequest, readChannels, readHistory, readInbox, type Side } from "../protocol.ts";
import type { Core } from "./core.ts";
import type { Outbox } from "./outbox.ts";
import type { Presences } from "./presence.ts";
import type { Requests } from "./requests.ts";
import type { CallRequest, CallResult, Waiter } from "./waiter.ts";

interface Call {
  request: CallRequest;
  waiter: Waiter<unknown>;
}

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly outbox: Outbox;
  readonly presences: Presences;
}

export class Calls {
  #session: Session;
  /** Calls that wait for a connection. */
  #waiting: Call[] = [];
  /** The conversations, users and this device, for which a setting is on its way. */
  #setting = new Set<string>();

  constructor(session: Session) {
    this.#session = session;
  }

  add<R extends CallRequest>(request: R, waiter: Waiter<CallResult<R>>): void {
    try {
      checkRequest(request);
    } catch (error) {
      this.#session.refuse(waiter, error as PigeonholeError);
      return;
    }
    this.#waiting.push({ request, waiter: waiter as Call["waiter"] });
  }

  ask(): void {
    for (const call of this.#waiting.splice(0)) {
      // The server could apply two concurrent settings in the wrong order.
      if (this.#setting.has(subject(call.request))) {
        this.#waiting.push(call);
      } else {
        this.#ask(call);
      }
    }
  }

  #ask(call: Call): void {
    const { request, waiter } = call;
    const ended = () => this.#setting.delete(subject(request));
    if (subject(request)) {
      this.#setting.add(subject(request));
    }
    this.#session.requests.ask(request, {
      answered: (result) => {
        ended();
        this.#answered(call, result);
        return true;
      },
      refused: (error) => {
        ended();
        this.#session.refuse(waiter, error);
      },
      lost: () => {
        ended();
        this.#waiting.unshift(call);
      },
    });
  }

  #answered({ request, waiter }: Call, result: unknown): void {
    const answer = read(request.action, result);
    if (answer === undefined) {
      this.#session.refuse(waiter, new PigeonholeError("unreadable", "the server's answer can't be read"));
      return;
    }
    if (request.action === "inbox" && isInboxResult(answer)) {
      this.#session.outbox.rememberRows(answer.conversations);
      for (const row of answer.conversations) {
        this.#session.store({ row });
      }
    }
    if (request.action === "channels" && isChannelsResult(answer)) {
      for (const row of answer.conversations) {
        this.#session.store({ row });
      }
    }
    if (request.action === "history" && isHistoryResult(answer)) {
      const { conversation_id } = request;
      this.#session.store({ page: { conversation_id, side: sideOf(request), page: answer } });
    }
    if (request.action === "receipts" && isReceiptsResult(answer)) {
      this.#session.store({ marks: { conversation_id: request.conversation_id, members: answer.members } });
    }
    if (request.action === "presence") {
      this.#session.presences.answered(request);
    }
    if (request.action === "profile") {
      this.#session.views.ownNameChanged();
    }
    if (request.action === "settings") {
      const { action: _, id: __, ...settings } = request;
      this.#session.settings(settings);
    }
    this.#session.answer(waiter, answer);
  }
}

function sideOf({ before_seq, after_seq }: HistoryRequest): Side {
  if (before_seq !== undefined) {
    return { before_seq };
  }
  return after_seq === undefined ? {} : { after_seq };
}

/** The result, with those of its rows and entries that can be read; `undefined`: it can't be read. */
function read(action: keyof Results, result: unknown): object | undefined {
  switch (action) {
    case "inbox":
      return readInbox(result);
    case "history":
      return readHistory(result);
    case "channels":
      return readChannels(result);
    default:
      // The others have neither.
      return isResult[action](result) ? result : undefined;
  }
}

/** Returns the subject of a setting; an empty string for a request that sets nothing. */
function subject(request: CallRequest): string {
  switch (request.action) {
    case "settings":
      return "user_id" in request ? `user ${request.user_id}` : `conversation ${request.conversation_id}`;
    case "device":
      return "device";
    default:
      // These requests set nothing.
      return "";
  }
}
