// Devices of users in one chat: clients of the web, and programs of the Rust client, which are chats in a terminal.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Chat, type MessagesView, memoryStorage, open, type Pigeonhole } from "../src/index.ts";
import { type Keys, Security } from "../src/sealed.ts";
import { nodeSocket } from "../test/server.ts";
import { type LocalServer, published } from "./local-server.ts";

const CHAT = fileURLToPath(new URL("../../../target/debug/examples/chat", import.meta.url));

/** A device of a user, with one chat open. */
export interface Device {
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
  readonly user: string;
  readonly name: string;
  #peer: string;
  #client: Pigeonhole;
  #chat: Chat;
  #view: MessagesView;
  #security: Security;

  static async open(server: LocalServer, { user, peer, keys }: Owner, name: string): Promise<WebDevice> {
    const config = { ...(await server.config(user)), deviceId: name, storage: memoryStorage(), encrypted: keys };
    const client = await open({ ...config, webSocket: nodeSocket });
    await published(client);
    return new WebDevice(client, user, peer, name);
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

  private constructor(client: Pigeonhole, user: string, peer: string, name: string) {
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

  close(): Promise<void> {
    return this.#client.close();
  }
}

/** A program of the Rust client, which prints a line for each message. */
export class TerminalDevice implements Device {
  readonly user: string;
  readonly name: string;
  #process: ChildProcess;
  #lines: string[] = [];
  #looks = 0;
  #folder: string;
  /** How often a caller has waited for a join. */
  #joins = 0;
  #waiting = new Set<() => void>();

  static async open(server: LocalServer, owner: Owner, name: string, folder: string): Promise<TerminalDevice> {
    const { user, peer, keys } = owner;
    const file = join(folder, `${user}.keys`);
    writeFileSync(file, Buffer.from(keys.export()).toString("base64"));
    const url = `${server.url.replace("http", "ws")}/v1`;
    const words = ["--store", join(folder, `${name}.store`), "--encrypted", file, user, peer, url];
    const device = new TerminalDevice(user, `terminal-${name}`, spawn(CHAT, words), folder);
    await device.#prints((line) => line === "-- connected");
    const isListed = () => device.#lines.some((line) => line.startsWith(`-- ${device.name}`));
    for (let asked = 1; !isListed(); asked += 1) {
      // The program answers the second line in any case, after the first.
      device.#type(`/devices\n/look-${asked}`);
      await device.#prints((line) => line.startsWith(`!! /look-${asked} `));
    }
    return device;
  }

  private constructor(user: string, name: string, process: ChildProcess, folder: string) {
    this.#folder = folder;
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
  }

  #type(line: string): void {
    this.#process.stdin?.write(`${line}\n`);
  }

  /** Resolves once the program has printed such a line. */
  #prints(fits: (line: string) => boolean): Promise<void> {
    return new Promise((resolve) => {
      let at = 0;
      const look = () => {
        const isThere = this.#lines.slice(at).some(fits);
        at = this.#lines.length;
        if (isThere) {
          this.#waiting.delete(look);
          resolve();
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

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGKILL");
    await ended;
  }
}
