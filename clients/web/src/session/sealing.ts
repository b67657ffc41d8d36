// The end-to-end encryption of direct conversations and groups: a session whose requests leave sealed.
//
// The keyring makes all decisions, as in the Rust client. The session passes it the entries of the log in order, sends
// its requests, and writes its rows with everything else of the turn. Only an app with encryption loads this module.

import type { Lock } from "../chat/row.ts";
import { PigeonholeError } from "../errors.ts";
import { type Notice, type State, type Unreadable, type UnreadableMessage, whyUnreadable } from "../events.ts";
import { sealedBytes, sealedPart } from "../files.ts";
import {
  type Conversation,
  type HistoryResult,
  isDownloadResult,
  isInboxResult,
  isPingResult,
  isUploadedResult,
  isUploadResult,
  limits,
  type Message,
  type Problem,
  type Opened as Proof,
  type Request,
} from "../frames.ts";
import { directConversationId } from "../made-ids.ts";
import {
  isChange,
  isChannel,
  isGroup,
  isService,
  kindOf,
  readHistory,
  requestFor,
  requestFrame,
  turnOf,
} from "../protocol.ts";
import type { Queued, QueuedMessage, StorageChange, StoringRequest } from "../saved.ts";
import type { Found, Load, LoadId, Write } from "../store/types.ts";
import type { LinkId, Output, Step } from "./core.ts";
import type { Envelope, Keyring, Opened, PartFetch, PartUpload, Party, Sealed } from "./keyring.ts";
import { ownEntry } from "./outbox.ts";
import { type Asker, Requests } from "./requests.ts";
import { Session, type SessionOptions } from "./session.ts";
import type { CallRequest, CallResult, Waiter } from "./waiter.ts";

/** A call of the app to the keyring, in the form of a request. */
export interface SecurityCall {
  action: "security";
  /** One field, by the name of the call. */
  call: Record<string, object>;
}

/** A request of the outbox with something that only the members may read. */
type Content = Extract<StoringRequest, { action: "send" | "edit" | "react" }>;
/** A change of a group's members, which can need a commit. */
type Roll = Extract<StoringRequest, { action: "add" | "remove" }>;
type Upload = Extract<Request, { action: "upload" }>;
type Create = Extract<StoringRequest, { action: "create" }>;

type Report = Extract<CallRequest, { action: "report" }>;

/** Where a request goes. */
type Place = { to?: string | undefined } | { conversation_id?: string | undefined };

/** A request that has not left yet. */
interface Waiting {
  request: Content | Roll | Upload | Create;
  asker: Asker;
  lostUntil: number;
}

/** A sealed request whose place in the log has not come. The outbox keeps its text until then. */
interface Own {
  party: Party;
  request: Content;
  sealed: Sealed;
  /** The app has its entry, at this `seq`. */
  toldAt: number | undefined;
  /** The server has it. */
  isDone: boolean;
}

/** After a refusal, the rows of groups are requested again this many milliseconds later. */
const ROWS_AGAIN_MS = 2000;

/** Reads by the session have numbers from here on, and those of views lower ones. */
const FIRST_LOAD = 2 ** 50;

export class SealedSession extends Session {
  override readonly requests: SealedRequests;
  #keyring: Keyring;
  /** The rows of the keyring, as the store has them. */
  #rows: Map<string, string>;
  #link: LinkId | undefined;
  /** Requests of the keyring whose connection ended before the reply. */
  #again: [key: unknown, request: Request][] = [];
  #waiting: Waiting[] = [];
  #own = new Map<string, Own>();
  /** The other users of direct conversations. */
  #peers = new Map<string, string>();
  /** The groups whose row is known, with the epoch of an encrypted one. */
  #groups = new Map<string, number | undefined>();
  /** The groups of which the user is no member, by the server's chat list. */
  #left = new Set<string>();
  #areRowsAsked = false;
  /** The server has refused the rows until then. */
  #rowsAt = 0;
  /** The outcomes of the entries that the session passes the app next. */
  #opened = new Map<Message, Opened>();
  /** The continuation of each file that is under way. */
  #carries = new Map<number, (data: Uint8Array | undefined) => void>();
  #lastCarry = 0;
  /** Conversations whose next entry the keyring can't judge yet. */
  #unjudged = new Set<string>();
  /** Conversations in which the keyring has taken less than the app has passed. */
  #behind = new Set<string>();
  #opening = new Set<string>();
  /** The ids of messages to which requests refer, once the store was read, by conversation and `seq`. */
  #targets = new Map<string, string | undefined>();
  #loads = new Map<LoadId, string>();
  #lastLoad = FIRST_LOAD;
  /** Reports whose proofs are read, and those that can leave. */
  #proving = new Map<LoadId, { report: Report; waiter: Waiter<never> }>();
  #reports: { report: Report; waiter: Waiter<never>; proofs: Proof[] }[] = [];
  /** The features of the server. `undefined` until its first answer. */
  #features: readonly string[] | undefined;
  /** The store's rows have come. */
  #hasRows = false;
  /** How these conversations are encrypted, until the keyring changes. */
  #locks = new Map<string, Lock>();

  constructor(options: SessionOptions, keyring: Keyring) {
    super(options);
    this.#keyring = keyring;
    this.#rows = new Map(options.saved.sealing);
    this.requests = new SealedRequests(this);
    // The stored rows have the peers of conversations, and the encrypted groups.
    this.#load("", { load: "start" });
  }

  // Turns.

  override takeStep(): Step {
    const link = this.links.current();
    if (link !== undefined) {
      if (link !== this.#link) {
        this.#keyring.connected();
        this.#findBehind();
        this.#askFeatures();
      }
      this.#sendWaiting();
      this.#askDue();
      this.#sendReports();
    }
    this.#link = link;
    for (const [conversation, seq] of this.#keyring.due()) {
      this.#endsAt(conversation, seq);
    }
    const changes = this.#keyring.takeChanges();
    if (changes.length > 0) {
      this.#locks.clear();
    }
    for (const [key, value] of changes) {
      // The keyring names a row that it touched. The same row again would be one more turn, and that one another.
      if (this.#rows.get(key) !== (value ?? undefined)) {
        this.mustLast();
        this.store({ sealing: { key, value: value ?? undefined } });
        this.#remember(key, value);
      }
    }
    this.views.lock((of) => this.#lockOf(of));
    this.showViews();
    return super.takeStep();
  }

  #lockOf(of: string): Lock {
    const known = this.#locks.get(of);
    const lock = known ?? (isChannel(of) ? "plain" : this.#readLock(of));
    this.#locks.set(of, lock);
    return lock;
  }

  #readLock(of: string): Lock {
    const lock = this.#keyring.security("lock", { with: partyOf(of) }) as Lock;
    const hasBegun = (this.#groups.get(of) ?? 0) > 0;
    return hasBegun && lock === "sealed" && this.#keyring.position(of) === undefined ? "joining" : lock;
  }

  #remember(key: string, value: string | null): void {
    if (value === null) {
      this.#rows.delete(key);
    } else {
      this.#rows.set(key, value);
    }
  }

  override nextTick(): number {
    const wakeAt = this.#keyring.wakeAt();
    const wake = wakeAt === undefined ? Number.POSITIVE_INFINITY : this.now + Math.max(wakeAt - this.#nowMs, 0);
    const rows = this.now < this.#rowsAt ? this.#rowsAt : Number.POSITIVE_INFINITY;
    return this.links.current() === undefined ? super.nextTick() : Math.min(super.nextTick(), wake, rows);
  }

  override call<R extends CallRequest>(request: R, waiter: Waiter<CallResult<R>>, now: number): void {
    if (request.action === "report" && this.#readsProofs(request, waiter as Waiter<never>)) {
      return;
    }
    const { action, call } = request as unknown as SecurityCall;
    if (action !== "security") {
      super.call(request, waiter, now);
      return;
    }
    for (const [name, fields] of Object.entries(call)) {
      const answer = this.#keyring.security(name, { ...fields, now: this.#nowMs });
      this.answer(waiter, answer as CallResult<R>);
    }
  }

  /** Reads the proofs of the messages of a report. Returns `false` if it leaves as it is. */
  #readsProofs(report: Report, waiter: Waiter<never>): boolean {
    const { conversation_id, seqs = [], opened } = report;
    if (conversation_id === undefined || seqs.length === 0 || opened || !seqs.every(Number.isSafeInteger)) {
      return false;
    }
    this.#lastLoad += 1;
    this.#proving.set(this.#lastLoad, { report, waiter });
    this.output({ do: "load", load: this.#lastLoad, what: { load: "proofs", conversation_id, seqs } });
    return true;
  }

  /** Sends the reports whose proofs were read, once the server has said whether it checks them. */
  #sendReports(): void {
    if (!this.#features) {
      return;
    }
    for (const { report, waiter, proofs } of this.#reports.splice(0)) {
      const checks = this.#features.includes("encryption.report");
      const resolve = (answer: never) => this.answer(waiter, answer);
      const reject = (error: PigeonholeError) => {
        // The refusal can be of the proofs: a server has none of an erased message.
        if (error.code === "gone" || error.code === "bad_request") {
          this.calls.add(report, waiter);
        } else {
          this.refuse(waiter, error);
        }
      };
      if (checks && proofs.length > 0) {
        super.call(withProofs(report, proofs), { isOfView: true, resolve, reject }, this.now);
      } else {
        super.call(report, waiter, this.now);
      }
    }
  }

  override received(link: LinkId, text: string, now: number): void {
    super.received(link, text, now);
    if (text.includes('"keys.low"')) {
      const { type, left } = JSON.parse(text) as { type?: unknown; left?: unknown };
      if (type === "keys.low" && typeof left === "number") {
        this.#keyring.keysLow(left);
      }
    }
  }

  get #nowMs(): number {
    return Date.parse(this.wall);
  }

  #tellAll(notices: Notice[]): void {
    for (const notice of notices) {
      this.tell({ type: "security", notice });
    }
  }

  override tellState(state: State): void {
    if (state.state === "caught_up") {
      this.#keyring.caughtUp(this.#nowMs);
    }
    super.tellState(state);
  }

  // Requests.

  /** Asks what the server has switched on. No message is sealed before the first answer. */
  #askFeatures(): void {
    this.requests.askClear(
      { action: "ping", features: true },
      {
        answered: (result) => {
          const isRead = isPingResult(result);
          if (isRead) {
            this.#features = result.features ?? [];
            this.#keyring.franking(this.#features.includes("encryption.report"));
          }
          return isRead;
        },
        refused: () => {},
        // The next connection asks again.
        lost: () => {},
      },
    );
  }

  /** Begins to carry the files that the keyring needs: the parts of commits without room in a frame. */
  #carryDue(): void {
    for (const upload of this.#keyring.uploads(this.#nowMs)) {
      this.#announce(upload);
    }
    for (const fetch of this.#keyring.fetches(this.#nowMs)) {
      this.#locate(fetch);
    }
  }

  #carry(what: Extract<Output, { do: "carry" }>["what"], then: (data: Uint8Array | undefined) => void): void {
    this.#lastCarry += 1;
    this.#carries.set(this.#lastCarry, then);
    this.output({ do: "carry", carry: this.#lastCarry, what });
  }

  override carriedFile(carry: number, data: Uint8Array | undefined): void {
    const then = this.#carries.get(carry);
    this.#carries.delete(carry);
    then?.(data);
  }

  #announce(upload: PartUpload): void {
    const { conversation, data, sha256 } = upload;
    const ended = (mediaId?: string) => {
      this.#keyring.uploaded(upload, mediaId, this.#nowMs);
      this.#showWaiting();
    };
    const complete = (media_id: string) =>
      this.#askFor({ action: "uploaded", media_id }, isUploadedResult, (result) => ended(result && media_id));
    const request = { action: "upload", conversation_id: conversation, kind: "sealed", sha256 } as const;
    this.#askFor({ ...request, bytes: data.length }, isUploadResult, (place) => {
      const { media_id, url, headers = {} } = place ?? {};
      if (media_id === undefined || url === undefined) {
        ended();
        return;
      }
      const put = { file: new Blob([data]), offset: 0, bytes: data.length, url, headers };
      // Without a connection, the upload is announced again on the next one.
      this.#carry({ put }, (done) => (done && this.links.current() !== undefined ? complete(media_id) : ended()));
    });
  }

  #locate(fetch: PartFetch): void {
    const ended = (data?: Uint8Array) => {
      this.#keyring.fetched(fetch, data, this.#nowMs);
      this.#showWaiting();
    };
    this.#askFor({ action: "download", media_ids: [fetch.media] }, isDownloadResult, (located) => {
      const url = located?.items[0]?.url;
      if (url === undefined) {
        ended();
      } else {
        this.#carry({ get: url, bytes: fetch.bytes }, ended);
      }
    });
  }

  /** Asks once. `undefined`: refused, or lost with its connection. */
  #askFor<R>(request: Request, is: (value: unknown) => value is R, then: (result: R | undefined) => void): void {
    const failed = () => then(undefined);
    const answered = (result: unknown) => {
      if (!is(result)) {
        return false;
      }
      then(result);
      return true;
    };
    this.requests.askClear(request, { answered, refused: failed, lost: failed });
  }

  #askDue(): void {
    this.#carryDue();
    for (const [key, request] of [...this.#again.splice(0), ...this.#keyring.requests(this.#nowMs)]) {
      this.requests.askClear(request, {
        answered: (result) => {
          this.#answered(key, { result });
          return true;
        },
        refused: (error) => this.#answered(key, { problem: this.requests.problemOf(error) }),
        lost: () => this.#again.push([key, request]),
      });
    }
    for (const id of this.#behind) {
      this.#openRest(id);
    }
    this.#behind.clear();
  }

  #answered(key: unknown, reply: { result: unknown } | { problem: Problem }): void {
    const { notices, entry } = this.#keyring.answered(key, reply, this.#nowMs);
    this.#tellAll(notices);
    if (entry) {
      this.conversations.arrived(entry, false);
    }
    this.#findBehind();
    this.#showWaiting();
  }

  /** Shows the entries that waited for the keyring. */
  #showWaiting(): void {
    const waiting = [...this.#unjudged];
    this.#unjudged.clear();
    for (const id of waiting) {
      this.#show(id);
    }
  }

  /** Takes a request that can need the keyring. Returns `false` if it leaves as it is. */
  hold(request: Request, asker: Asker, lostUntil: number): boolean {
    if (!needsKeys(request) || (request.action !== "create" && this.#readerOf(this.#placeOf(request)) === "all")) {
      return false;
    }
    this.#waiting.push({ request, asker, lostUntil });
    return true;
  }

  /** Returns where a request goes. An upload that goes on names its file alone. */
  #placeOf(request: Content | Roll | Upload): Place {
    return request.action === "upload" ? (this.#fileOf(request)?.target ?? {}) : request;
  }

  /** Returns the message of an upload. */
  #fileOf(request: Upload): QueuedMessage | undefined {
    const { media_id, sha256, copy_of } = request as { media_id?: string; sha256?: string; copy_of?: object };
    const isIt = ({ media }: QueuedMessage) =>
      media_id === undefined
        ? media?.sha256 === sha256 || (media && "copy_of" in media.source && media.source.copy_of === copy_of)
        : media?.media_id === media_id;
    return this.outbox.waiting().find((queued): queued is QueuedMessage => "body" in queued && isIt(queued) === true);
  }

  /** Returns who alone may read what goes there. `undefined`: not known yet. */
  #readerOf(request: Place): Party | "all" | undefined {
    const id = "conversation_id" in request ? request.conversation_id : undefined;
    if (id !== undefined && isGroup(id)) {
      return this.#readLock(id) === "plain" ? (this.#groups.has(id) ? "all" : undefined) : { conversation: id };
    }
    if (id !== undefined && isChannel(id)) {
      return "all";
    }
    const peer = "to" in request && request.to !== undefined ? request.to : this.#peers.get(id ?? "");
    if (peer === undefined) {
      return undefined;
    }
    this.#meet(directConversationId(this.me, peer), peer);
    // A service has no keys.
    return isService(peer) ? "all" : { user: peer };
  }

  /** The server has created a group. The device of its owner begins the encryption. */
  created(result: unknown, isEncrypted: boolean): void {
    const { conversation_id: conversation } = result as { conversation_id?: string };
    if (conversation !== undefined) {
      this.#knowGroup(conversation, isEncrypted ? 0 : undefined);
      if (isEncrypted) {
        this.#keyring.prepare({ conversation }, this.#nowMs);
      }
    }
  }

  #knowGroup(id: string, epoch: number | undefined): void {
    this.#left.delete(id);
    this.#groups.set(id, epoch ?? this.#groups.get(id));
    this.#locks.delete(id);
    if (epoch !== undefined) {
      this.#keyring.created(id);
    }
  }

  /** Another server would create a group in the clear. */
  #create(waiting: Waiting, request: Create): void {
    if (this.#features === undefined) {
      this.#waiting.push(waiting);
    } else if (this.#features.includes("encryption.groups")) {
      this.requests.askToCreate(request, waiting.asker, waiting.lostUntil);
    } else {
      waiting.asker.refused(new PigeonholeError("forbidden", "the server has no encrypted groups"));
    }
  }

  #sendWaiting(): void {
    for (const waiting of this.#waiting.splice(0)) {
      const { request, asker, lostUntil } = waiting;
      if (request.action === "create") {
        this.#create(waiting, request);
        continue;
      }
      const place = this.#placeOf(request);
      const reader = this.#readerOf(place);
      if (reader === undefined && this.#hasLeft(place)) {
        asker.refused(new PigeonholeError("not_member", "the user has left the group"));
      } else if (reader === undefined) {
        this.#waiting.push(waiting);
        if ("conversation_id" in place && isGroup(place.conversation_id ?? "") && this.#hasRows) {
          this.#askRows();
        }
      } else if (reader === "all") {
        this.requests.askClear(request, asker, lostUntil);
      } else if (request.action === "upload") {
        this.#sendFile(waiting, request);
      } else if (isRoll(request)) {
        this.#sendRoll(waiting, request);
      } else {
        this.#sendContent(reader, waiting, request);
      }
    }
  }

  /** Requests the chat list up to its end: the row of a group says whether it is encrypted. */
  #askRows(cursor?: string): void {
    if (this.#areRowsAsked || this.now < this.#rowsAt) {
      return;
    }
    this.#areRowsAsked = true;
    const ended = (wait = 0) => {
      this.#areRowsAsked = false;
      this.#rowsAt = this.now + wait;
    };
    const from = cursor === undefined ? {} : { cursor };
    this.requests.askClear(
      { action: "inbox", limit: limits.INBOX_LIMIT_MAX, ...from },
      {
        answered: (result) => {
          ended();
          const { conversations = [], next_cursor = null } = isInboxResult(result) ? result : {};
          for (const row of conversations) {
            this.store({ row });
          }
          const isMissing = ({ request }: Waiting) => {
            const place = request.action === "create" ? undefined : this.#placeOf(request);
            return place && this.#readerOf(place) === undefined && !this.#hasLeft(place);
          };
          if (next_cursor !== null && this.#waiting.some(isMissing)) {
            this.#askRows(next_cursor);
          } else {
            this.#endRows();
          }
          return true;
        },
        refused: () => ended(ROWS_AGAIN_MS),
        lost: () => ended(),
      },
    );
  }

  /** The chat list has no row of these groups, so the user is no member. Nothing leaves in the clear. */
  #endRows(): void {
    for (const { request } of this.#waiting) {
      const place = request.action === "create" ? {} : this.#placeOf(request);
      const id = "conversation_id" in place ? (place.conversation_id ?? "") : "";
      if (isGroup(id) && this.#readerOf(place) === undefined) {
        this.#left.add(id);
      }
    }
  }

  #hasLeft(place: Place): boolean {
    return "conversation_id" in place && this.#left.has(place.conversation_id ?? "");
  }

  /** Announces the ciphertext of a file. */
  #sendFile({ asker, lostUntil }: Waiting, request: Upload): void {
    const queued = this.#fileOf(request);
    const media: (QueuedMessage["media"] & { key?: string }) | undefined = queued?.media;
    const { sealed, bytes = 0 } = media ?? {};
    if (!queued || (!sealed && media?.key === undefined)) {
      asker.refused(new PigeonholeError("encryption_required", "the file has no key: send it again"));
      return;
    }
    if (!sealed || "media_id" in request) {
      this.requests.askClear(request, asker, lostUntil);
      return;
    }
    const { sha256, parts = [] } = sealed;
    const announced = { kind: "sealed", bytes: sealedBytes(bytes), sha256, ...(parts.length > 0 ? { parts } : {}) };
    this.requests.askClear({ action: "upload", ...queued.target, ...announced } as Upload, asker, lostUntil);
  }

  /** Replaces the bytes of a file by its ciphertext, in an encrypted conversation. */
  override output(output: Output): void {
    if (output.do !== "put") {
      super.output(output);
      return;
    }
    const queued = this.outbox.waiting().find(({ clientMsgId }) => clientMsgId === output.id);
    const { target, media } = (queued ?? {}) as Partial<QueuedMessage>;
    const { put } = output;
    if (!target || !media?.sealed || this.#readerOf(target) === "all") {
      super.output(output);
      return;
    }
    const { key } = media.sealed;
    // The whole file, or a part of the ciphertext.
    const bytes = put.bytes === media.bytes ? sealedBytes(media.bytes) : put.bytes;
    const sealed = () => sealedPart(put.file, key, put.offset, bytes);
    super.output({ ...output, put: { ...put, sealed } });
  }

  #sendContent(party: Party, waiting: Waiting, asked: Content): void {
    const queued = this.outbox.waiting().find(({ clientMsgId }) => clientMsgId === asked.client_msg_id);
    const request = withKey(asked, queued);
    const sealed = this.#seal(party, request);
    if (sealed === undefined) {
      this.#waiting.push(waiting);
    } else if (sealed instanceof PigeonholeError) {
      waiting.asker.refused(sealed);
    } else {
      this.#send(party, waiting, request, sealed);
    }
  }

  /** Returns the bytes that leave, always the same. `undefined`: not now. */
  #seal(party: Party, request: Content): Sealed | PigeonholeError | undefined {
    const { client_msg_id } = request;
    const known = this.#keyring.sealed(party, client_msg_id);
    if (known || !this.#features) {
      return known;
    }
    if (request.action === "send" && request.media && !("key" in request.media)) {
      return new PigeonholeError("encryption_required", "the file has no key: send it again");
    }
    const readiness = this.#keyring.prepare(party, this.#nowMs);
    if (typeof readiness === "object" && "refused" in readiness) {
      return new PigeonholeError(readiness.refused as "no_keys", "the message can't be encrypted");
    }
    const envelope = readiness === "ready" ? this.#envelope(party, request) : undefined;
    try {
      return envelope && this.#keyring.seal(party, client_msg_id, envelope);
    } catch (cause) {
      return new PigeonholeError("too_large", "the message can't be encrypted", { cause });
    }
  }

  #send(party: Party, waiting: Waiting, request: Content, sealed: Sealed): void {
    const { asker, lostUntil } = waiting;
    const { client_msg_id } = request;
    const { epoch, body, silent, media_id, frank } = sealed;
    const own: Own = { party, request, sealed, toldAt: undefined, isDone: false };
    this.#own.set(client_msg_id, own);
    const target = "to" in request ? { to: request.to } : { conversation_id: request.conversation_id };
    const media = media_id === undefined ? {} : { media: { media_id } };
    const proof = frank === undefined ? {} : { frank };
    const bytes = { kind: "sealed", epoch, body, ...(silent ? { silent } : {}), ...media, ...proof } as const;
    this.requests.askClear(
      { action: "send", ...target, client_msg_id, ...bytes },
      {
        answered: (result) => {
          const isRead = asker.answered(result);
          const { conversation_id, seq } = result as { conversation_id: string; seq: number };
          if (isRead && this.conversations.shown(conversation_id) >= seq) {
            // An earlier run told it.
            this.#told(client_msg_id, own, seq);
          }
          return isRead;
        },
        refused: (error, retryAfter) => {
          this.#own.delete(client_msg_id);
          if (this.#isStale(party, client_msg_id, this.requests.problemOf(error))) {
            this.#waiting.push({ ...waiting, lostUntil: 0 });
          } else {
            this.#keyring.sent(party, client_msg_id, undefined, this.#nowMs);
            asker.refused(error, retryAfter);
          }
        },
        lost: (runsUntil) => asker.lost(runsUntil),
      },
      lostUntil,
    );
  }

  /**
   * Handles the refusal of a message that the server would have stored in another epoch, or once a commit has removed
   * the users who left. The message leaves again, once the log has come up to its end.
   */
  #isStale(party: Party, clientMsgId: string, problem: Problem): boolean {
    const { code, epoch = 0, last_seq = 0, members = [] } = problem;
    if (code === "stale_epoch") {
      this.#keyring.stale(party, clientMsgId, epoch, last_seq, this.#nowMs);
    } else if (code === "rekey_required") {
      this.#keyring.rekey(party, clientMsgId, members, this.#nowMs);
    } else {
      return false;
    }
    this.#comesUp(problem);
    return true;
  }

  #comesUp({ conversation_id, last_seq = 0 }: Problem): void {
    if (conversation_id !== undefined) {
      this.#endsAt(conversation_id, last_seq);
    }
  }

  /** Sends a change of a group's members. In an encrypted group, the change has a commit. */
  #sendRoll(waiting: Waiting, request: Roll): void {
    const { asker, lostUntil } = waiting;
    const { conversation_id: id, client_msg_id } = request;
    const change = request.action === "add" ? { add: request.members } : { remove: request.user_id };
    const prepared = this.#keyring.roll(id, client_msg_id, change, this.#nowMs);
    if (prepared === "plain") {
      this.requests.askClear(request, asker, lostUntil);
      return;
    }
    if (prepared === "waits" || "held" in prepared) {
      this.#waiting.push(waiting);
      return;
    }
    if ("refused" in prepared) {
      const [code] = prepared.refused;
      asker.refused(new PigeonholeError(code, "the members can't be added to an encrypted group"));
      return;
    }
    const rolled = (outcome: { seq: number } | { problem: Problem }) =>
      this.#keyring.rolled(id, client_msg_id, outcome, this.#nowMs);
    this.requests.askClear(
      { ...request, ...prepared.ready } as Roll,
      {
        answered: (result) => {
          const { seq } = result as { seq?: number };
          // Without an entry, all of them were members before.
          rolled(seq === undefined ? { problem: { code: "gone", message: "", retryable: false } } : { seq });
          return asker.answered(result);
        },
        refused: (error, retryAfter) => {
          const problem = this.requests.problemOf(error);
          rolled({ problem });
          if (problem.code === "stale_epoch" || problem.code === "rekey_required") {
            this.#comesUp(problem);
            this.#waiting.push({ ...waiting, lostUntil: 0 });
          } else {
            asker.refused(error, retryAfter);
          }
        },
        lost: (runsUntil) => asker.lost(runsUntil),
      },
      lostUntil,
    );
  }

  /** The conversation has entries up to here. */
  #endsAt(conversation_id: string, last_seq: number): void {
    const delivered_seq = this.conversations.shown(conversation_id);
    if (last_seq > delivered_seq) {
      this.conversations.row({ conversation_id, last_seq, delivered_seq } as Conversation);
    }
  }

  /** Shows what the keyring can judge now. */
  #show(conversation_id: string): void {
    const seq = this.conversations.shown(conversation_id);
    if (this.conversations.hasBegun(conversation_id)) {
      this.conversations.row({ conversation_id, last_seq: seq, delivered_seq: seq } as Conversation);
    }
  }

  /** Returns the plaintext of a request, or `undefined` while the store is read for the message to which it refers. */
  #envelope(party: Party, request: Content): Envelope | undefined {
    const id = "user" in party ? directConversationId(this.me, party.user) : party.conversation;
    const queued = this.outbox.waiting().find(({ clientMsgId }) => clientMsgId === request.client_msg_id);
    const [at, after] = [queued?.madeAt ?? this.wall, this.conversations.shown(id)];
    const body = request.action === "react" ? "" : request.body;
    const seq = request.action === "send" ? request.reply_to : request.seq;
    const fields: Record<string, unknown> = {};
    if (seq !== undefined) {
      const name = `${id} ${seq}`;
      if (!this.#targets.has(name)) {
        this.#load(name, { load: "window", conversation_id: id, side: { after_seq: seq - 1 } });
        return undefined;
      }
      const client_msg_id = this.#targets.get(name);
      const to = { seq, ...(client_msg_id === undefined ? {} : { client_msg_id }) };
      fields[request.action === "send" ? "reply_to" : "to"] = to;
      this.#targets.delete(name);
    }
    if (request.action === "react") {
      fields.emoji = request.emoji;
    }
    if (request.action === "send" && request.mentions) {
      fields.mentions = request.mentions;
    }
    if (request.action !== "react" && request.data !== undefined) {
      fields.data = request.data;
    }
    if (request.action === "send" && request.media) {
      fields.media = request.media;
    }
    const kind = request.action === "send" ? request.kind : { edit: "edit", react: "reaction" }[request.action];
    return { kind, body, at, after, fields };
  }

  #load(name: string, what: Load): void {
    if ([...this.#loads.values()].includes(name)) {
      return;
    }
    this.#lastLoad += 1;
    this.#loads.set(this.#lastLoad, name);
    this.output({ do: "load", load: this.#lastLoad, what });
  }

  override loaded(load: LoadId, found: Found, now: number): void {
    const proving = this.#proving.get(load);
    const name = this.#loads.get(load);
    if (proving) {
      this.#proving.delete(load);
      this.#reports.push({ ...proving, proofs: found.found === "proofs" ? found.proofs : [] });
      return;
    }
    if (name === undefined) {
      super.loaded(load, found, now);
      return;
    }
    this.#loads.delete(load);
    if (name === "") {
      this.#hasRows = true;
      for (const row of found.found === "start" ? found.chats : []) {
        this.#meetRow(row);
      }
    } else {
      const messages = found.found === "window" ? found.window.messages : [];
      const target = messages.find(({ conversation_id, seq }) => name === `${conversation_id} ${seq}`);
      this.#targets.set(name, target?.client_msg_id);
    }
  }

  #meetRow({ conversation_id: id, peer_id, role, history, encrypted = false, epoch = 0 }: Conversation): void {
    this.#meet(id, peer_id);
    if (isGroup(id) && (encrypted || history !== undefined)) {
      this.#knowGroup(id, encrypted ? epoch : undefined);
    } else if (isGroup(id) && role === "none") {
      // The row doesn't say whether the group is encrypted.
      this.#turned(id);
      this.#left.add(id);
    }
    const party = peer_id === undefined ? { conversation: id } : { user: peer_id };
    // A group that was created encrypted begins with its first message.
    if (encrypted && (peer_id !== undefined || epoch > 0)) {
      this.#keyring.met(party, this.#nowMs);
    }
  }

  /** The user has come into the group or left it: its members can have begun to encrypt, or will. */
  #turned(id: string): void {
    this.#left.delete(id);
    if (this.#groups.get(id) === undefined) {
      this.#groups.delete(id);
    }
  }

  #meet(conversation: string, peer: string | undefined): void {
    if (peer !== undefined && conversation === directConversationId(this.me, peer)) {
      this.#peers.set(conversation, peer);
    }
  }

  // The log.

  /** Takes the next entry of a conversation. `false`: the keyring can't judge it yet. */
  override judges(message: Message): boolean {
    const { conversation_id: id, sender_id } = message;
    this.#meet(id, sender_id === this.me ? undefined : sender_id);
    if (message.seq > 1 && turnOf(message, this.me) !== undefined) {
      this.#turned(id);
    }
    const position = this.#keyring.position(id);
    if (position !== undefined && position < this.conversations.shown(id)) {
      // The entries that the app has passed come first.
      this.#behind.add(id);
      this.#unjudged.add(id);
      return false;
    }
    // The reply to an own request has come as what the user wrote.
    const own = message.kind === "sealed" ? undefined : this.#ownOf(message);
    const bytes = own && { kind: "sealed", body: own.sealed.body, epoch: own.sealed.epoch };
    const { shown, notices } = this.#keyring.take({ ...message, ...bytes }, this.#nowMs);
    this.#tellAll(notices);
    if (shown === "later") {
      this.#unjudged.add(id);
      return false;
    }
    this.#opened.set(message, shown);
    return true;
  }

  override handOver(message: Message, missed: boolean): void {
    const shown = this.#opened.get(message);
    this.#opened.delete(message);
    if (shown) {
      this.#deliver(this.#content(message, shown), missed);
      this.#keepProof(message, shown);
    } else {
      // An entry of a channel is in the clear, whatever the server says.
      const { epoch: _, ...plain } = message;
      super.handOver(plain, missed);
    }
  }

  #ownOf({ sender_id, client_msg_id }: Message): Own | undefined {
    return sender_id === this.me && client_msg_id !== undefined ? this.#own.get(client_msg_id) : undefined;
  }

  #content(message: Message, shown: Opened): Message {
    if (shown === "own") {
      return this.#ownText(message) ?? unreadable(message, "broken");
    }
    if (shown === "nothing" || shown === "later") {
      return withoutBytes(message);
    }
    return "plain" in shown ? shown.plain : unreadable(message, shown.unreadable);
  }

  /** Returns the own message that this device sealed, from the outbox: an author can't open the bytes. */
  #ownText(entry: Message): Message | undefined {
    const { client_msg_id: id, epoch, silent } = entry;
    if (id === undefined) {
      return undefined;
    }
    const own = this.#own.get(id);
    const request = own?.request ?? this.#queued(id);
    if (!request || !isContent(request)) {
      return undefined;
    }
    if (own) {
      this.#told(id, own, entry.seq);
    }
    const { conversation_id, seq, message_id, sent_at } = entry;
    const version = request.action === "edit" ? { version: seq } : {};
    const stored = { conversation_id, seq, message_id, sent_at, duplicate: false, ...version };
    const outer = { epoch: own?.sealed.epoch ?? epoch, silent: own?.sealed.silent || silent };
    const { epoch: sealedAt, silent: isSilent } = outer;
    return {
      ...ownEntry(this.me, request, stored),
      ...(sealedAt === undefined ? {} : { epoch: sealedAt }),
      ...(isSilent ? { silent: true } : {}),
    };
  }

  #queued(id: string): StoringRequest | undefined {
    const queued = this.outbox.waiting().find(({ clientMsgId }) => clientMsgId === id);
    return queued && withKey(requestFor(queued), queued);
  }

  /** The app has an own entry: nothing of it need be kept, once the server has replied. */
  #told(clientMsgId: string, own: Own, seq: number): void {
    own.toldAt = seq;
    this.#settle(clientMsgId, own);
  }

  #settle(clientMsgId: string, own: Own): void {
    if (own.toldAt !== undefined && own.isDone && this.#own.delete(clientMsgId)) {
      this.#keyring.sent(own.party, clientMsgId, own.toldAt, this.#nowMs);
      super.save({ done: clientMsgId });
    }
  }

  /** A text leaves the outbox once it has its place in the log, since no user can open its bytes here. */
  override save(change: StorageChange): void {
    const own = "done" in change ? this.#own.get(change.done) : undefined;
    if (own && "done" in change) {
      own.isDone = true;
      this.#settle(change.done, own);
    } else {
      super.save(change);
    }
  }

  #deliver(message: Message, missed: boolean): void {
    const why = whyUnreadable(message);
    if (message.kind === "commit" || why) {
      this.#pass(message);
      if (why) {
        const { conversation_id, seq, sender_id } = message;
        this.tell({ type: "unreadable", conversation_id, seq, sender_id, why });
      }
    } else {
      super.handOver(message, missed);
    }
  }

  /** The proof of a text is stored behind it. A reaction has none. */
  #keepProof({ conversation_id }: Message, shown: Opened): void {
    if (typeof shown === "object" && "plain" in shown && shown.proof && shown.plain.kind !== "reaction") {
      const { plain, proof } = shown;
      this.store({ proof: { conversation_id, seq: plain.target_seq ?? plain.seq, proof } });
    }
  }

  /** Takes an entry that is no event for the app. */
  #pass(message: Message): void {
    this.store({ entry: message });
    this.views.event({ type: "message", message, missed: false }, this.now);
  }

  /** Hides the bytes of a page. The entries come in their order, once the keyring has opened them. */
  override store(write: Write): void {
    if ("row" in write && write.row.kind !== "channel") {
      this.#meetRow(write.row);
    }
    if ("page" in write && kindOf(write.page.conversation_id) !== "channel") {
      const { conversation_id: id, page } = write.page;
      // Without a part in the conversation, no entry need come in its order.
      const passed = Math.max(this.conversations.shown(id), this.#keyring.position(id) ?? Number.POSITIVE_INFINITY);
      for (const [at, message] of page.messages.entries()) {
        // A file has its key in the ciphertext alone.
        delete (message.media as { key?: string } | undefined)?.key;
        if (message.kind === "sealed") {
          page.messages[at] = unreadable(message, message.seq <= passed ? "before_join" : "later");
        } else if (message.kind === "commit" || message.commit !== undefined) {
          page.messages[at] = withoutBytes(message);
        } else {
          // The lock of a message is for those that the keyring has opened.
          delete message.epoch;
        }
      }
      this.#endsAt(id, page.last_seq);
    }
    super.store(write);
  }

  /** Finds the conversations that the keyring has joined below what the app has passed. */
  #findBehind(): void {
    for (const id of this.conversations.known()) {
      const position = this.#keyring.position(id);
      if (position !== undefined && position < this.conversations.shown(id)) {
        this.#behind.add(id);
      }
    }
  }

  /** Requests entries that the keyring has not taken, although the app has passed them. */
  #openRest(id: string): void {
    const after_seq = this.#keyring.position(id);
    if (after_seq === undefined || this.#opening.has(id)) {
      return;
    }
    this.#opening.add(id);
    this.requests.askClear(
      { action: "history", conversation_id: id, after_seq, limit: limits.HISTORY_LIMIT_MAX },
      {
        answered: (result) => {
          const page = readHistory(result);
          if (page) {
            this.#opening.delete(id);
            this.#openPage(id, page);
          }
          return page !== undefined;
        },
        refused: () => this.#opening.delete(id),
        lost: () => {
          this.#opening.delete(id);
          this.#behind.add(id);
        },
      },
    );
  }

  /** Opens entries that the app has passed. The app gets them from the store and in views, and not as events. */
  #openPage(id: string, { messages }: HistoryResult): void {
    const before = this.#keyring.position(id);
    const shown = this.conversations.shown(id);
    for (const message of messages.filter(({ seq }) => seq <= shown)) {
      const taken = this.#keyring.take(message, this.#nowMs);
      this.#tellAll(taken.notices);
      if (taken.shown === "later") {
        break;
      }
      this.#pass(this.#content(message, taken.shown));
      this.#keepProof(message, taken.shown);
    }
    const after = this.#keyring.position(id);
    if (after !== undefined && after > (before ?? -1) && after < shown) {
      this.#behind.add(id);
    }
    this.#show(id);
  }
}

/** Requests, those of the outbox with something to read sealed. */
class SealedRequests extends Requests {
  #sealing: SealedSession;
  /** The last refusal. */
  #problem: Problem | undefined;

  constructor(session: SealedSession) {
    super(session);
    this.#sealing = session;
  }

  override ask(request: Request, asker: Asker, lostUntil = 0): void {
    if (this.#sealing.hold(request, asker, lostUntil)) {
      return;
    }
    if (request.action === "create") {
      this.askToCreate(request, asker, lostUntil);
    } else {
      super.ask(request, asker, lostUntil);
    }
  }

  /** Sends a new group, whose encryption begins with the reply. */
  askToCreate(request: Create, asker: Asker, lostUntil: number): void {
    const answered = (result: unknown) => {
      this.#sealing.created(result, request.encrypted === true);
      return asker.answered(result);
    };
    const lost = (runsUntil: number) => asker.lost(runsUntil);
    super.ask(request, { answered, refused: (error, at) => asker.refused(error, at), lost }, lostUntil);
  }

  /** Sends a request as it is. */
  askClear(request: Request, asker: Asker, lostUntil = 0): void {
    super.ask(request, asker, lostUntil);
  }

  override refused(id: string | undefined, problem: Problem): void {
    this.#problem = problem;
    super.refused(id, problem);
    this.#problem = undefined;
  }

  /** Returns the refusal that is being handled. */
  problemOf({ code, message }: PigeonholeError): Problem {
    return this.#problem ?? ({ code, message, retryable: false } as Problem);
  }
}

/** Returns the report with the proofs that fit. An edited message is proved by its last edit, which is an entry too. */
function withProofs(report: Report, proofs: readonly Proof[]): Report {
  let proven: Report = report;
  let chars = 0;
  for (const proof of proofs) {
    const { seqs = [], opened = [] } = proven;
    const all = seqs.includes(proof.seq) ? seqs : [...seqs, proof.seq];
    const next = { ...proven, seqs: all, opened: [...opened, proof] };
    const more = chars + proof.key.length + proof.plaintext.length;
    const frame = new TextEncoder().encode(requestFrame(next, Number.MAX_SAFE_INTEGER));
    const isTooLong = frame.length > limits.FRAME_BYTES_MAX;
    if (all.length <= limits.REPORT_SEQS_MAX && more <= limits.OPENED_CHARS_MAX && !isTooLong) {
      [proven, chars] = [next, more];
    }
  }
  return proven;
}

/** Returns the conversation with this user, or the group with this id. */
export function partyOf(of: string): Party {
  return isGroup(of) ? { conversation: of } : { user: of };
}

function needsKeys(request: Request): request is Content | Roll | Upload | Create {
  const isSealed = request.action === "create" && request.encrypted === true;
  return isContent(request) || isRoll(request) || request.action === "upload" || isSealed;
}

function isContent(request: Request): request is Content {
  return request.action === "send" || request.action === "edit" || request.action === "react";
}

/** Returns a message with the key, the ciphertext's digest and the thumbnail of its file. */
function withKey<R extends StoringRequest>(request: R, queued: Queued | undefined): R {
  const sealed = queued && "body" in queued ? queued.media?.sealed : undefined;
  if (!sealed || request.action !== "send" || !request.media) {
    return request;
  }
  const { parts: _, ...rest } = sealed;
  return { ...request, media: { ...request.media, ...rest } };
}

function isRoll(request: Request): request is Roll {
  return request.action === "add" || request.action === "remove";
}

/** Puts the reason in the place of the content. */
function unreadable(message: Message, why: Unreadable): UnreadableMessage {
  const {
    media: _,
    data: _______,
    reply_to: __,
    mentions: ___,
    reactions: ____,
    version: _____,
    edited_at: ______,
    ...rest
  } = message;
  const silent = message.silent || isChange(message);
  return { ...rest, kind: "sealed", body: "", unreadable: why, ...(silent ? { silent: true } : {}) };
}

/** Returns the entry of a commit without what only the keyring needs. */
function withoutBytes({ commit: _, welcome: __, tree: ___, ...message }: Message): Message {
  return { ...message, body: "" };
}
