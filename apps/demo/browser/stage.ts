// A real server and a real browser.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Pane } from "./pane.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SCREENSHOTS = fileURLToPath(new URL("../screenshots", import.meta.url));
/** Cargo may have to build first. */
const START_MS_MAX = 540_000;
export const TEST_MS_MAX = 120_000;
/** A connection that has gone silent counts as lost after 15 s. */
const WAIT_MS_MAX = 40_000;

/** `cargo run`, with tables that survive it. */
class Server {
  #data: string;
  #port: number;
  #process: ChildProcess | undefined;

  static async start(): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "pigeonhole-")), await freePort());
    await server.start();
    return server;
  }

  private constructor(data: string, port: number) {
    this.#data = data;
    this.#port = port;
  }

  /** Resolves when the server has printed the demo's address. */
  async start(): Promise<void> {
    const { CARGO = "cargo" } = process.env;
    // A request that takes long counts as several, and a test machine can be slow.
    const rate = ["--parameter", "RequestRate=off"];
    const options = ["--port", String(this.#port), "--data", this.#data, "--batching-window", "0", ...rate];
    const server = spawn(CARGO, ["run", "--quiet", "--", ...options], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#process = server;
    for await (const line of createInterface(server.stdout)) {
      if (line.includes(`demo      ${this.url}`)) {
        // Its logs are not used, but must be read, or it would block.
        server.stdout.resume();
        return;
      }
    }
    throw new Error("the server has ended before it was ready");
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Returns the reports of this user, as an operator reads them. */
  async reportsOf(user: string): Promise<{ reporter_id: string }[]> {
    const { admin_url } = await (await fetch(`${this.url}local`)).json();
    const body = JSON.stringify({ op: "reports", month: new Date().toISOString().slice(0, 7) });
    const headers = { "content-type": "application/json" };
    const { result } = await (await fetch(admin_url, { method: "POST", headers, body })).json();
    return result.reports.filter(({ reporter_id }: { reporter_id: string }) => reporter_id === user);
  }

  /** As in a power failure. */
  async kill(): Promise<void> {
    const server = this.#process;
    const ended = new Promise((resolve) => server?.once("exit", resolve));
    server?.kill("SIGKILL");
    await ended;
  }

  /** Its tables are gone, as where they are in memory. */
  async forget(): Promise<void> {
    await this.kill();
    await rm(this.#data, { recursive: true });
    await mkdir(this.#data);
  }

  async end(): Promise<void> {
    await this.kill();
    await rm(this.#data, { recursive: true });
  }
}

/** Returns a free port. The next two are free too, for the database and the objects. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = await tryPort(0);
    if (port !== undefined && (await tryPort(port + 1)) !== undefined && (await tryPort(port + 2)) !== undefined) {
      return port;
    }
  }
}

function tryPort(port: number): Promise<number | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
    });
  });
}

function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // A microphone that beeps, without a question.
      "--use-fake-device-for-media-stream",
      "--use-fake-ui-for-media-stream",
    ],
  });
}

/** A browser profile on the demo's page. Errors and warnings of its console are kept. */
export class Visitor {
  readonly complaints: string[] = [];
  /** The test has cut the network, so the console reports errors. */
  mayFail = false;
  readonly context: BrowserContext;
  #url: string;

  static async arrive(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Visitor> {
    const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
    context.setDefaultTimeout(WAIT_MS_MAX);
    return new Visitor(context, url);
  }

  private constructor(context: BrowserContext, url: string) {
    this.context = context;
    this.#url = url;
    context.on("weberror", (error) => this.complaints.push(String(error.error())));
    context.on("console", (message) => {
      const isOfNetwork = /net::ERR_|WebSocket connection to/.test(message.text());
      if (["error", "warning"].includes(message.type()) && !(this.mayFail && isOfNetwork)) {
        this.complaints.push(message.text());
      }
    });
  }

  async open(path = ""): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(this.#url + path);
    return page;
  }

  /** A tab with one user. */
  async tab(user: string, peer: string): Promise<Pane> {
    return new Pane(await this.open(`?user=${user}&with=${peer}`), user);
  }
}

/** The server, the browser and the visitors of all tests in a file. A test fails if a console has complained. */
export class Stage {
  readonly visitors: Visitor[] = [];
  #server: Server | undefined;
  #browser: Browser | undefined;
  #options: BrowserContextOptions;

  constructor(options: BrowserContextOptions = {}) {
    this.#options = options;
    beforeAll(async () => {
      [this.#server, this.#browser] = await Promise.all([Server.start(), launch()]);
    }, START_MS_MAX);
    afterAll(async () => {
      await this.#browser?.close();
      await this.#server?.end();
    });
    afterEach(async () => {
      const complaints = this.visitors.flatMap((visitor) => visitor.complaints);
      await Promise.all(this.visitors.splice(0).map(({ context }) => context.close()));
      expect(complaints).toEqual([]);
    });
  }

  get server(): Server {
    if (this.#server === undefined) {
      throw new Error("the server is there once the tests run");
    }
    return this.#server;
  }

  async arrive(options?: BrowserContextOptions): Promise<Visitor> {
    if (this.#browser === undefined) {
      throw new Error("the browser is there once the tests run");
    }
    const visitor = await Visitor.arrive(this.#browser, this.server.url, { ...this.#options, ...options });
    this.visitors.push(visitor);
    return visitor;
  }
}

export const test = (name: string, run: () => Promise<void>) => it(name, run, TEST_MS_MAX);

/** Users side by side, all of them online. Each test has its own. */
export async function sideBySide<Users extends string[]>(
  page: Page,
  ...users: Users
): Promise<{ [user in keyof Users]: Pane }> {
  const panes = users.map((user) => new Pane(page, user));
  for (const pane of panes) {
    await pane.isState("Online");
  }
  return panes as { [user in keyof Users]: Pane };
}

export async function screenshot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), animations: "disabled" });
}
