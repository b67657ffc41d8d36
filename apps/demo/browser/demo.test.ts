// The demo in a browser, against the server that `cargo run` starts. Two of its screenshots are in the README:
// cp screenshots/{side-by-side,phone}.png ../../docs/images/

import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Pane } from "./pane.ts";
import { launch, Server, START_MS_MAX, screenshot, TEST_MS_MAX, Visitor } from "./stage.ts";

let server: Server;
let browser: Browser;
const visitors: Visitor[] = [];

beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), launch()]);
}, START_MS_MAX);

afterAll(async () => {
  await browser?.close();
  await server?.end();
});

afterEach(async () => {
  const complaints = visitors.flatMap((visitor) => visitor.complaints);
  await Promise.all(visitors.splice(0).map(({ context }) => context.close()));
  expect(complaints).toEqual([]);
});

async function arrive(options?: BrowserContextOptions): Promise<Visitor> {
  const visitor = await Visitor.arrive(browser, server.url, options);
  visitors.push(visitor);
  return visitor;
}

/** Two users side by side. Each test has its own. */
function sideBySide(page: Page, ...users: [string, string]): [Pane, Pane] {
  return [new Pane(page, users[0]), new Pane(page, users[1])];
}

const test = (name: string, run: () => Promise<void>) => it(name, run, TEST_MS_MAX);

test("two users chat side by side: unread badges, ticks, the order of the list", async () => {
  const visitor = await arrive();
  const page = await visitor.open();
  const [alice, bob] = sideBySide(page, "alice", "bob");
  await alice.isState("Online");
  await bob.isState("Online");

  await alice.message("No messages yet").waitFor();
  await alice.say("Did the parcel come?");
  await alice.say("It should have been there by ten.");
  // Bob has it, and has not looked.
  await alice.hasTicks("Did the parcel come?", "Delivered");
  await bob.hasUnread("alice", 2);
  await bob.chat("alice").click();
  await alice.hasTicks("by ten", "Read");
  await bob.hasUnread("alice", 0);
  await bob.say("Just now! The driver had been stuck in the tunnel.");
  await alice.message("stuck in the tunnel").waitFor();
  await bob.hasTicks("stuck in the tunnel", "Read");

  await alice.root.getByRole("textbox", { name: "Start a chat with" }).fill("carol");
  await alice.root.getByRole("button", { name: "Start the chat" }).click();
  await alice.say("Tell me when you are on the train.");
  await alice.hasTicks("on the train", "Stored");
  expect(await alice.root.locator(".chat .peer").allTextContents()).toEqual(["carol", "bob"]);
  await bob.say("And thanks for asking.");
  await alice.hasUnread("bob", 1);
  expect(await alice.root.locator(".chat .peer").allTextContents()).toEqual(["bob", "carol"]);
  await alice.chat("bob").click();
  await bob.hasTicks("thanks for asking", "Read");
});

test("who is cut off writes on and misses nothing: all of it waits, drains and turns its ticks", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=anna&user=ben");
  const [anna, ben] = sideBySide(page, "anna", "ben");
  await anna.say("Are you on the train already?");
  await ben.chat("anna").click();
  await ben.say("Yes, the one at 9:40. There is a long tunnel ahead.");
  await anna.message("long tunnel").waitFor();

  await ben.connection().click();
  await ben.isState("Offline: switched off here");
  await anna.say("Then I’ll just write what we need.");
  await anna.hasTicks("write what we need", "Stored");
  await anna.say("Bread, two lemons, and the good olives.");
  await anna.hasTicks("Bread", "Stored");
  await ben.say("Shall I bring anything?");
  await ben.hasTicks("Shall I bring", "Waiting for a connection");
  await ben.notification("Bread").waitFor();
  await screenshot(page, "side-by-side");

  await ben.connection().click();
  await ben.isState("Online");
  await ben.message("2 unread messages").waitFor();
  await anna.hasTicks("Bread", "Read");
  await ben.hasTicks("Shall I bring", "Read");
  // The answer came after what was written meanwhile, for both.
  const bodies = await anna.bodies();
  expect(bodies.slice(-3)).toEqual([
    "Then I’ll just write what we need.",
    "Bread, two lemons, and the good olives.",
    "Shall I bring anything?",
  ]);
  expect(await ben.bodies()).toEqual(bodies);
  await screenshot(page, "drained");
});

test("two pages chat; the browser of one goes offline and comes back", async () => {
  const [home, train] = [await arrive(), await arrive()];
  const cleo = await home.tab("cleo", "dan");
  const dan = await train.tab("dan", "cleo");
  await cleo.isState("Online");
  await dan.isState("Online");
  await dan.chat("cleo").click();
  await cleo.chat("dan").click();
  await cleo.say("one");
  await dan.message("one").waitFor();
  await cleo.hasTicks("one", "Read");

  train.mayFail = true;
  await train.context.setOffline(true);
  await dan.isState("Offline");
  await dan.say("two");
  await dan.hasTicks("two", "Waiting for a connection");
  await cleo.say("three");
  await cleo.hasTicks("three", "Stored");
  await train.context.setOffline(false);
  await dan.isState("Online");
  await cleo.hasTicks("three", "Read");
  await dan.hasTicks("two", "Read");
});

test("a reload keeps what was not sent yet, and the server being killed keeps the rest", async () => {
  const visitor = await arrive();
  visitor.mayFail = true;
  const page = await visitor.open("?user=emma&user=finn");
  const [emma, finn] = sideBySide(page, "emma", "finn");
  await emma.say("before");
  await finn.hasUnread("emma", 1);

  await emma.connection().click();
  await emma.isState("Offline");
  await emma.say("first");
  await emma.say("second");
  await emma.hasTicks("second", "Waiting for a connection");
  await page.reload();
  await emma.isState("Offline: switched off here");
  await emma.hasTicks("first", "Waiting for a connection");
  await emma.hasTicks("second", "Waiting for a connection");
  await emma.message("What was said before comes with the connection").waitFor();

  await server.kill();
  await finn.isState("Offline");
  await emma.connection().click();
  await server.start();
  await emma.isState("Online");
  await finn.isState("Online");
  await emma.message("You: before").waitFor();
  await emma.hasTicks("second", "Delivered");
  expect(await emma.bodies()).toEqual(["before", "first", "second"]);
  await finn.hasUnread("emma", 3);
});

test("a tab of one's own is another device: it is told what the first one reads and writes", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=gina&user=hugo");
  const [gina, hugo] = sideBySide(page, "gina", "hugo");
  await hugo.isState("Online");
  await gina.say("for both of your devices");
  await hugo.hasUnread("gina", 1);
  const [own] = await Promise.all([
    visitor.context.waitForEvent("page"),
    hugo.root.getByRole("link", { name: "hugo in a tab of their own" }).click(),
  ]);
  const second = new Pane(own, "hugo");
  await second.isState("Online");
  await second.message("for both").waitFor();
  await gina.hasTicks("for both", "Read");
  await hugo.hasUnread("gina", 0);
  await second.say("written on the second one");
  await hugo.chat("gina").click();
  await hugo.hasTicks("written on the second", "Read");
});

test("older messages come when one scrolls up", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=ida&user=jon");
  const [ida, jon] = sideBySide(page, "ida", "jon");
  const count = 60;
  for (let number = 1; number <= count; number += 1) {
    await ida.say(`line ${number}.`);
  }
  await ida.hasTicks(`line ${count}.`, "Delivered");
  await page.reload();
  await jon.chat("ida").click();
  await jon.message(`line ${count}.`).waitFor();
  expect(await jon.message("line 1.").count()).toBe(0);
  await jon.message(`line ${count}.`).hover();
  const scrollUp = async () => {
    await page.mouse.wheel(0, -3000);
    return jon.message("line 1.").count();
  };
  await expect.poll(scrollUp, { timeout: TEST_MS_MAX }).toBe(1);
  expect(await jon.bodies()).toEqual(Array.from({ length: count }, (_, at) => `line ${at + 1}.`));
});

test("a message that can't be sent says why, and markup in one stays text", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=kim&user=lea");
  const [kim, lea] = sideBySide(page, "kim", "lea");
  await kim.isState("Online");
  await kim.say("x".repeat(17_000));
  await kim.hasTicks("Not sent: a message has at most 16 KiB", "Not sent");
  await kim.root.getByRole("button", { name: "Discard" }).click();
  await kim.message("Not sent").waitFor({ state: "detached" });

  await kim.say("<img src=x onerror=alert(1)> <b>bold</b>");
  await lea.chat("kim").click();
  await lea.message("<img src=x onerror=alert(1)> <b>bold</b>").waitFor();
  expect(await page.locator(".body img, .body b").count()).toBe(0);
  await lea.root.getByRole("list", { name: "Frames" }).getByText("messages.new").first().waitFor();
  expect(await page.locator("body").textContent()).not.toMatch(/bearer|eyJ/);
});

test("a chat is muted, archived and blocked", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=quin&user=rosa");
  const [quin, rosa] = sideBySide(page, "quin", "rosa");
  await quin.isState("Online");
  await rosa.isState("Online");
  await quin.say("hello");
  await rosa.chat("quin").click();
  await quin.hasTicks("hello", "Read");

  const isMuted = quin.chat("rosa").getByRole("img", { name: "Muted" });
  await quin.choose("Mute");
  await quin.isSet("Muted");
  await isMuted.waitFor();
  // By the keyboard: to the item, out of the menu and not of the chat, and again.
  await quin.menu().focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  expect(await quin.field().isVisible()).toBe(true);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await isMuted.waitFor({ state: "hidden" });
  await quin.choose("Mute for 8 hours");
  await quin.isSet("Muted until");

  const archive = quin.root.getByText("Archived (1)");
  await quin.choose("Archive");
  await archive.waitFor();
  await page.reload();
  await archive.click();
  await quin.chat("rosa").click();
  await quin.isSet("Archived");
  // The next message takes it out again.
  await rosa.say("still there?");
  await archive.waitFor({ state: "hidden" });
  await quin.hasTicks("hello", "Read");

  await quin.choose("Block rosa");
  await quin.root.getByText("You have blocked rosa.").waitFor();
  expect(await quin.field().isVisible()).toBe(false);
  await rosa.say("one more");
  await rosa.hasTicks("Not sent: it can’t be delivered", "Not sent");
  await rosa.root.getByRole("button", { name: "Discard" }).click();
  await quin.root.locator(".composer").getByRole("button", { name: "Unblock rosa" }).click();
  await quin.field().waitFor();
  await rosa.say("once more");
  await quin.message("once more").waitFor();
});

test("who is switched off is rung on their phone, and what they read elsewhere goes from it", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=tess&user=vera");
  const [tess, vera] = sideBySide(page, "tess", "vera");
  await tess.isState("Online");
  await vera.isState("Online");
  expect(await vera.phone().count()).toBe(0);
  await vera.connection().click();
  await vera.phone().getByText("What is written to vera now rings here").waitFor();
  await tess.say("Are you there?");
  await vera.notification("Are you there?").waitFor();
  // The next one takes its place.
  await tess.say("Call me when you are out of the tunnel.");
  await vera.notification("out of the tunnel").waitFor();
  expect(await vera.notification("tess").count()).toBe(1);
  await vera.phone().getByRole("img", { name: "Pigeonhole, 2 unread" }).waitFor();
  await screenshot(page, "lock-screen");

  const second = await visitor.tab("vera", "tess");
  await second.message("out of the tunnel").waitFor();
  await vera.notification("tess").waitFor({ state: "detached" });
  await second.page.close();

  // By the keyboard: the app opens where the notification is from.
  await tess.say("And now?");
  await vera.notification("And now?").focus();
  await page.keyboard.press("Enter");
  await vera.message("And now?").waitFor();
  await tess.hasTicks("And now?", "Read");
  expect(await vera.phone().count()).toBe(0);
  await vera.connection().click();
  await vera.phone().getByText("What is written to vera now rings here").waitFor();
});

test("with the keyboard alone", async () => {
  const visitor = await arrive();
  const page = await visitor.open("?user=mia&user=noa");
  const [mia, noa] = sideBySide(page, "mia", "noa");
  await mia.isState("Online");
  const tabTo = async (name: string) => {
    for (let tries = 0; tries < 40; tries += 1) {
      await page.keyboard.press("Tab");
      const focused = await page.evaluate(() => {
        const { activeElement: element } = document;
        const outline = element ? getComputedStyle(element).outlineStyle : "none";
        return { name: element?.getAttribute("aria-label") ?? element?.textContent ?? "", outline };
      });
      if (focused.name.startsWith(name)) {
        return focused;
      }
    }
    throw new Error(`no way to ${name} by Tab`);
  };
  await tabTo("Start a chat with");
  await page.keyboard.type("zoe");
  await page.keyboard.press("Enter");
  // One can write at once.
  await page.keyboard.type("first line");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("second line");
  await page.keyboard.press("Enter");
  await mia.hasTicks("second line", "Stored");
  expect(await mia.bodies()).toEqual(["first line\nsecond line"]);

  // Out of the chat, and in the list to another one.
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("hello noa");
  await page.keyboard.press("Enter");
  await noa.hasUnread("mia", 1);
  expect((await tabTo("noa in a tab")).outline).toBe("solid");
  await tabTo("mia, 1 unread");
  await page.keyboard.press("Enter");
  await noa.message("hello noa").waitFor();
  await mia.hasTicks("hello noa", "Read");
});

test("on a phone, in the dark: one user at a time", async () => {
  const visitor = await arrive({
    viewport: { width: 390, height: 780 },
    colorScheme: "dark",
    deviceScaleFactor: 2,
    hasTouch: true,
  });
  const page = await visitor.open("?user=olga&user=paul");
  const [olga, paul] = sideBySide(page, "olga", "paul");
  await olga.isState("Online");
  expect(await paul.root.count()).toBe(0);
  await olga.say("The bakery has the seeded rolls again.");
  await olga.hasTicks("seeded rolls", "Delivered");
  await page.getByRole("button", { name: "paul, 1 unread" }).click();
  await paul.hasUnread("olga", 1);
  await paul.chat("olga").click();
  await paul.say("Six, please. I’m out of the tunnel in ten minutes.");
  await page.getByRole("button", { name: "olga" }).click();
  await olga.message("Six, please").waitFor();
  await olga.hasTicks("seeded rolls", "Read");
  await olga.say("Done, they are in the bag.");
  await olga.hasTicks("in the bag", "Delivered");
  // Nothing is wider than the phone.
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).toBe("rgb(10, 15, 19)");
  await screenshot(page, "phone");
  await olga.root.getByRole("button", { name: "Back to the chats" }).click();
  await olga.chat("paul").waitFor();
  await screenshot(page, "phone-list");

  await olga.connection().tap();
  await page.getByRole("button", { name: "paul, 1 unread" }).tap();
  await paul.say("Out of the tunnel. Where are you?");
  await paul.hasTicks("Out of the tunnel.", "Stored");
  await page.getByRole("button", { name: "olga", exact: true }).tap();
  await olga.notification("Where are you?").waitFor();
  await screenshot(page, "phone-locked");
  await olga.notification("Where are you?").tap();
  await olga.message("Where are you?").waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});
