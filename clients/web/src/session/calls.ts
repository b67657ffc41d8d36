// What the app asks for itself: pages of the chat list and of conversations, who is there, who is in a group and how far they have
// come, channels and to join one, where bytes come from, settings, and notifications.

import { PigeonholeError } from "../errors.ts";
import {
  type ChannelsRequest,
  type ChannelsResult,
  type DeviceRequest,
  type DownloadRequest,
  type DownloadResult,
  type HistoryRequest,
  type HistoryResult,
  type InboxRequest,
  type InboxResult,
  isDeviceResult,
  isDownloadResult,
  isJoinResult,
  isMembersResult,
  isPresenceResult,
  isReactionsResult,
  isReceiptsResult,
  isSettingsResult,
  type JoinRequest,
  type JoinResult,
  type MembersRequest,
  type MembersResult,
  type Presence,
  type PresenceRequest,
  type ReactionsRequest,
  type ReactionsResult,
  type ReceiptsRequest,
  type ReceiptsResult,
  type SettingsRequest,
} from "../frames.ts";
import { checkRequest, readChannels, readHistory, readInbox } from "../protocol.ts";
import type { Session, Waiter } from "./session.ts";

/** What each of them is answered with. */
interface Results {
  inbox: InboxResult;
  history: HistoryResult;
  presence: Presence[];
  members: MembersResult;
  receipts: ReceiptsResult;
  reactions: ReactionsResult;
  join: JoinResult;
  channels: ChannelsResult;
  download: DownloadResult;
  settings: undefined;
  device: undefined;
}

export type CallRequest =
  | InboxRequest
  | HistoryRequest
  | PresenceRequest
  | MembersRequest
  | ReceiptsRequest
  | ReactionsRequest
  | JoinRequest
  | ChannelsRequest
  | DownloadRequest
  | SettingsRequest
  | DeviceRequest;
export type CallResult<R extends CallRequest> = Results[R["action"]];

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
      checkRequest(request);
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
    const answer = read(request, result);
    if (answer === undefined) {
      this.#session.refuse(waiter, new PigeonholeError("unreadable", "the server's answer can't be read"));
      return;
    }
    if (request.action === "inbox") {
      this.#session.outbox.rememberRows((answer.is as InboxResult).conversations);
    }
    if (request.action === "settings") {
      const { action: _, id: __, ...settings } = request;
      this.#session.tell({ type: "settings", settings });
    }
    this.#session.answer(waiter, answer.is);
  }
}

/** What the app is answered; `undefined`: it can't be read. */
function read({ action }: CallRequest, result: unknown): { is: unknown } | undefined {
  switch (action) {
    case "inbox":
      return found(readInbox(result));
    case "presence":
      return isPresenceResult(result) ? { is: result.users } : undefined;
    case "settings":
      return isSettingsResult(result) ? { is: undefined } : undefined;
    case "device":
      return isDeviceResult(result) ? { is: undefined } : undefined;
    case "history":
      return found(readHistory(result));
    case "members":
      return isMembersResult(result) ? { is: result } : undefined;
    case "receipts":
      return isReceiptsResult(result) ? { is: result } : undefined;
    case "reactions":
      return isReactionsResult(result) ? { is: result } : undefined;
    case "join":
      return isJoinResult(result) ? { is: result } : undefined;
    case "channels":
      return found(readChannels(result));
    case "download":
      return isDownloadResult(result) ? { is: result } : undefined;
  }
}

/** What a request sets something for; nothing for one that only asks. */
function subject(request: CallRequest): string {
  switch (request.action) {
    case "settings":
      return "user_id" in request ? `user ${request.user_id}` : `conversation ${request.conversation_id}`;
    case "device":
      return "device";
    default:
      // These only ask.
      return "";
  }
}

function found(page: object | undefined): { is: unknown } | undefined {
  return page && { is: page };
}
