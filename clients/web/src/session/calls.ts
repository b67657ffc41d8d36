// What the app asks for itself: pages of the chat list and of conversations.

import { PigeonholeError } from "../errors.ts";
import {
  type HistoryRequest,
  type HistoryResult,
  type InboxRequest,
  type InboxResult,
  isHistoryResult,
} from "../frames.ts";
import { checkSize, readInbox } from "../protocol.ts";
import type { Session, Waiter } from "./session.ts";

export type CallRequest = InboxRequest | HistoryRequest;
export type CallResult<R extends CallRequest> = R extends InboxRequest ? InboxResult : HistoryResult;

interface Call {
  request: CallRequest;
  waiter: Waiter<InboxResult & HistoryResult>;
}

export class Calls {
  #session: Session;
  /** Asked once there is a connection. */
  #waiting: Call[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  add<R extends CallRequest>(request: R, waiter: Waiter<CallResult<R>>): void {
    try {
      checkSize(request);
    } catch (error) {
      this.#session.refuse(waiter, error as PigeonholeError);
      return;
    }
    this.#waiting.push({ request, waiter: waiter as Call["waiter"] });
  }

  ask(): void {
    for (const call of this.#waiting.splice(0)) {
      const { request, waiter } = call;
      this.#session.requests.ask(request, {
        answered: (result) => {
          const page = request.action === "inbox" ? readInbox(result) : readHistory(result);
          if (page) {
            this.#session.answer(waiter, page as InboxResult & HistoryResult);
          } else {
            this.#session.refuse(waiter, new PigeonholeError("unreadable", "the server's answer can't be read"));
          }
          return true;
        },
        refused: (error) => this.#session.refuse(waiter, error),
        lost: () => this.#waiting.unshift(call),
      });
    }
  }
}

function readHistory(result: unknown): HistoryResult | undefined {
  return isHistoryResult(result) ? result : undefined;
}
