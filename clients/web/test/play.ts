// Plays a script on one client.

import { expect } from "vitest";
import { defaultTiming, type Timing } from "../src/config.ts";
import type { ClientEvent, Why } from "../src/events.ts";
import { apply, copy, nothingSaved, type Queued, type Saved } from "../src/saved.ts";
import type { CallRequest } from "../src/session/calls.ts";
import type { LinkId, Output, Put, Waiter } from "../src/session/core.ts";
import { Session } from "../src/session/session.ts";
import { whyClosed } from "../src/socket.ts";
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

const caughtUp: Step[] = [
  { dials: { need: "connect" } },
  { told: { state: "connecting" } },
  { open: {} },
  { told: { state: "online" } },
  { asks: { action: "drain" }, result: { messages: [], more: false } },
  { asks: { action: "inbox", limit: 50 }, result: { conversations: [], next_cursor: null } },
  { told: { state: "caught_up" } },
];

export function play(scenario: Scenario): void {
  const play = new Play(scenario);
  for (const step of [...(scenario.begin ? caughtUp : []), ...scenario.steps]) {
    play.take(step);
  }
  play.nothingElse("at the end");
}

class Play {
  #session: Session;
  #now = 1000;
  #timing: Timing;
  #saved: Saved;
  #dialing: LinkId | undefined;
  #open: LinkId[] = [];
  /** The client's outputs that no step has expected yet. */
  #dials: { link: LinkId; need: string }[] = [];
  #asks: { link: LinkId; frame: Json }[] = [];
  #closes: LinkId[] = [];
  #events: ClientEvent[] = [];
  #puts: { id: string; put: Put }[] = [];
  #aborts: string[] = [];
  /** The message whose bytes each URL takes. */
  #putting = new Map<string, string>();
  #answers = new Map<string, { ok: unknown } | { error: string }>();
  /** The requests that have a name. */
  #named = new Map<string, { link: LinkId; frame: Json }>();

  constructor({ saved, timing = {} }: Scenario) {
    this.#saved = { ...nothingSaved(), held: new Map(Object.entries(saved?.held ?? {})) };
    if (saved?.caught_up !== undefined) {
      this.#saved.caughtUp = saved.caught_up;
    }
    const changed = Object.entries(timing).map(([name, value]) => [camel(name), value]);
    this.#timing = { ...defaultTiming, ...Object.fromEntries(changed) };
    this.#session = this.#start();
  }

  #start(): Session {
    this.#dialing = undefined;
    this.#open = [];
    this.#putting.clear();
    const saved = copy(this.#saved);
    const session = new Session({ me: "alice", timing: this.#timing, saved, random: Math.random, now: this.#now });
    session.tick(this.#now);
    this.#collect(session);
    return session;
  }

  take(step: Step): void {
    try {
      if (!this.#expect(step)) {
        this.nothingElse("before this step");
        this.#happen(step);
        this.#collect(this.#session);
      }
    } catch (error) {
      throw new Error(`${JSON.stringify(step)}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  }

  nothingElse(when: string): void {
    const done = [...this.#dials, ...this.#asks, ...this.#closes, ...this.#events, ...this.#puts, ...this.#aborts];
    const left = [...done, ...this.#answers];
    if (left.length > 0) {
      fail(`it has done more ${when}: ${JSON.stringify(left)}`);
    }
  }

  #collect(session: Session): void {
    for (const output of session.takeOutputs()) {
      this.#note(output);
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
        this.#asks.push({ link: output.link, frame });
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
      case "save":
        apply(this.#saved, output.change);
        break;
      case "answer":
        output.settle();
        break;
    }
  }

  // Steps that happen to the client.

  #happen(step: Step): void {
    const session = this.#session;
    if ("app" in step) {
      this.#app(step.app, step.as);
    } else if ("wait" in step) {
      this.#wait(step.wait);
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

  #app(does: Step | string, as: string): void {
    const session = this.#session;
    if (does === "restart") {
      this.#session = this.#start();
    } else if (does === "close") {
      session.closing(this.#now);
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
    apply(this.#saved, { queued });
    this.#session.send(queued, this.#waiter(queued.clientMsgId), this.#now);
  }

  #waiter(name: string): Waiter<unknown> {
    return {
      resolve: (ok) => this.#answers.set(name, { ok }),
      reject: ({ code }) => this.#answers.set(name, { error: code }),
    };
  }

  #wait(ms: number): void {
    const end = this.#now + ms;
    while (this.#session.nextTick() < end) {
      this.#tick(this.#session.nextTick());
      this.nothingElse(`${end - this.#now} ms before the end`);
    }
    this.#tick(end);
  }

  #tick(at: number): void {
    this.#now = Math.max(this.#now, at);
    this.#session.tick(this.#now);
    this.#collect(this.#session);
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

  #answer(asked: { link: LinkId; frame: Json } | undefined, step: Step): void {
    const { link, frame } = asked ?? fail("there is no request of that name");
    const { action, id } = frame;
    if ("broken" in step) {
      const text = JSON.stringify({ type: "reply", action, id, result: step.broken });
      this.#session.received(link, text, this.#now);
    } else if ("error" in step) {
      this.#say({ link }, { type: "error", action, id, error: step.error });
    } else {
      this.#say({ link }, { type: "reply", action, id, result: step.result });
    }
  }

  // Steps that the client must do.

  /** `false`: the step expects nothing. */
  #expect(step: Step): boolean {
    if ("dials" in step) {
      const { link, need } = this.#next(step, () => this.#dials.shift());
      expect(need).toBe(step.dials.need);
      this.#dialing = link;
    } else if ("asks" in step) {
      this.#expectRequest(step);
    } else if ("puts" in step) {
      const { id, put } = this.#next(step, () => this.#puts.shift());
      expect(put).toEqual(step.puts);
      this.#putting.set(put.url, id);
    } else if ("aborts" in step) {
      expect(this.#aborts.shift(), "aborts").toBe(step.aborts);
    } else if ("closes" in step) {
      expect(this.#closes.shift(), "closes").toBe(step.closes);
    } else if ("told" in step) {
      for (const told of [step.told].flat()) {
        this.#expectEvent(step, told);
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
      this.#expectSaved(step.saved);
    } else {
      return false;
    }
    return true;
  }

  #expectRequest(step: Step): void {
    const wanted = comparable(step.asks);
    const fitting = ({ frame: { id, ...frame } }: { frame: Json }) => comparable(frame) === wanted;
    const asked = this.#next(step, () => {
      const at = this.#asks.findIndex(fitting);
      return at < 0 ? undefined : this.#asks.splice(at, 1)[0];
    });
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
      this.#collect(this.#session);
    }
  }

  #expectEvent(step: Step, told: Json): void {
    const event = this.#next(step, () => this.#events.shift());
    expect(plain(event)).toMatchObject(told);
    if (event.type === "message" && step.done !== false) {
      this.#session.handled(event.message.conversation_id, event.message.seq, this.#now);
      this.#collect(this.#session);
    }
  }

  #expectSaved({ outbox = [], held = {}, caught_up }: Step): void {
    const saved = {
      outbox: this.#saved.outbox.map(({ clientMsgId }) => clientMsgId),
      held: Object.fromEntries(this.#saved.held),
      caught_up: this.#saved.caughtUp,
    };
    expect(saved).toEqual({ outbox, held, caught_up });
  }

  /** Takes the expected output if it is present, or comes within the time that the step allows. */
  #next<T>({ within = 0 }: Step, take: () => T | undefined): T {
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
      this.#tick(next);
    }
  }
}
