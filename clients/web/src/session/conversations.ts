// How far each conversation has come on this device, and what is missing.
//
//     1 ………… acked ………… held ………… shown     (missing)     buffered … wanted
//            the server   the app    handed
//            knows        is done    to the app

import { type HistoryResult, limits, type Message, type Conversation as Row } from "../frames.ts";
import { counts, isGroup, isService, joiners, type Mark, readHistory } from "../protocol.ts";
import type { Session } from "./session.ts";

/** Repairs under way at once: after a long absence there can be one for each conversation. */
const REPAIRS_MAX = 4;

interface Arrived {
  message: Message;
  missed: boolean;
}

class Conversation {
  /** Handed to the app up to here. `undefined`: new on this device, and where it begins is not known yet. */
  shown: number | undefined;
  /** The app is done with everything up to here. */
  held = 0;
  /** The server has confirmed that this is acknowledged, or has not drained it since a restart. */
  acked = 0;
  /** What came out of order. */
  buffer = new Map<number, Arrived>();
  /** The server has messages up to here. */
  wanted = 0;
  /** Of a group: nothing up to here is missing, since this user is shown what is behind it. */
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
   * What is missing was asked for, and the server did not have it: it does not give an entry that it can't read. That is asked
   * for again from time to time, and nothing else waits for it.
   */
  isStuck(): boolean {
    return this.isBroken() && this.repairTries > 0;
  }

  /** Has come, in order or not. */
  has(seq: number): boolean {
    return (this.shown !== undefined && seq <= this.shown) || this.buffer.has(seq);
  }
}

export class Conversations {
  #session: Session;
  #all = new Map<string, Conversation>();
  /** Those in which messages are missing. */
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

  /** Whether the app is done with what is here of a drained page's messages up to this one, and no more of them is to come. */
  isDone(id: string, seq: number): boolean {
    return this.held(id) >= (this.isStuck(id) ? Math.min(seq, this.shown(id)) : seq);
  }

  /** What an ack of a drained page's messages up to this one can say. */
  toAcknowledge(id: string, seq: number): Mark[] {
    const mark = Math.min(seq, this.held(id));
    return mark > (this.#all.get(id)?.acked ?? 0) ? [{ conversation_id: id, seq: mark }] : [];
  }

  /** Of a group: it is of a time as a member that was over before this device had it. Nothing but its answer brings an own one. */
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

  /** The server has stored an own message there, and knows whether this user holds everything up to it. */
  stored(id: string, seq: number, acknowledged: boolean): void {
    const conversation = this.#get(id);
    if (acknowledged) {
      conversation.acked = Math.max(conversation.acked, seq);
    }
  }

  handled(id: string, seq: number): void {
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

  /** Everything that is held and not known to be acknowledged, again. */
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
    // What was on its way has arrived by now: a drain took longer.
    conversation.repairAt ??= this.#session.now;
    if (!this.#mayHoldOwn(id)) {
      this.#begin(id, Math.min(row.delivered_seq, row.last_seq));
    }
    this.#show(id);
  }

  /** Begins a conversation that is new on this device after this seq, or before, if something from before that has come. */
  #begin(id: string, after: number): void {
    const conversation = this.#all.get(id);
    if (!conversation || conversation.shown !== undefined) {
      return;
    }
    const begin = Math.min(after, ...[...conversation.buffer.keys()].map((seq) => seq - 1));
    conversation.shown = begin;
    conversation.held = begin;
    conversation.acked = Math.max(conversation.acked, begin);
    // Saved, so that what is shown from here on and not held is found missing after a restart.
    this.#session.save({ held: { conversation_id: id, seq: begin } });
    this.#session.outbox.forgetSent(id);
  }

  /**
   * Whether an own message without an answer may be in this conversation, which has not begun. The server takes such a
   * message for delivered, so until it is answered the conversation must not begin where the server says.
   */
  #mayHoldOwn(id: string): boolean {
    const buffered = [...(this.#all.get(id)?.buffer.values() ?? [])];
    // A service that changes what others said is no member, so nothing tells whom the conversation is with.
    const isOperator = (message: Message) => isService(message.sender_id) && !counts(message);
    const users = buffered.map(({ message }) => (isOperator(message) ? this.#session.me : message.sender_id));
    return this.#session.outbox.isUnsure(id, users);
  }

  /** Hands over what is next in order, then checks whether anything is missing. */
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
      this.#session.tell({ type: "message", message, missed });
    }
  }

  #takeNext(conversation: Conversation): Arrived | undefined {
    const { shown = 0, floor, buffer } = conversation;
    // What has come of a time before as a member is handed over, and what is missing of it will never come.
    const seq = shown < floor ? Math.min(floor + 1, ...buffer.keys()) : shown + 1;
    const arrived = buffer.get(seq);
    if (arrived) {
      conversation.buffer.delete(seq);
      conversation.shown = seq;
    }
    return arrived;
  }

  // What is missing.

  /** When something that is missing has to be asked for. */
  nextRepair(): number {
    return this.#mayRepair()
      ? Math.min(...[...this.#broken].map((id) => this.#repairAt(id)))
      : Number.POSITIVE_INFINITY;
  }

  /** When this one is to be repaired; never, while something prevents it. */
  #repairAt(id: string): number {
    const { repairAsked, drainAsked, repairAt, shown } = this.#get(id);
    const waits =
      repairAsked || repairAt === undefined || (shown === undefined && (drainAsked || this.#mayHoldOwn(id)));
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
        // The history of a group does not say how far this user has come. What is pending does.
        conversation.drainAsked = true;
        this.#session.catchUp.drainAgain();
      } else {
        this.#repair(id, conversation);
      }
    }
    this.#session.catchUp.drainOn();
  }

  /** All that is pending has come. A group that has not begun by that was acknowledged by another device, up to what has come here. */
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
    // Without a beginning, it is asked only up to where this user holds it.
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
    const { links, me, now, stats, timing } = this.#session;
    const conversation = this.#get(id);
    conversation.wanted = Math.max(conversation.wanted, history.last_seq);
    conversation.raiseFloor(history.first_seq);
    const before = conversation.shown;
    if (before === undefined && !this.#mayHoldOwn(id)) {
      const own = history.members.find(({ user_id }) => user_id === me);
      this.#begin(id, own?.delivered_seq ?? history.last_seq);
    }
    // Asked before the conversation began, so this is its end, not what is missing.
    for (const message of after === undefined ? [] : history.messages) {
      // The page begins at the gap, and can have messages from behind it.
      if (!conversation.has(message.seq)) {
        this.arrived(message, !links.toldCaughtUp && message.sender_id !== me);
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

  /** What is missing will never come: the user is no longer a member. What has come is handed over without it. */
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
