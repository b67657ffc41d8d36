// What the app asks for itself: pages of the chat list and of conversations, who is there, settings, and notifications.

import { PigeonholeError } from "../errors.ts";
import {
  type DeviceRequest,
  type HistoryRequest,
  type HistoryResult,
  type InboxRequest,
  type InboxResult,
  isDeviceResult,
  isHistoryResult,
  isPresenceResult,
  isSettingsResult,
  type Presence,
  type PresenceRequest,
  type SettingsRequest,
} from "../frames.ts";
import { checkSize, readInbox } from "../protocol.ts";
import type { Session, Waiter } from "./session.ts";

export type CallRequest = InboxRequest | HistoryRequest | PresenceRequest | SettingsRequest | DeviceRequest;
export type CallResult<R extends CallRequest> = R extends InboxRequest
  ? InboxResult
  : R extends HistoryRequest
    ? HistoryResult
    : R extends PresenceRequest
      ? Presence[]
      : undefined;

interface Call {
  request: CallRequest;
  waiter: Waiter<unknown>;
}

export class Calls {
  #session: Session;
  /** Asked once there is a connection. */
  #waiting: Call[] = [];
  /** What is being set: of which conversations and users, and of this device. */
  #setting = new Set<string>();

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
      // Two of them at once could be applied the other way round.
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
    if (request.action === "settings" && isSettingsResult(result)) {
      const { action: _, id: __, ...settings } = request;
      this.#session.tell({ type: "settings", settings });
      this.#session.answer(waiter, undefined);
      return;
    }
    if (request.action === "device" && isDeviceResult(result)) {
      this.#session.answer(waiter, undefined);
      return;
    }
    if (request.action === "presence" && isPresenceResult(result)) {
      this.#session.answer(waiter, result.users);
      return;
    }
    const page = request.action === "inbox" ? readInbox(result) : readHistory(result);
    if (page && (request.action === "inbox" || request.action === "history")) {
      this.#session.answer(waiter, page);
    } else {
      this.#session.refuse(waiter, new PigeonholeError("unreadable", "the server's answer can't be read"));
    }
  }
}

/** What a request sets something for; nothing for one that only asks. */
function subject(request: CallRequest): string {
  switch (request.action) {
    case "settings":
      return "user_id" in request ? `user ${request.user_id}` : `conversation ${request.conversation_id}`;
    case "device":
      return "device";
    case "inbox":
    case "history":
    case "presence":
      return "";
  }
}

function readHistory(result: unknown): HistoryResult | undefined {
  return isHistoryResult(result) ? result : undefined;
}
