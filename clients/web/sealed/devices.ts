// Devices of users in one chat: clients of the web, and programs of the Rust and the Kotlin client, which are chats in a
// terminal.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { type Chat, type MessagesView, memoryStorage, open, type Pigeonhole, type Storage } from "../src/index.ts";
import { type Keys, Security } from "../src/sealed.ts";
import { nodeSocket } from "../test/server.ts";
import { type LocalServer, published } from "./local-server.ts";

const BUILT = fileURLToPath(new URL("../../../target", import.meta.url));

export type Client = "web" | "rust" | "kotlin";

/** The command of a chat in a terminal, and the place of its store. */
interface Terminal {
  command: (keys: string, user: string, peer: string, url: string) => string[];
  store: string;
}

const TERMINALS = {
  rust: (place: string): Terminal => ({
    command: (keys, ...words) => [`${BUILT}/debug/examples/chat`, "--store", place, "--encrypted", keys, ...words],
    store: place,
  }),
  kotlin: (place: string): Terminal => ({
    command: (keys, ...words) => [...java(), "dev.pigeonhole.ChatKt", ...words, place, keys],
    store: `${place}/store`,
  }),
};

/** Returns the epoch of each device and its authenticator, as the devices have stored them. */
export async function epochs(devices: readonly Device[]): Promise<[number, string][]> {
  const reader = spawn(`${BUILT}/debug/examples/authenticators`, { stdio: ["pipe", "pipe", "inherit"] });
  reader.stdin.end(JSON.stringify(await Promise.all(devices.map((device) => device.keys()))));
  return (await json(reader.stdout)) as [number, string][];
}

/** Begins the command of a Kotlin program. `just interop` writes the file with the paths of the libraries. */
function java(): string[] {
  const own = ["test-classes", "classes"].map((part) => `${BUILT}/kotlin/maven/${part}`);
  const others = readFileSync(`${BUILT}/kotlin/classpath`, "utf8").trim();
  return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", [...own, others].join(":")];
}

/** A device of a user, with one chat open. */
export interface Device {
  readonly client: Client;
  readonly user: string;
  readonly name: string;
  say(text: string): Promise<void>;
  /** Resolves once the device shows this text, as an encrypted message. */
  shows(text: string): Promise<void>;
  /** Sends a file, and returns the place of its message, if the device knows it. */
  sendFile(bytes: Buffer, caption: string): Promise<number>;
  /** Downloads the file of the message with this place or this caption. */
  fileOf(seq: number, caption: string): Promise<Buffer>;
  /** Resolves once the device has joined, once more with each call. */
  joined(): Promise<void>;
  /** Resolves once the device has no part any more. */
  out(): Promise<void>;
  reset(): Promise<void>;
  /** The user no longer has the other device. */
  forget(other: Device): Promise<void>;
  add(user: string): Promise<void>;
  remove(user: string): Promise<void>;
  leave(): Promise<void>;
  /** Returns the messages since its join that the device could not read. */
  unreadable(): string[];
  /** Returns what `examples/authenticators.rs` of the store reads. */
  keys(): Promise<unknown>;
  close(): Promise<void>;
}

export interface Owner {
  user: string;
  /** The other user, or a group. */
  peer: string;
  keys: Keys;
}

/** A client of the web. */
export class WebDevice implements Device {
  readonly client = "web";
  readonly user: string;
  readonly name: string;
  #peer: string;
  #client: Pigeonhole;
  #chat: Chat;
  #view: MessagesView;
  #security: Security;
  #storage: Storage;

  static async open(server: LocalServer, { user, peer, keys }: Owner, name: string): Promise<WebDevice> {
    const storage = memoryStorage();
    const config = { ...(await server.config(user)), deviceId: name, storage, encrypted: keys };
    const client = await open({ ...config, webSocket: nodeSocket });
    // A new encryption leaves a device without keys out.
    await published(client, name);
    return new WebDevice(client, user, peer, name, storage);
  }

  /** Creates an encrypted group with these members, whose devices have published keys. Returns the id. */
  static async create(server: LocalServer, { user, keys }: Owner, name: string, members: string[]): Promise<string> {
    const config = { ...(await server.config(user)), deviceId: name, storage: memoryStorage(), encrypted: keys };
    const client = await open({ ...config, webSocket: nodeSocket });
    const made = await client.newGroup({ title: "Friends", members, encrypted: true });
    const { conversation_id } = await made.stored;
    await client.close();
    return conversation_id;
  }

  private constructor(client: Pigeonhole, user: string, peer: string, name: string, storage: Storage) {
    this.#storage = storage;
    this.user = user;
    this.name = name;
    this.#peer = peer;
    this.#client = client;
    this.#chat = peer.startsWith("gr_") ? client.conversation(peer) : client.direct(peer);
    this.#view = this.#chat.messages();
    this.#security = new Security(client);
  }

  async say(text: string): Promise<void> {
    await (await this.#chat.send(text)).stored;
  }

  shows(text: string): Promise<void> {
    return this.#until(({ items }) => items.some((it) => it.type === "message" && it.isSealed && it.body === text));
  }

  async sendFile(bytes: Buffer, caption: string): Promise<number> {
    const sent = await this.#chat.sendFile({
      blob: new Blob([new Uint8Array(bytes)]),
      kind: "file",
      name: "a.bin",
      body: caption,
    });
    return (await sent.stored).seq;
  }

  async fileOf(_: number, caption: string): Promise<Buffer> {
    const item = this.#view.items.find((item) => item.type === "message" && item.body === caption);
    const media = item?.type === "message" ? item.media : undefined;
    return Buffer.from(await (await this.#client.download({ kind: "file", media })).arrayBuffer());
  }

  /** Tells the operator about the message with this text. */
  async report(conversationId: string, text: string): Promise<void> {
    const item = this.#view.items.find((item) => item.type === "message" && item.body === text);
    const seq = item?.type === "message" ? item.seq : undefined;
    await this.#client.report({ conversationId, seqs: [seq ?? 0], reason: "abuse" });
  }

  joined(): Promise<void> {
    return this.#until(({ chat }) => chat?.lock === "sealed");
  }

  out(): Promise<void> {
    return this.#until(({ chat }) => chat?.lock === "joining");
  }

  #until(fits: (view: MessagesView) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (fits(this.#view)) {
          end();
          resolve();
        }
      };
      const end = this.#view.subscribe(look);
      queueMicrotask(look);
    });
  }

  reset(): Promise<void> {
    return this.#security.reset(this.#peer);
  }

  forget({ name }: Device): Promise<void> {
    return this.#security.removeDevice(name);
  }

  async add(user: string): Promise<void> {
    await (await this.#chat.add([user])).stored;
  }

  async remove(user: string): Promise<void> {
    await (await this.#chat.remove(user)).stored;
  }

  async leave(): Promise<void> {
    await (await this.#chat.leave()).stored;
  }

  unreadable(): string[] {
    return this.#view.items.flatMap((item) =>
      item.type === "unreadable" && item.why !== "before_join" ? `${item.seq} ${item.why}` : [],
    );
  }

  async keys(): Promise<unknown> {
    const database = await this.#storage.open();
    const rows = await database.transaction("read", (transaction) => transaction.range("sealing"));
    return { user: this.user, peer: this.#peer, rows: Object.fromEntries(rows) };
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

interface Place {
  client: Client;
  user: string;
  peer: string;
  name: string;
  folder: string;
  store: string;
}

/** A program of the Rust or the Kotlin client, which prints a line for each message. */
export class TerminalDevice implements Device {
  readonly client: Client;
  readonly user: string;
  readonly name: string;
  #process: ChildProcess;
  #lines: string[] = [];
  #hasEnded = false;
  #looks = 0;
  #folder: string;
  #peer: string;
  #store: string;
  /** How often a caller has waited for a join. */
  #joins = 0;
  #waiting = new Set<() => void>();

  static async open(
    client: Exclude<Client, "web">,
    server: LocalServer,
    { user, peer, keys }: Owner,
    name: string,
    folder: string,
  ): Promise<TerminalDevice> {
    const file = join(folder, `${user}.keys`);
    writeFileSync(file, Buffer.from(keys.export()).toString("base64"));
    const { command, store } = TERMINALS[client](join(folder, name));
    const [program = "", ...words] = command(file, user, peer, `${server.url.replace("http", "ws")}/v1`);
    const device = new TerminalDevice(
      { client, user, peer, name: `terminal-${name}`, folder, store },
      spawn(program, words),
    );
    await device.#prints((line) => line === "-- connected");
    const isListed = () => device.#lines.some((line) => line.startsWith(`-- ${device.name}`));
    for (let asked = 1; !isListed(); asked += 1) {
      // The program answers the second line in any case, after the first.
      device.#type(`/devices\n/look-${asked}`);
      await device.#prints((line) => line.startsWith(`!! /look-${asked} `));
    }
    return device;
  }

  private constructor({ client, user, peer, name, folder, store }: Place, process: ChildProcess) {
    this.#folder = folder;
    this.#peer = peer;
    this.#store = store;
    this.client = client;
    this.user = user;
    this.name = name;
    this.#process = process;
    const take = (line: string) => {
      this.#lines.push(line);
      for (const look of this.#waiting) {
        look();
      }
    };
    for (const stream of [process.stdout, process.stderr]) {
      stream && createInterface(stream).on("line", take);
    }
    process.once("close", () => {
      this.#hasEnded = true;
      for (const look of this.#waiting) {
        look();
      }
    });
  }

  #type(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  /** Resolves once the program has printed such a line. Fails if the program ends. */
  #prints(fits: (line: string) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let at = 0;
      const look = () => {
        const isThere = this.#lines.slice(at).some(fits);
        at = this.#lines.length;
        if (isThere) {
          this.#waiting.delete(look);
          resolve();
        } else if (this.#hasEnded) {
          reject(new Error(`${this.name} has ended:\n${this.#lines.slice(-20).join("\n")}`));
        }
      };
      this.#waiting.add(look);
      look();
    });
  }

  async say(text: string): Promise<void> {
    this.#type(text);
    await this.shows(text);
  }

  shows(text: string): Promise<void> {
    // A file is named before its caption.
    const shown = (line: string) => line.split(" (")[0]?.replace(/\[.*\] /, "");
    return this.#prints((line) => /^#\d+ /.test(line) && shown(line)?.endsWith(`🔒 ${text}`) === true);
  }

  async sendFile(bytes: Buffer, caption: string): Promise<number> {
    const path = join(this.#folder, `${this.name}-sent`);
    writeFileSync(path, bytes);
    this.#type(`/send ${path} ${caption}`);
    return 0;
  }

  async fileOf(seq: number): Promise<Buffer> {
    const path = join(this.#folder, `${this.name}-saved`);
    await this.#answers(`/save ${seq} ${path}`);
    return readFileSync(path);
  }

  joined(): Promise<void> {
    this.#joins += 1;
    let left = this.#joins;
    return this.#prints((line) => {
      left -= line.startsWith("!! this device reads what is sent behind") ? 1 : 0;
      return left === 0;
    });
  }

  async out(): Promise<void> {}

  async reset(): Promise<void> {
    this.#type("/reset");
  }

  async forget({ name }: Device): Promise<void> {
    this.#type(`/forget ${name}`);
  }

  add(user: string): Promise<void> {
    return this.#answers(`/add ${user}`);
  }

  remove(user: string): Promise<void> {
    return this.#answers(`/remove ${user}`);
  }

  leave(): Promise<void> {
    return this.#answers("/leave");
  }

  /** The program answers this line once the server has. */
  async #answers(line: string): Promise<void> {
    this.#looks += 1;
    this.#type(`${line}\n/done-${this.#looks}`);
    await this.#prints((printed) => printed.startsWith(`!! /done-${this.#looks} `));
  }

  unreadable(): string[] {
    // The last line of a message is its state.
    const last = new Map(this.#lines.map((line) => [/^#\d+ /.exec(line)?.[0], line]));
    return [...last.values()].filter((line) => /^#\d+ \S+: \((?!sent before|deleted)/.test(line));
  }

  async keys(): Promise<unknown> {
    return { user: this.user, peer: this.#peer, store: this.#store };
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGKILL");
    await ended;
  }
}
