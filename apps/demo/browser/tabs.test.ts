// Tabs of one user in a browser that are closed, reloaded and killed with messages under way, against the server that
// `cargo run` starts. TABS_ROUNDS is how often.

import { fileURLToPath } from "node:url";
import type { BrowserContext, Page } from "playwright-core";
import { build, type Plugin } from "vite";
import { expect, it } from "vitest";
import { Stage, TEST_MS_MAX } from "./stage.ts";
import type {} from "./tabs-page.ts";

const ROUNDS = Number(process.env.TABS_ROUNDS ?? 12);
const TABS = 3;
/** The longest time of a round, in milliseconds. */
const ROUND_MS_MAX = 5000;
/** All messages have arrived after this number of rounds. */
const SETTLE_EVERY = 10;
/** The longest time until all messages are everywhere, in milliseconds. */
const SETTLE_MS_MAX = 60_000;
/** The number of texts that each tab shows. */
const NEWEST = 30;
const ENDS = ["close", "reload", "crash", "nothing"] as const;

const stage = new Stage();

/** Returns the page's program, with this version of the client's tables. */
async function bundled(version?: number): Promise<string> {
  const source = fileURLToPath(new URL("../../../clients/web/src/index.ts", import.meta.url));
  const own = /VERSION = \d+/;
  const versioned: Plugin = {
    name: "version",
    transform: (code, id) =>
      version !== undefined && id.endsWith("/store/database.ts") && own.test(code)
        ? code.replace(own, `VERSION = ${version}`)
        : null,
  };
  const built = await build({
    configFile: false,
    logLevel: "silent",
    plugins: [versioned],
    resolve: { alias: { "@pigeonhole/client": source } },
    build: {
      write: false,
      target: "es2022",
      lib: { entry: fileURLToPath(new URL("tabs-page.ts", import.meta.url)), formats: ["iife"], name: "page" },
    },
  });
  const [{ output }] = built as unknown as [{ output: { code?: string }[] }];
  return output[0]?.code ?? "";
}

/** A user's browser. */
class Profile {
  readonly taken = new Set<string>();
  readonly pages: Page[] = [];
  #context: BrowserContext;
  #url: string;
  #script: string;

  static async of(user: string, peer: string, script: string): Promise<Profile> {
    const visitor = await stage.arrive();
    // A page that goes cuts its requests.
    visitor.mayFail = true;
    const { context } = visitor;
    // The page of the server that only has data has no icon.
    await context.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    const profile = new Profile(context, `${stage.server.url}local?user=${user}&user=${peer}`, script);
    await context.exposeBinding("taken", (_, text: string) => {
      profile.taken.add(text);
    });
    return profile;
  }

  private constructor(context: BrowserContext, url: string, script: string) {
    this.#context = context;
    this.#url = url;
    this.#script = script;
  }

  /** Opens a tab, which runs the same program after a reload. */
  async open(script = this.#script): Promise<Page> {
    const page = await this.#context.newPage();
    await page.addInitScript(script);
    await page.goto(this.#url);
    this.pages.push(page);
    return page;
  }

  /** Ends a tab in some way, and opens another one in place of it. */
  async end(page: Page, how: (typeof ENDS)[number]): Promise<void> {
    if (how === "reload") {
      await page.reload();
    } else if (how !== "nothing") {
      this.pages.splice(this.pages.indexOf(page), 1);
      if (how === "crash") {
        const session = await this.#context.newCDPSession(page);
        const crashed = new Promise((resolve) => page.once("crash", resolve));
        session.send("Page.crash").catch(() => {});
        await crashed;
      }
      await page.close();
      await this.open();
    }
  }
}

const storedIn = async (page: Page) => (await page.evaluate(() => window.tabs.stored("tabs"))).sort();

/** Waits until a tab has these texts. */
async function settle(page: Page, texts: string[]): Promise<void> {
  const missing = async () => {
    const stored = new Set(await storedIn(page));
    return texts.filter((text) => !stored.has(text));
  };
  await expect.poll(missing, { timeout: SETTLE_MS_MAX }).toEqual([]);
}

const ready = (page: Page) => page.waitForFunction(() => window.tabs?.state() === "caught_up");
const pick = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)] as T;

it(
  "tabs that die lose no message, and send none twice",
  async () => {
    const script = await bundled();
    const alice = await Profile.of("alice", "bob", script);
    const bob = await Profile.of("bob", "alice", script);
    const other = await bob.open();
    for (let tab = 0; tab < TABS; tab += 1) {
      await alice.open();
    }
    await Promise.all([other, ...alice.pages].map(ready));
    for (let round = 1; round <= ROUNDS; round += 1) {
      const saying = [...alice.pages, other].map((page, tab) =>
        // A page that goes takes what it had not handed over with it.
        page.evaluate((text) => window.tabs?.say(text), `tabs ${round} ${tab}`).catch(() => {}),
      );
      // The tab dies at some step of its message.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
      await alice.end(pick(alice.pages), pick(ENDS));
      await Promise.all(saying);
      if (round % SETTLE_EVERY === 0) {
        await settle(other, [...alice.taken]);
      }
    }
    await Promise.all(alice.pages.map(ready));

    const texts = [...alice.taken, ...bob.taken].sort();
    expect(texts.length).toBeGreaterThan(ROUNDS);
    for (const page of [...alice.pages, other]) {
      await settle(page, texts);
      // Each once.
      const found = await storedIn(page);
      expect(found).toEqual([...new Set(found)]);
    }
    const shown = await Promise.all(alice.pages.map((page) => page.evaluate(() => window.tabs.texts())));
    for (const tab of shown) {
      expect(tab).toEqual([...new Set(tab)]);
      // How far back a tab shows depends on when it was opened.
      expect(tab.slice(-NEWEST)).toEqual(shown[0]?.slice(-NEWEST));
    }
  },
  2 * SETTLE_MS_MAX + ROUNDS * ROUND_MS_MAX,
);

it(
  "tabs of an earlier version make way, and keep what they had",
  async () => {
    const profile = await Profile.of("carol", "dan", await bundled());
    const old = [await profile.open(), await profile.open()];
    await Promise.all(old.map(ready));
    await old[1]?.evaluate(() => window.tabs.say("from the earlier version"));
    const later = await profile.open(await bundled(99));
    await ready(later);
    for (const page of old) {
      await page.waitForFunction(() => window.tabs.isOld());
    }
    await later.waitForFunction(() => window.tabs.texts().includes("from the earlier version"));
    await later.evaluate(() => window.tabs.say("from the later version"));
    await later.waitForFunction(() => window.tabs.texts().length === 2);
  },
  TEST_MS_MAX,
);
