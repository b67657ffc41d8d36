// How far each conversation has come on this device, and what is missing.
//
//     1 ………… acked ………… held ………… shown     (missing)     buffered … wanted
//            the server   the app    handed
//            knows        is done    to the app

import { type HistoryResult, limits, type Message, type Conversation as Row } from "../frames.ts";
import { counts, isGroup, isService, joiners, type Mark, readHistory } from "../protocol.ts";
import type { Core } from "./core.ts";
import type { Outbox } from "./outbox.ts";
import type { Requests } from "./requests.ts";

/** The limit of concurrent repairs: after a long absence, each conversation can need one. */
const REPAIRS_MAX = 4;

interface Arrived {
  message: Message;
  missed: boolean;
}

class Conversation {
  /** The app has got everything up to here. `undefined`: new on this device, and its start is not known yet. */
  shown: number | undefined;
  /** The app is done with everything up to here. */
  held = 0;
  /** The server has confirmed that this is acknowledged, or has not drained it since a restart. */
  acked = 0;
  /** Entries that came out of order. */
  buffer = new Map<number, Arrived>();
  /** The server has messages up to here. */
  wanted = 0;
  /** In a group: the client repairs no gap up to here, because this user may see only later entries. */
  floor = 0;
  repairAsked = false;
  /** A group that is new on this device begins once this is known: what is pending. */
  drainAsked = false;
  repairAt: number | undefined;
  /** Repairs in a row that brought nothing. */
  repairTries = 0;

  raiseFloor(firstSeq = 1): void {
    this.floor = Math.max(this.floor, firstSeq - 1);
  }

  isBroken(): boolean {
    return this.wanted > (this.shown ?? 0);
  }

  /**
   * Returns whether the server's reply lacked the missing entries, because the server cannot read them. The client
   * repeats the request from time to time, and nothing else waits for it.
   */
  isStuck(): boolean {
    return this.isBroken() && this.repairTries > 0;
  }

  /** Returns the place of the next entry for the app. */
  next(): number {
    // Entries of an earlier membership go to the app; the gaps between them will never be filled.
    return Math.min(Math.max(this.shown ?? 0, this.floor) + 1, ...this.buffer.keys());
  }

  /** Has come, in order or not. */
  has(seq: number): boolean {
    return (this.shown !== undefined && seq <= this.shown) || this.buffer.has(seq);
  }
}

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly outbox: Outbox;
  readonly reports: { acknowledge(conversation: string, seq: number): void };
  readonly catchUp: {
    isDrainAsked(): boolean;
    drainAgain(): void;
    drainOn(): void;
    giveUp(conversation: string): void;
    willAcknowledge(conversation: string, seq: number): boolean;
  };
}

export class Conversations {
  #session: Session;
  #all = new Map<string, Conversation>();
  /** Conversations with missing entries. */
  #broken = new Set<string>();
  #repairs = 0;

  constructor(session: Session, held: ReadonlyMap<string, number>) {
    this.#session = session;
    for (const [id, seq] of held) {
      // If the last acknowledgement was lost, the first drain brings those messages again: see `arrivedPending`.
      const known = { shown: seq, held: seq, acked: seq, wanted: seq };
      this.#all.set(id, Object.assign(new Conversation(), known));
    }
  }

  known(): string[] {
    return [...this.#all.keys()];
  }

  held(id: string): number {
    return this.#all.get(id)?.held ?? 0;
  }

  shown(id: string): number {
    return this.#all.get(id)?.shown ?? 0;
  }

  isStuck(id: string): boolean {
    return this.#all.get(id)?.isStuck() ?? false;
  }

  /**
   * Returns whether the app has finished with the received messages of a drained page up to this one, and no more of
   * them will come.
   */
  isDone(id: string, seq: number): boolean {
    return this.held(id) >= (this.isStuck(id) ? Math.min(seq, this.shown(id)) : seq);
  }

  /** Returns the ack for a drained page's messages up to this one. */
  toAcknowledge(id: string, seq: number): Mark[] {
    const mark = Math.min(seq, this.held(id));
    return mark > (this.#all.get(id)?.acked ?? 0) ? [{ conversation_id: id, seq: mark }] : [];
  }

  /**
   * Returns whether this entry of a group belongs to an earlier membership that ended before this device had it. Only
   * the reply to its own request delivers such an own entry.
   */
  isPassed(id: string, seq: number): boolean {
    const { shown = 0, floor = 0 } = this.#all.get(id) ?? {};
    return seq <= shown && seq <= floor;
  }

  hasBegun(id: string): boolean {
    return this.#all.get(id)?.shown !== undefined;
  }

  acked(id: string): number | undefined {
    return this.hasBegun(id) ? this.#all.get(id)?.acked : undefined;
  }

  raiseAcked(id: string, seq: number): void {
    const conversation = this.#all.get(id);
    if (conversation) {
      conversation.acked = Math.max(conversation.acked, seq);
    }
  }

  /**
   * Records that the server has stored an own message, and whether the server counts everything up to it as
   * acknowledged.
   */
  stored(id: string, seq: number, acknowledged: boolean): void {
    const conversation = this.#get(id);
    if (acknowledged) {
      conversation.acked = Math.max(conversation.acked, seq);
    }
  }

  /** Everything of the conversation up to here is kept. */
  hold(id: string, seq: number): void {
    const conversation = this.#all.get(id);
    if (!conversation || seq <= conversation.held) {
      return;
    }
    conversation.held = seq;
    this.#session.save({ held: { conversation_id: id, seq } });
    if (seq > conversation.acked && !this.#session.catchUp.willAcknowledge(id, seq)) {
      this.#session.reports.acknowledge(id, seq);
    }
  }

  /** Acknowledges again everything that is saved and not known to be acknowledged. */
  acknowledgeAgain(id: string): void {
    const conversation = this.#all.get(id);
    if (conversation && conversation.held > conversation.acked) {
      this.#session.reports.acknowledge(id, conversation.held);
    }
  }

  /** A message has come, by any way. */
  arrived(message: Message, missed: boolean): void {
    const { conversation_id: id, seq } = message;
    const conversation = this.#get(id);
    if (conversation.has(seq)) {
      this.#session.stats.duplicatesDropped += 1;
      return;
    }
    conversation.wanted = Math.max(conversation.wanted, seq);
    conversation.buffer.set(seq, { message, missed });
    if (seq === 1 || joiners(message).includes(this.#session.me)) {
      this.#begin(id, seq - 1);
    }
    this.#show(id);
  }

  /** A drained message: some device of this user has acknowledged everything before it. */
  arrivedPending(message: Message, missed: boolean): void {
    const { conversation_id: id, seq } = message;
    this.arrived(message, missed);
    if (!this.hasBegun(id) && !this.#mayHoldOwn(id)) {
      this.#begin(id, seq - 1);
      this.#show(id);
    }
    const conversation = this.#get(id);
    if (conversation.acked >= seq) {
      conversation.acked = seq - 1;
      this.#session.outbox.forgetAcked(id);
    }
  }

  /** A row of the chat list: up to where the conversation goes. */
  row(row: Row): void {
    const id = row.conversation_id;
    const conversation = this.#get(id);
    conversation.wanted = Math.max(conversation.wanted, row.last_seq);
    conversation.raiseFloor(row.first_seq);
    // A drain takes longer than a frame, so all frames on their way have arrived.
    conversation.repairAt ??= this.#session.now;
    if (!this.#mayHoldOwn(id)) {
      this.#begin(id, Math.min(row.delivered_seq, row.last_seq));
    }
    this.#show(id);
  }

  /**
   * Starts a conversation that is new on this device after this seq, or before the first entry that has come, if that
   * is earlier.
   */
  #begin(id: string, after: number): void {
    const conversation = this.#all.get(id);
    if (!conversation || conversation.shown !== undefined) {
      return;
    }
    const begin = Math.min(after, ...[...conversation.buffer.keys()].map((seq) => seq - 1));
    conversation.shown = begin;
    conversation.held = begin;
    conversation.acked = Math.max(conversation.acked, begin);
    // Saved, so that after a restart the client finds the entries that were shown from here on and not finished.
    this.#session.save({ held: { conversation_id: id, seq: begin } });
    this.#session.outbox.forgetSent(id);
  }

  /**
   * Returns whether an unanswered own message may belong to this conversation, whose start is not known. The server
   * counts such a message as delivered, so until the reply the conversation must not start at the server's mark.
   */
  #mayHoldOwn(id: string): boolean {
    const buffered = [...(this.#all.get(id)?.buffer.values() ?? [])];
    // A service that changes the messages of others is not a member, so its entry does not show the other user.
    const isOperator = (message: Message) => isService(message.sender_id) && !counts(message);
    const users = buffered.map(({ message }) => (isOperator(message) ? this.#session.me : message.sender_id));
    return this.#session.outbox.isUnsure(id, users);
  }

  /** Delivers the next entries in order, then checks whether any is missing. */
  #show(id: string): void {
    const { me, now, timing, stats } = this.#session;
    const conversation = this.#get(id);
    const next: Arrived[] = [];
    if (conversation.shown !== undefined) {
      for (let arrived = this.#takeNext(conversation); arrived; arrived = this.#takeNext(conversation)) {
        next.push(arrived);
      }
      conversation.shown = Math.max(conversation.shown, conversation.floor);
      conversation.wanted = Math.max(conversation.wanted, conversation.shown);
    }
    if (conversation.isBroken()) {
      conversation.repairAt ??= now + timing.gapWait;
      this.#broken.add(id);
    } else {
      conversation.repairAt = undefined;
      conversation.repairTries = 0;
      this.#broken.delete(id);
    }
    for (const { message, missed } of next) {
      if (message.sender_id !== me) {
        stats.received += 1;
        if (counts(message) && !isGroup(id)) {
          this.#session.outbox.rememberDirect(message.sender_id, id);
        }
      } else if (message.client_msg_id !== undefined) {
        this.#session.outbox.told(message.client_msg_id);
      }
      this.#session.handOver(message, missed);
    }
    const last = next.at(-1);
    if (last && this.#session.keeper === "store") {
      this.hold(id, last.message.seq);
    }
  }

  #takeNext(conversation: Conversation): Arrived | undefined {
    const { buffer } = conversation;
    const seq = conversation.next();
    const arrived = buffer.get(seq);
    if (arrived && this.#session.judges(arrived.message)) {
      conversation.buffer.delete(seq);
      conversation.shown = seq;
      return arrived;
    }
    return undefined;
  }

  // Missing entries.

  /** Returns when the next request for missing entries is due. */
  nextRepair(): number {
    return this.#mayRepair()
      ? Math.min(...[...this.#broken].map((id) => this.#repairAt(id)))
      : Number.POSITIVE_INFINITY;
  }

  /** When this one is to be repaired; never, while something prevents it. */
  #repairAt(id: string): number {
    const conversation = this.#get(id);
    const { repairAsked, drainAsked, repairAt, shown } = conversation;
    const waits =
      repairAsked ||
      repairAt === undefined ||
      (shown === undefined ? drainAsked || this.#mayHoldOwn(id) : conversation.buffer.has(conversation.next()));
    return waits ? Number.POSITIVE_INFINITY : repairAt;
  }

  #mayRepair(): boolean {
    // The page that is on its way is likely to bring what is missing.
    return !this.#session.catchUp.isDrainAsked() && this.#repairs < REPAIRS_MAX;
  }

  repairDue(): void {
    while (this.#mayRepair()) {
      const id = [...this.#broken].find((broken) => this.#repairAt(broken) <= this.#session.now);
      if (id === undefined) {
        break;
      }
      const conversation = this.#get(id);
      if (conversation.shown === undefined && isGroup(id)) {
        // The history of a group does not contain this user's mark. Pending messages show it.
        conversation.drainAsked = true;
        this.#session.catchUp.drainAgain();
      } else {
        this.#repair(id, conversation);
      }
    }
    this.#session.catchUp.drainOn();
  }

  /**
   * Handles the end of a drain. A group without a start was acknowledged by another device, up to the entries that have
   * come.
   */
  beginGroups(): void {
    for (const [id, conversation] of this.#all) {
      if (conversation.drainAsked && conversation.shown === undefined && !this.#mayHoldOwn(id)) {
        this.#begin(id, conversation.wanted);
        this.#show(id);
      }
      conversation.drainAsked = false;
    }
  }

  #repair(id: string, conversation: Conversation): void {
    const after = conversation.shown;
    // Without a start, the request needs only the mark of this user.
    const part = after === undefined ? { limit: 1 } : { after_seq: after, limit: limits.HISTORY_LIMIT_MAX };
    const ended = () => {
      this.#repairs -= 1;
      conversation.repairAsked = false;
    };
    conversation.repairAsked = true;
    this.#repairs += 1;
    this.#session.requests.ask(
      { action: "history", conversation_id: id, ...part },
      {
        answered: (result) => {
          const page = readHistory(result);
          if (page) {
            ended();
            this.#repaired(id, after, page);
          }
          return page !== undefined;
        },
        refused: () => {
          ended();
          this.#giveUp(id);
        },
        lost: () => {
          ended();
          conversation.repairAt = this.#session.now;
        },
      },
    );
  }

  #repaired(id: string, after: number | undefined, history: HistoryResult): void {
    const { me, now, stats, timing } = this.#session;
    const conversation = this.#get(id);
    conversation.wanted = Math.max(conversation.wanted, history.last_seq);
    conversation.raiseFloor(history.first_seq);
    const before = conversation.shown;
    if (before === undefined && !this.#mayHoldOwn(id)) {
      const own = history.members.find(({ user_id }) => user_id === me);
      this.#begin(id, own?.delivered_seq ?? history.last_seq);
    }
    // The request was made before the start was known, so this is the end of the conversation, not the missing part.
    for (const message of after === undefined ? [] : history.messages) {
      // The page begins at the gap, and can have messages from behind it.
      if (!conversation.has(message.seq)) {
        this.arrived(message, !this.#session.toldCaughtUp && message.sender_id !== me);
      }
    }
    this.#show(id);
    const progress = after === undefined || (conversation.shown ?? -1) > (before ?? -1);
    if (progress && after !== undefined) {
      stats.gapsRepaired += 1;
    }
    if (conversation.isBroken()) {
      conversation.repairTries = progress ? 0 : conversation.repairTries + 1;
      const pause = this.#session.jitter(timing.gapRetry, timing.reconnectMax, conversation.repairTries);
      conversation.repairAt = progress ? now : now + Math.max(pause, timing.gapRetry);
    }
  }

  /**
   * Ends a repair for good: the user is no longer a member. The app gets the received entries without the missing ones.
   */
  #giveUp(id: string): void {
    const conversation = this.#get(id);
    const buffered = [...conversation.buffer.keys()];
    const first = buffered.length > 0 ? Math.min(...buffered) - 1 : undefined;
    this.#begin(id, first ?? 0);
    conversation.shown = Math.max(conversation.shown ?? 0, first ?? 0);
    conversation.wanted = Math.max(conversation.shown, ...buffered);
    conversation.repairAt = undefined;
    this.#session.catchUp.giveUp(id);
    this.#show(id);
  }

  #get(id: string): Conversation {
    let conversation = this.#all.get(id);
    if (!conversation) {
      conversation = new Conversation();
      this.#all.set(id, conversation);
    }
    return conversation;
  }
}
