// One user of the soak with clients of all languages, which starts this program, and kills it at any time. The user sends
// messages "1", "2" … to each peer, and keeps a view of each conversation open. `npm run build` comes first.
//
// The arguments are `URL TOKEN USER FOLDER PEER,PEER… MESSAGES`, with the number of messages to each peer. The program
// prints and reads the same lines as Soak.kt of the Kotlin client, which explains them.

import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { WebSocket } from "ws";
import { keyValueStorage, open } from "../dist/index.js";

/** Messages to a peer that wait for the server's reply. */
const UNDER_WAY_MAX = 8;

/** Waits are shorter than usual where they would only lengthen the run. */
const TIMING = {
  retryFirst: 50,
  reconnectFirst: 20,
  reconnectMax: 1000,
  lifetime: 60_000,
  lifetimeJitter: 40_000,
};

class Room {
  #me;
  #peer;
  #chat;
  #view;

  constructor(me, peer, chat) {
    this.#me = me;
    this.#peer = peer;
    this.#chat = chat;
    this.#view = chat.messages();
    this.#view.subscribe(() => {
      const last = this.#view.items.findLast(({ type, seq }) => type === "message" && seq !== undefined);
      this.#view.seen(last);
    });
  }

  /** Sends the rest of the messages. */
  async talk(messages) {
    const said = await this.#said();
    if (said > 0) {
      console.log(`said ${this.#peer} ${said}`);
    }
    for (let number = said + 1; number <= messages; number += 1) {
      const sent = await this.#chat.send(`${number}`);
      console.log(`said ${this.#peer} ${number}`);
      if (number % UNDER_WAY_MAX === 0) {
        await sent.stored;
      }
    }
  }

  /** The number of the last own message, which is stored or in the outbox. */
  async #said() {
    for (let screen = await this.#shown(); ; screen = await this.#older()) {
      const own = screen.items.findLast(({ type, senderId }) => type === "message" && senderId === this.#me);
      if (own || !screen.hasOlder) {
        return Number(own?.body ?? 0);
      }
    }
  }

  /**
   * The whole conversation without its separators. A view shows a part of it, so this begins at the end, and puts what is
   * older before what it has.
   */
  async report() {
    this.#view.jumpTo("newest");
    while (this.#view.getSnapshot()?.hasNewer !== false) {
      await this.#change(1000);
    }
    let screen = this.#view.getSnapshot();
    const { unread } = screen;
    let items = drawn(screen);
    while (screen.hasOlder) {
      screen = await this.#older();
      const older = drawn(screen);
      const known = older.findIndex(({ key }) => key === items[0]?.key);
      items = [...(known < 0 ? older : older.slice(0, known)), ...items];
    }
    const report = items.map((item) =>
      item.type === "message"
        ? [item.seq, item.senderId, item.body, item.progress?.state]
        : [undefined, undefined, JSON.stringify(item)],
    );
    return { peer: this.#peer, unread, items: report };
  }

  async #shown() {
    while (this.#view.getSnapshot() === undefined) {
      await this.#change(1000);
    }
    return this.#view.getSnapshot();
  }

  async #older() {
    this.#view.loadOlder();
    // A page that was lost must be requested again.
    await this.#change(1000);
    return this.#shown();
  }

  /** Resolves at the next change of the view, or after this time. */
  #change(within) {
    return new Promise((resolve) => {
      const end = () => {
        stop();
        clearTimeout(timer);
        resolve();
      };
      const stop = this.#view.subscribe(end);
      const timer = setTimeout(end, within);
    });
  }
}

const drawn = ({ items }) => items.filter(({ type }) => type !== "day" && type !== "unread");

/** A string for each file. A file is written beside its place first, so that it is whole after a kill. */
function files(folder) {
  const pathOf = (name) => join(folder, encodeURIComponent(name));
  return {
    getItem: (name) => (existsSync(pathOf(name)) ? readFileSync(pathOf(name), "utf8") : null),
    setItem(name, text) {
      writeFileSync(`${pathOf(name)}.new`, text);
      renameSync(`${pathOf(name)}.new`, pathOf(name));
    },
    removeItem: (name) => rmSync(pathOf(name), { force: true }),
  };
}

const [url, token, userId, folder, peers, messages] = process.argv.slice(2);
const pigeonhole = await open({
  url,
  userId,
  token: async () => token,
  storage: keyValueStorage(files(folder), userId),
  webSocket: (url, protocols) => new WebSocket(url, protocols),
  timing: TIMING,
});
pigeonhole.onEvent(({ type, state }) => {
  if (type === "state" && state === "caught_up") {
    console.log("online");
  }
});
const rooms = peers.split(",").map((peer) => new Room(userId, peer, pigeonhole.direct(peer)));
const talks = rooms.map((room) => room.talk(Number(messages)));
Promise.all(talks).then(() => console.log("all"));

for await (const line of createInterface({ input: process.stdin })) {
  if (line !== "report") {
    break;
  }
  const reports = await Promise.all(rooms.map((room) => room.report()));
  for (const report of reports) {
    console.log(JSON.stringify(report));
  }
  // A message is in the outbox as long as its view shows it as waiting.
  console.log(reports.flatMap(({ items }) => items).filter(([, , , state]) => state === "waiting").length);
}
await pigeonhole.close();
process.exit(0);
