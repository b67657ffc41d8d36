// What the app asks for itself: pages of the chat list and of conversations.

import { PigeonholeError } from "../errors.ts";
import type { HistoryRequest, HistoryResult, InboxRequest, InboxResult } from "../frames.ts";
import { checkSize, isHistoryResult, isInboxResult } from "../protocol.ts";
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
      const isResult = request.action === "inbox" ? isInboxResult : isHistoryResult;
      this.#session.requests.ask(request, {
        answered: (result) => {
          if (isResult(result)) {
            this.#session.answer(waiter, result as InboxResult & HistoryResult);
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
