// Plays a script on one client.

import { expect } from "vitest";
import type { Act, Shown, ViewOf } from "../src/chat/views.ts";
import type { At } from "../src/chat/window.ts";
import { defaultTiming, type Timing } from "../src/config.ts";
import type { ClientEvent, Why } from "../src/events.ts";
import { nothingSaved, type Queued, type Saved, type Target } from "../src/saved.ts";
import type { Keeper, LinkId, Output, Put } from "../src/session/core.ts";
import { Session } from "../src/session/session.ts";
import type { CallRequest, Waiter } from "../src/session/waiter.ts";
import { whyClosed } from "../src/socket.ts";
import { memoryStorage } from "../src/store/memory.ts";
import { Store } from "../src/store/store.ts";
import type { Write } from "../src/store/types.ts";
import { Ways } from "../src/ways.ts";
import { briefItem, briefRow } from "./brief.ts";
import {
  camel,
  comparable,
  fail,
  fits,
  type Json,
  plain,
  queuedAsWritten,
  queuedOf,
  type Scenario,
  type Step,
} from "./script.ts";

const caughtUp = (by: string): Step[] => [
  { dials: { need: "connect" } },
  { told: { state: "connecting" } },
  { open: {} },
  { told: { state: "online" } },
  { asks: { action: "drain" }, by, result: { messages: [], more: false } },
  { asks: { action: "inbox", limit: 50 }, by, result: { conversations: [], next_cursor: null } },
  { told: { state: "caught_up" } },
];

export async function play(scenario: Scenario): Promise<void> {
  const play = await Play.start(scenario);
  for (const step of [...(scenario.begin ? caughtUp(scenario.http ? "http" : "socket") : []), ...scenario.steps]) {
    await play.take(step);
  }
  play.nothingElse("at the end");
}

/** A request of the client. */
interface Asked {
  link: LinkId;
  by: "socket" | "http";
  frame: Json;
}

class Play {
  #session: Session;
  #store: Store;
  #keeper: Keeper;
  #now = 1000;
  #timing: Timing;
  #dialing: LinkId | undefined;
  #open: LinkId[] = [];
  /** The client's outputs that no step has expected yet. */
  #dials: { link: LinkId; need: string }[] = [];
  #asks: Asked[] = [];
  #closes: LinkId[] = [];
  #events: ClientEvent[] = [];
  #puts: { id: string; put: Put }[] = [];
  #aborts: string[] = [];
  /** The newest content of each view that has changed. */
  #shown = new Map<number, Shown>();
  /** The message whose bytes each URL takes. */
  #putting = new Map<string, string>();
  #answers = new Map<string, { ok: unknown } | { error: string }>();
  /** The requests that have a name. */
  #named = new Map<string, Asked>();
  #hasHttp: boolean;
  #ways = new Ways();
  #isClosing = false;

  static async start({ saved, timing = {}, keep, http }: Scenario): Promise<Play> {
    const store = await Store.open(memoryStorage(), "alice");
    const held = Object.entries(saved?.held ?? {});
    const changes: Write[] = held.map(([conversation_id, seq]) => ({ change: { held: { conversation_id, seq } } }));
    if (saved?.caught_up !== undefined) {
      changes.push({ change: { caughtUp: saved.caught_up } });
    }
    await store.apply(changes, false);
    const changed = Object.entries(timing).map(([name, value]) => [camel(name), value]);
    const play = new Play(store, { ...defaultTiming, ...Object.fromEntries(changed) }, keep, http);
    await play.#restart();
    return play;
  }

  private constructor(store: Store, timing: Timing, keep: Scenario["keep"], http = false) {
    this.#hasHttp = http;
    this.#store = store;
    this.#timing = timing;
    this.#keeper = keep === "messages" ? "store" : "app";
    this.#session = this.#sessionOf(nothingSaved());
  }

  #sessionOf(saved: Saved): Session {
    const [timing, keeper] = [this.#timing, this.#keeper];
    return new Session({ me: "alice", timing, keeper, saved, random: Math.random, now: this.#now });
  }

  async #restart(): Promise<void> {
    this.#dialing = undefined;
    this.#open = [];
    this.#putting.clear();
    this.#session = this.#sessionOf(await this.#store.saved());
    this.#session.tick(this.#now);
    await this.#collect();
  }

  async take(step: Step): Promise<void> {
    try {
      if (!(await this.#expect(step))) {
        this.nothingElse("before this step");
        await this.#happen(step);
        await this.#collect();
      }
    } catch (error) {
      throw new Error(`${JSON.stringify(step)}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  }

  nothingElse(when: string): void {
    const done = [...this.#dials, ...this.#asks, ...this.#closes, ...this.#events, ...this.#puts, ...this.#aborts];
    const left = [...done, ...this.#answers, ...this.#shown];
    if (left.length > 0) {
      fail(`it has done more ${when}: ${JSON.stringify(left)}`);
    }
  }

  /** Commits the turn, then notes what the client does. */
  async #collect(): Promise<void> {
    const session = this.#session;
    const { writes, lasting, outputs } = session.takeStep();
    if (this.#keeper === "app" && !writes.every((write) => "change" in write)) {
      fail("the app keeps its messages");
    }
    await this.#store.apply(writes, lasting);
    for (const output of outputs) {
      if (output.do === "load") {
        session.loaded(output.load, await this.#store.load(output.what), this.#now);
      } else {
        this.#note(output);
      }
    }
    if (outputs.length > 0) {
      await this.#collect();
    }
  }

  #note(output: Output): void {
    switch (output.do) {
      case "dial":
        this.#dials.push(output);
        break;
      case "send": {
        const frame = JSON.parse(output.frame) as Json;
        fits("Request", frame);
        const isPosted =
          this.#hasHttp && !this.#isClosing && this.#ways.takes(`${frame.action}`, `${frame.id}`, this.#now);
        this.#asks.push({ link: output.link, by: isPosted ? "http" : "socket", frame });
        break;
      }
      case "close":
        this.#open = this.#open.filter((link) => link !== output.link);
        this.#closes.push(output.link);
        break;
      case "tell":
        this.#events.push(output.event);
        break;
      case "put":
        this.#puts.push(output);
        break;
      case "abort":
        this.#aborts.push(output.id);
        break;
      case "show":
        this.#shown.set(output.view, output.shown);
        break;
      case "load":
        break;
      case "answer":
        output.settle();
        break;
    }
  }

  // Steps that happen to the client.

  async #happen(step: Step): Promise<void> {
    const session = this.#session;
    if ("app" in step) {
      await this.#app(step.app, step.as);
    } else if ("wait" in step) {
      await this.#wait(step.wait);
    } else if ("open" in step) {
      const link = this.#dialled();
      this.#open.push(link);
      session.opened(link, this.#now, step.open.token_ms);
    } else if ("fail" in step) {
      session.dialFailed(this.#dialled(), step.fail as Why, this.#now);
    } else if ("end" in step) {
      const link = this.#link(step);
      this.#open = this.#open.filter((open) => open !== link);
      session.lost(link, whyClosed(step.end), this.#now);
    } else if ("server" in step) {
      this.#say(step, step.server);
    } else if ("raw" in step) {
      session.received(this.#link(step), step.raw, this.#now);
    } else if ("put" in step) {
      this.#put(step.put);
    } else if ("answer" in step) {
      this.#answer(this.#named.get(step.answer), step);
    } else {
      throw new Error("there is no such step");
    }
  }

  async #app(does: Step | string, as: string): Promise<void> {
    const session = this.#session;
    if (does === "restart") {
      await this.#restart();
    } else if (does === "close") {
      this.#isClosing = true;
      session.closing(this.#now);
    } else if (does === "names") {
      session.showNames(this.#now);
    } else if (does === "wake") {
      session.wake(this.#now);
    } else if (typeof does === "string") {
      throw new Error("an app can't do that");
    } else if (does.send) {
      this.#queue(queuedOf(does.send));
    } else if (does.reply) {
      const { seq: reply_to, ...message } = does.reply;
      this.#queue(queuedOf({ ...message, reply_to }));
    } else if (does.cancel) {
      this.#answers.set(as, { ok: session.cancel(does.cancel.client_msg_id, this.#now) });
    } else if (does.watch) {
      session.watch(does.watch.conversation_id, does.watch.after_seq, this.#waiter(as), this.#now);
    } else if (does.show) {
      session.openView(does.show.view, viewOf(does.show), this.#now);
    } else if (does.act) {
      session.actView(does.act.view, actOf(does.act), this.#now);
    } else if (does.hide) {
      session.closeView(does.hide.view, this.#now);
    } else if (does.draft) {
      const { body, ...target } = does.draft;
      session.draft(target as Target, body === null ? undefined : { body }, this.#now);
    } else if (does.again) {
      session.again(does.again, this.#waiter(as), this.#now);
    } else if (does.dismiss) {
      session.dismiss(does.dismiss, this.#now);
    } else if (does.unwatch) {
      session.unwatch(does.unwatch.conversation_id, this.#now);
    } else if (does.typing) {
      session.type(does.typing.conversation_id, this.#now);
    } else if (does.read) {
      session.read(does.read.conversation_id, does.read.seq, this.#waiter(as), this.#now);
    } else if (does.done) {
      session.handled(does.done.conversation_id, does.done.seq, this.#now);
    } else {
      const [[action, fields] = fail("the app does something")] = Object.entries(does);
      if (fields.client_msg_id !== undefined) {
        // A request that is stored.
        const { client_msg_id, conversation_id, ...what } = fields;
        const place = conversation_id === undefined ? {} : { conversation_id };
        this.#queue(queuedOf({ client_msg_id, ...place, [action]: what }));
        return;
      }
      session.call({ action, ...fields } as CallRequest, this.#waiter(as), this.#now);
    }
  }

  /** Ends a PUT with the result of the step. */
  #put({ url, sent, status, lost }: Step): void {
    const id = this.#putting.get(url) ?? fail(`nothing is put to ${url}`);
    if (sent !== undefined) {
      this.#session.putProgress(id, sent, this.#now);
      return;
    }
    this.#putting.delete(url);
    this.#session.putEnded(id, status ?? (lost ? "lost" : "unreadable"), this.#now);
  }

  #queue(queued: Queued): void {
    this.#session.keep(queued, this.#waiter(queued.clientMsgId), this.#now);
  }

  #waiter(name: string): Waiter<unknown> {
    return {
      resolve: (ok) => this.#answers.set(name, { ok }),
      reject: ({ code }) => this.#answers.set(name, { error: code }),
    };
  }

  async #wait(ms: number): Promise<void> {
    const end = this.#now + ms;
    while (this.#session.nextTick() < end) {
      await this.#tick(this.#session.nextTick());
      this.nothingElse(`${end - this.#now} ms before the end`);
    }
    await this.#tick(end);
  }

  async #tick(at: number): Promise<void> {
    this.#now = Math.max(this.#now, at);
    this.#session.tick(this.#now);
    await this.#collect();
  }

  #dialled(): LinkId {
    const link = this.#dialing;
    this.#dialing = undefined;
    return link ?? fail("nothing is being dialled");
  }

  #link({ link }: Step): LinkId {
    return link ?? this.#open.at(-1) ?? fail("nothing is open");
  }

  #say(step: Step, frame: Json): void {
    fits("ServerFrame", frame);
    this.#session.received(this.#link(step), JSON.stringify(frame), this.#now);
  }

  #answer(asked: Asked | undefined, step: Step): void {
    const { link, by, frame } = asked ?? fail("there is no request of that name");
    const { action, id } = frame;
    let answer: Json = { message: "Too Many Requests" };
    if ("broken" in step) {
      answer = { type: "reply", action, id, result: step.broken };
    } else if ("error" in step) {
      answer = { type: "error", action, id, error: step.error };
    } else if ("result" in step) {
      answer = { type: "reply", action, id, result: step.result };
    }
    if (by === "http") {
      const { status = 200 } = step;
      const posted = status === null ? undefined : { status, body: JSON.stringify(answer) };
      this.#ways.posted(this.#session, link, `${id}`, posted, this.#now);
    } else if ("broken" in step) {
      this.#session.received(link, JSON.stringify(answer), this.#now);
    } else {
      this.#say({ link }, answer);
    }
  }

  // Steps that the client must do.

  /** `false`: the step expects nothing. */
  async #expect(step: Step): Promise<boolean> {
    if ("dials" in step) {
      const { link, need } = await this.#next(step, () => this.#dials.shift());
      expect(need).toBe(step.dials.need);
      this.#dialing = link;
    } else if ("asks" in step) {
      await this.#expectRequest(step);
    } else if ("shows" in step) {
      this.#expectShown(step.shows);
    } else if ("puts" in step) {
      const { id, put } = await this.#next(step, () => this.#puts.shift());
      expect(put).toEqual(step.puts);
      this.#putting.set(put.url, id);
    } else if ("aborts" in step) {
      expect(this.#aborts.shift(), "aborts").toBe(step.aborts);
    } else if ("closes" in step) {
      expect(this.#closes.shift(), "closes").toBe(step.closes);
    } else if ("told" in step) {
      for (const told of [step.told].flat()) {
        await this.#expectEvent(step, told);
      }
    } else if ("answered" in step) {
      const answer = this.#answers.get(step.answered) ?? fail("it is not answered");
      this.#answers.delete(step.answered);
      const { error, ok } = step;
      expect(Object.keys(answer)).toEqual([error ? "error" : "ok"]);
      if ((typeof ok === "object" && !Array.isArray(ok)) || error) {
        expect(answer).toMatchObject(error ? { error } : { ok });
      } else if (ok !== undefined) {
        expect(answer).toEqual({ ok });
      }
    } else if ("outbox" in step) {
      const waiting = this.#session.outbox.waiting().map(queuedAsWritten);
      const isNamed = (at: number) => typeof step.outbox[at] === "string";
      expect(waiting.map((queued, at) => (isNamed(at) ? queued.client_msg_id : queued))).toEqual(step.outbox);
    } else if ("stats" in step) {
      const stats = Object.entries(step.stats).map(([name, count]) => [camel(name), count]);
      expect(this.#session.stats).toMatchObject(Object.fromEntries(stats));
    } else if ("saved" in step) {
      await this.#expectSaved(step.saved);
    } else {
      return false;
    }
    return true;
  }

  #expectShown({ view, ...expected }: Step): void {
    const shown = this.#shown.get(view) ?? fail(`the view ${view} has not changed`);
    this.#shown.delete(view);
    const found: Record<string, unknown> = {};
    if ("chats" in shown) {
      const { rows, unread, names } = shown.chats;
      Object.assign(found, { rows: rows.map(briefRow), unread, names: Object.fromEntries(names ?? []) });
    } else if ("messages" in shown) {
      const { items, unread, hasOlder: has_older, hasNewer: has_newer, names, pins } = shown.messages;
      const named = Object.fromEntries(names ?? []);
      Object.assign(found, { items: items.map(briefItem), unread, has_older, has_newer, names: named });
      Object.assign(found, { pins: pins.map(({ seq, message }) => [seq, message?.body ?? null]) });
    }
    for (const [name, value] of Object.entries(expected)) {
      expect(found[name], name).toEqual(value);
    }
  }

  async #expectRequest(step: Step): Promise<void> {
    const wanted = comparable(step.asks);
    const fitting = ({ frame: { id, ...frame } }: Asked) => comparable(frame) === wanted;
    const asked = await this.#next(step, () => {
      const at = this.#asks.findIndex(fitting);
      return at < 0 ? undefined : this.#asks.splice(at, 1)[0];
    });
    expect(asked.by).toBe(step.by ?? "socket");
    if (step.link) {
      expect(asked.link, "link").toBe(step.link);
    }
    if (step.again) {
      expect(asked.frame.id, "id").toBe(this.#named.get(step.again)?.frame.id);
    }
    if (step.as) {
      this.#named.set(step.as, asked);
    }
    if ("result" in step || "error" in step) {
      this.#answer(asked, step);
      await this.#collect();
    }
  }

  async #expectEvent(step: Step, told: Json): Promise<void> {
    const event = await this.#next(step, () => this.#events.shift());
    expect(plain(event)).toMatchObject(told);
    if (event.type === "message" && step.done !== false) {
      this.#session.handled(event.message.conversation_id, event.message.seq, this.#now);
      await this.#collect();
    }
  }

  async #expectSaved({ outbox = [], held = {}, caught_up }: Step): Promise<void> {
    const found = await this.#store.saved();
    const saved = {
      outbox: found.outbox.map(({ clientMsgId }) => clientMsgId),
      held: Object.fromEntries(found.held),
      caught_up: found.caughtUp,
    };
    expect(saved).toEqual({ outbox, held, caught_up });
  }

  /** Takes the expected output if it is present, or comes within the time that the step allows. */
  async #next<T>({ within = 0 }: Step, take: () => T | undefined): Promise<T> {
    const end = this.#now + within;
    for (let found = take(); ; found = take()) {
      if (found !== undefined) {
        return found;
      }
      const next = this.#session.nextTick();
      if (within === 0 || next > end) {
        const done = [...this.#dials, ...this.#asks, ...this.#closes, ...this.#events, ...this.#puts];
        fail(`it has not. What it has done: ${JSON.stringify(done)}`);
      }
      await this.#tick(next);
    }
  }
}

/** The content of a view, in the script's words. */
function viewOf({ chats, messages }: Step): ViewOf {
  return chats ? { chats } : { messages: { with: messages.with, at: atOf(messages.at) } };
}

function actOf({ view: _, ...act }: Step): Act {
  const [[name, what] = fail("the user acts")] = Object.entries(act);
  if (name === "jump") {
    return { jump: atOf(what) };
  }
  return (what === true ? name : { [name]: what }) as Act;
}

function atOf(at: unknown): At {
  return at === "first_unread" ? "firstUnread" : typeof at === "number" ? { seq: at } : "newest";
}
