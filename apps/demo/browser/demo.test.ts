// The demo in a browser, against the server that `cargo run` starts. The README shows a screenshot of it:
// cp screenshots/side-by-side.png ../../docs/images/

import type { Page } from "playwright-core";
import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { Stage, screenshot, TEST_MS_MAX, test } from "./stage.ts";

const stage = new Stage();

/** Two users side by side. Each test has its own. */
function sideBySide(page: Page, ...users: [string, string]): [Pane, Pane] {
  return [new Pane(page, users[0]), new Pane(page, users[1])];
}

test("two users chat side by side: unread badges, ticks, the order of the list", async () => {
  const visitor = await stage.arrive();
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

  await alice.root.getByRole("textbox", { name: "Search or start a chat with" }).fill("carol");
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
  const visitor = await stage.arrive();
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
  // The page requests presence when the user opens a chat, and then twice a minute.
  await anna.chat("ben").click();
  await anna.isPresent("last seen");
  await screenshot(page, "side-by-side");

  await ben.connection().click();
  await ben.isState("Online");
  await ben.message("Bread").waitFor();
  await anna.hasTicks("Bread", "Read");
  await ben.hasTicks("Shall I bring", "Read");
  // Both pages show ben's message after the messages that anna wrote meanwhile.
  const bodies = await anna.bodies();
  expect(bodies.slice(-3)).toEqual([
    "Then I’ll just write what we need.",
    "Bread, two lemons, and the good olives.",
    "Shall I bring anything?",
  ]);
  await expect.poll(() => ben.bodies()).toEqual(bodies);
  await screenshot(page, "drained");
});

test("two pages chat; the browser of one goes offline and comes back", async () => {
  const [home, train] = [await stage.arrive(), await stage.arrive()];
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
  const visitor = await stage.arrive();
  visitor.mayFail = true;
  const page = await visitor.open("?user=emma&user=finn");
  const [emma, finn] = sideBySide(page, "emma", "finn");
  await emma.say("before");
  await finn.hasUnread("emma", 1);
  await emma.hasTicks("before", "Delivered");

  await emma.connection().click();
  await emma.isState("Offline");
  await emma.say("first");
  await emma.say("second");
  await emma.hasTicks("second", "Waiting for a connection");
  await page.reload();
  await emma.isState("Offline: switched off here");
  await emma.hasTicks("first", "Waiting for a connection");
  await emma.hasTicks("second", "Waiting for a connection");
  // The messages of before are on the device.
  await emma.hasTicks("before", "Delivered");

  await stage.server.kill();
  await finn.isState("Offline");
  await emma.connection().click();
  await stage.server.start();
  await emma.isState("Online");
  await finn.isState("Online");
  await emma.message("You: before").waitFor();
  await emma.hasTicks("second", "Delivered");
  await expect.poll(() => emma.bodies()).toEqual(["before", "first", "second"]);
  await finn.hasUnread("emma", 3);
});

test("what a page knows of tables that are gone hides nothing of the new ones", async () => {
  const visitor = await stage.arrive();
  visitor.mayFail = true;
  const page = await visitor.open("?user=kim&user=lou");
  const [kim, lou] = sideBySide(page, "kim", "lou");
  await lou.isState("Online");
  for (const body of ["one", "two", "three"]) {
    await kim.say(body);
  }
  await lou.hasUnread("kim", 3);
  // An open page would reload by itself, perhaps at the same time as the test.
  const address = page.url();
  await page.goto("about:blank");
  await stage.server.forget();
  await stage.server.start();
  await page.goto(address);
  await lou.isState("Online");
  await kim.say("anew");
  await lou.hasUnread("kim", 1);
  await kim.hasTicks("anew", "Delivered");
});

test("a page that is open while the server is started again without its tables begins anew by itself", async () => {
  const visitor = await stage.arrive();
  visitor.mayFail = true;
  const page = await visitor.open("?user=gil&user=hob");
  const [gil, hob] = sideBySide(page, "gil", "hob");
  await gil.isState("Online");
  await gil.say("of the old tables");
  await gil.hasTicks("of the old tables", "Delivered");
  await stage.server.forget();
  await stage.server.start();
  await page.getByRole("status").filter({ hasText: "The server was started again with other tables" }).waitFor();
  await gil.isState("Online");
  await hob.isState("Online");
  await gil.message("No messages yet").waitFor();
  await gil.say("of the new ones");
  await gil.hasTicks("of the new ones", "Delivered");
  await screenshot(page, "begun-anew");
});

test("a bubble is its own message's, whatever ids another client gives", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=ugo&user=val");
  const [ugo, val] = sideBySide(page, "ugo", "val");
  await ugo.isState("Online");
  await val.isState("Online");
  // The first message, with the number of the second as its id.
  await page.evaluate(async () => {
    const { token } = await (await fetch("/token?user=ugo")).json();
    const socket = new WebSocket(`ws://${location.host}/v1`, ["pigeonhole.v1", `bearer.${token}`]);
    await new Promise((opened) => socket.addEventListener("open", opened));
    socket.send(JSON.stringify({ action: "send", to: "val", client_msg_id: "2", kind: "text", body: "mine" }));
    await new Promise((answered) => socket.addEventListener("message", answered));
    socket.close();
  });
  await val.chat("ugo").click();
  await val.message("mine").waitFor();
  await val.say("theirs");
  await ugo.message("theirs").waitFor();
  await expect.poll(() => ugo.bodies()).toEqual(["mine", "theirs"]);
  await expect.poll(() => val.bodies()).toEqual(["mine", "theirs"]);
});

test("a day that comes back has no second line: messages stay in their order", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.context.newPage();
  // Dates the second message back: its server's clock was a day behind.
  const dayBefore = (frame: string) =>
    frame.replace(/("body":"two"[^{}]*"sent_at":")([^"]*)/, (_, before: string, at: string) => {
      const then = new Date(Date.parse(at) - 24 * 60 * 60 * 1000);
      return before + then.toISOString();
    });
  await page.routeWebSocket(/\/v1/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((frame) => socket.send(typeof frame === "string" ? dayBefore(frame) : frame));
  });
  await page.goto(`${stage.server.url}?user=rob&user=sal`);
  const [rob, sal] = sideBySide(page, "rob", "sal");
  await rob.isState("Online");
  await sal.isState("Online");
  await rob.chat("sal").click();
  for (const body of ["one", "two", "three"]) {
    await rob.say(body);
    await rob.hasTicks(body, "Delivered");
  }
  await sal.chat("rob").click();
  await sal.message("three").waitFor();
  const days = () =>
    sal.root
      .locator(".messages > li")
      .evaluateAll((all) => all.map((one) => (one.querySelector(".text") ?? one).textContent));
  await expect.poll(days).toEqual(["Today", "3 unread messages", "one", "two", "three"]);
});

test("Enter that ends a composition in Safari does not send", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=tea&user=uwe");
  const [tea] = sideBySide(page, "tea", "uwe");
  await tea.isState("Online");
  await tea.field().fill("にほん");
  // Safari has ended the composition by then. Only the key code shows that there was one.
  await tea.field().evaluate((field) => {
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }));
  });
  expect(await tea.field().inputValue()).toBe("にほん");
  await tea.field().press("Enter");
  await tea.hasTicks("にほん", "Delivered");
  await expect.poll(() => tea.bodies()).toEqual(["にほん"]);
});

test("a tab of one's own is the same device: both show the same, and one connection serves both", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=gina&user=hugo");
  const [gina, hugo] = sideBySide(page, "gina", "hugo");
  await hugo.isState("Online");
  await gina.say("for both of your tabs");
  await hugo.hasUnread("gina", 1);
  const [own] = await Promise.all([
    visitor.context.waitForEvent("page"),
    hugo.root.getByRole("link", { name: "Open hugo in a new tab" }).click(),
  ]);
  const second = new Pane(own, "hugo");
  await second.isState("Online");
  await second.message("for both").waitFor();
  await gina.hasTicks("for both", "Read");
  await hugo.hasUnread("gina", 0);
  await second.say("written in the second one");
  await hugo.chat("gina").click();
  await hugo.hasTicks("written in the second", "Read");
  // The switch is that of the device, and every tab shows the frames.
  await second.root.getByRole("list", { name: "Frames" }).getByText("reply send").first().waitFor();
  await second.connection().click();
  await hugo.isState("Offline: switched off here");
  await second.say("waits in both");
  await hugo.hasTicks("waits in both", "Waiting for a connection");
  await hugo.connection().click();
  await second.isState("Online");
  await second.hasTicks("waits in both", "Read");
});

test("older messages come when one scrolls up", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=ida&user=jon");
  const [ida, jon] = sideBySide(page, "ida", "jon");
  const count = 60;
  await ida.say("line 1.");
  // An open chat is read to its end. A chat with unread messages would open at the first of them.
  await jon.chat("ida").click();
  for (let number = 2; number <= count; number += 1) {
    await ida.say(`line ${number}.`);
    if (number % 10 === 0) {
      await ida.hasTicks(`line ${number}.`, "Read");
    }
  }
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
  await expect.poll(() => jon.bodies()).toEqual(Array.from({ length: count }, (_, at) => `line ${at + 1}.`));
});

test("a message that can't be sent says why, and markup in one stays text", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=kim&user=lea");
  const [kim, lea] = sideBySide(page, "kim", "lea");
  await kim.isState("Online");
  await kim.say("x".repeat(17_000));
  await kim.isSet("Not sent: it is too long: up to 16,000 letters");
  await screenshot(page, "too-long");
  // Back in the field, to be made shorter.
  expect((await kim.field().inputValue()).length).toBe(17_000);
  await kim.say("shorter");
  await kim.hasTicks("shorter", "Delivered");

  await kim.say("<img src=x onerror=alert(1)> <b>bold</b>");
  await lea.chat("kim").click();
  await lea.message("<img src=x onerror=alert(1)> <b>bold</b>").waitFor();
  expect(await page.locator(".body img, .body b").count()).toBe(0);
  await lea.root.getByRole("list", { name: "Frames" }).getByText("messages.new").first().waitFor();
  expect(await page.locator("body").textContent()).not.toMatch(/bearer|eyJ/);
});

test("a message is reported to the operator", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=mona&user=nico");
  const [mona, nico] = sideBySide(page, "mona", "nico");
  await mona.say("You are ugly.");
  await nico.chat("mona").click();
  await nico.pick("You are ugly.", "Report");
  await nico.confirm("Abuse");
  await nico.isSet("Reported to the operator");
  const [report] = await stage.server.reportsOf("nico");
  expect(report).toMatchObject({ reason: "abuse", messages: [{ sender_id: "mona", body: "You are ugly." }] });
});

test("a chat is muted, archived, marked as unread and blocked", async () => {
  const visitor = await stage.arrive();
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

  // Everything of it is read: the mark stays until the chat is opened, over a reload too.
  const marked = rosa.root.getByRole("button", { name: "• unread" });
  await rosa.hasTicks("still there?", "Read");
  await rosa.choose("Mark as unread");
  await marked.waitFor();
  await page.reload();
  await marked.click();
  await rosa.field().waitFor();
  await marked.waitFor({ state: "hidden" });

  await quin.block("rosa");
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

test("a phone does not ring in its quiet hours, which survive a reload", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=uma&user=vito");
  const [uma, vito] = sideBySide(page, "uma", "vito");
  await uma.isState("Online");
  await vito.isState("Online");
  await vito.setQuiet("Set", "00:00", "23:59");
  await page.reload();
  await vito.isState("Online");
  // The hours are those of one phone.
  const second = await (await stage.arrive()).tab("vito", "uma");
  await second.isState("Online");
  for (const phone of [vito, second]) {
    await phone.connection().click();
    await phone.phone().waitFor();
  }
  for (const text of ["Are you asleep?", "Good night, then."]) {
    await uma.say(text);
    await second.notification(text).waitFor();
  }
  // With the second ring, the first one was over.
  expect(await vito.notification("uma").count()).toBe(0);
  await vito.connection().click();
  await vito.setQuiet("Always ring");
  await vito.connection().click();
  await uma.say("Good morning!");
  await vito.notification("Good morning!").waitFor();
});

test("who is switched off is rung on their phone, and what they read elsewhere goes from it", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=tess&user=vera");
  const [tess, vera] = sideBySide(page, "tess", "vera");
  await tess.isState("Online");
  await vera.isState("Online");
  expect(await vera.phone().count()).toBe(0);
  await vera.connection().click();
  await vera.phone().getByText("A message to vera appears here").waitFor();
  await tess.say("Are you there?");
  await vera.notification("Are you there?").waitFor();
  // The next one takes its place.
  await tess.say("Call me when you are out of the tunnel.");
  await vera.notification("out of the tunnel").waitFor();
  expect(await vera.notification("tess").count()).toBe(1);
  await vera.phone().getByRole("img", { name: "Pigeonhole, 2 unread" }).waitFor();
  await screenshot(page, "lock-screen");

  const second = await (await stage.arrive()).tab("vera", "tess");
  await second.chat("tess").click();
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
  await vera.phone().getByText("A message to vera appears here").waitFor();
});

test("what was said is edited, answered, reacted to and deleted, before the eyes of the other", async () => {
  const [home, train] = [await stage.arrive(), await stage.arrive()];
  await home.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const uma = await home.tab("uma", "vic");
  const vic = await train.tab("vic", "uma");
  await uma.chat("vic").click();
  await vic.chat("uma").click();
  await uma.isState("Online");
  await vic.isState("Online");
  await uma.say("The train is at nine");
  await uma.hasTicks("at nine", "Read");

  await uma.pick("at nine", "Edit");
  expect(await uma.field().inputValue()).toBe("The train is at nine");
  await uma.say("The train is at ten");
  await uma.message("edited").filter({ hasText: "at ten" }).waitFor();
  await vic.message("edited").filter({ hasText: "at ten" }).waitFor();
  expect([await vic.bodies(), await uma.bodies()]).toEqual([["The train is at ten"], ["The train is at ten"]]);
  await vic.hasPreview("uma", "at ten");

  await vic.pick("at ten", "👍");
  await vic.reaction("at ten", "👍 1, one of them yours").waitFor();
  await uma.reaction("at ten", "👍 1").click();
  await vic.reaction("at ten", "👍 2, one of them yours").waitFor();
  // In the place of the one before, and taken back.
  await vic.pick("at ten", "😮");
  await uma.reaction("at ten", "😮 1").waitFor();
  await uma.reaction("at ten", "👍 1, one of them yours").click();
  await vic.reaction("at ten", "👍 1").waitFor({ state: "detached" });
  await vic.pick("at ten", "😮");
  await uma.reaction("at ten", "😮 1").waitFor({ state: "detached" });

  await vic.pick("at ten", "Reply");
  await vic.root.getByText("Reply to uma").waitFor();
  await vic.say("I will be there");
  await uma.message("I will be there").getByRole("button", { name: "In reply to uma" }).click();
  expect(await uma.message("You: The train").evaluate((message) => message === document.activeElement)).toBe(true);
  // The quote changes with the quoted message.
  await uma.pick("You: The train", "Edit");
  await uma.say("The train is at eleven");
  await vic.message("I will be there").getByText("at eleven").waitFor();

  await uma.pick("You: The train", "Copy");
  expect(await uma.page.evaluate(() => navigator.clipboard.readText())).toBe("The train is at eleven");

  await vic.pick("You: I will", "Delete");
  await vic.root.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  expect(await uma.message("I will be there").count()).toBe(1);
  await vic.pick("You: I will", "Delete");
  await vic.sayYes();
  await uma.message("This message was deleted").waitFor();
  await uma.hasPreview("vic", "This message was deleted");
  await expect.poll(() => uma.bodies()).toEqual(["The train is at eleven", "This message was deleted"]);
  // A deleted message has no menu. The menu of another user's message offers only what its reader may do.
  expect(await vic.message("deleted").getByRole("button", { name: "Message menu" }).count()).toBe(0);
  await vic.message("at eleven").click({ button: "right" });
  await vic.item("Reply").waitFor();
  expect(await vic.item("Edit").count()).toBe(0);
  expect(await vic.item("Delete").count()).toBe(0);
  await vic.page.keyboard.press("Escape");

  // A deleted message is not unread.
  await vic.chat("uma").press("Escape");
  await uma.say("Never mind");
  await vic.hasUnread("uma", 1);
  await uma.pick("Never mind", "Delete");
  await uma.sayYes();
  await vic.hasUnread("uma", 0);
  await vic.hasPreview("uma", "This message was deleted");
});

test("one sees who writes, who is there, and when they were", async () => {
  const [home, train] = [await stage.arrive(), await stage.arrive()];
  const wim = await home.tab("wim", "xena");
  await wim.chat("xena").click();
  await wim.say("Are you there?");
  const xena = await train.tab("xena", "wim");
  await xena.chat("wim").click();
  await wim.hasTicks("Are you there?", "Read");
  await wim.say("I see you");
  await xena.message("I see you").waitFor();
  await xena.isPresent("online");

  // A stranger sees neither that she writes nor that she is there.
  await xena.say("Who is this?");
  await wim.message("Who is this?").waitFor();
  // Her client sends `typing` once in a few seconds, and the server dropped the first one.
  await expect
    .poll(
      async () => {
        await xena.field().pressSequentially("s");
        return wim.root.locator(".presence").textContent();
      },
      { timeout: TEST_MS_MAX },
    )
    .toBe("typing …");
  await xena.field().fill("Yes");
  await wim.hasPreview("xena", "typing …");
  await xena.field().press("Enter");
  await wim.message("Yes").waitFor();
  expect(await wim.root.locator(".presence").textContent()).not.toBe("typing …");

  await train.context.close();
  stage.visitors.splice(stage.visitors.indexOf(train), 1);
  const askAgain = async () => {
    // The page requests presence again when the user leaves the chat and comes back.
    await wim.root.getByRole("navigation").getByRole("textbox").press("Escape");
    await wim.chat("xena").click();
    return wim.root.locator(".presence").textContent();
  };
  await expect.poll(askAgain, { timeout: TEST_MS_MAX }).toMatch(/^last seen \d\d:\d\d$/);
});

test("changes wait for a connection, and over a reload; one that is refused is taken back", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=yan&user=zita");
  const [yan, zita] = sideBySide(page, "yan", "zita");
  await yan.isState("Online");
  await zita.isState("Online");
  await zita.chat("yan").click();
  await yan.say("one");
  await yan.say("two");
  await yan.say("three");
  await zita.message("three").waitFor();
  await yan.hasTicks("three", "Read");

  await yan.connection().click();
  await yan.isState("Offline");
  await yan.pick("one", "Edit");
  await yan.say("uno");
  await yan.pick("two", "Delete");
  await yan.sayYes();
  await yan.pick("three", "👍");
  const waits = yan.root.getByRole("img", { name: "Its change waits for a connection" });
  await expect.poll(() => waits.count()).toBe(3);
  await expect.poll(() => yan.bodies()).toEqual(["uno", "This message was deleted", "three"]);
  await yan.pick("three", "Reply");
  await yan.say("four");
  await yan.hasTicks("four", "Waiting for a connection");
  await expect.poll(() => zita.bodies()).toEqual(["one", "two", "three"]);

  await page.reload();
  await yan.isState("Offline: switched off here");
  await yan.hasTicks("four", "Waiting for a connection");
  await zita.isState("Online");
  await zita.message("three").waitFor();
  // Zita edits nothing of yan's; but she can react to what is deleted by then.
  await zita.pick("two", "😮");
  await yan.connection().click();
  await zita.message("four").getByRole("button", { name: "In reply to yan" }).waitFor();
  await zita.reaction("three", "👍 1").waitFor();
  await expect.poll(() => zita.bodies()).toEqual(["uno", "This message was deleted", "three", "four"]);
  await yan.hasTicks("four", "Read");
  await expect.poll(() => yan.bodies()).toEqual(["uno", "This message was deleted", "three", "four"]);
  expect(await waits.count()).toBe(0);

  // Between those who have blocked each other nothing changes but by a delete.
  await zita.block("yan");
  await zita.root.getByText("You have blocked yan.").waitFor();
  await yan.pick("uno", "Edit");
  await yan.say("eins");
  await yan.message("Not changed: it is not allowed").waitFor();
  expect((await yan.bodies())[0]).toBe("uno");
  await yan.root.getByRole("button", { name: "Dismiss" }).click();
  await yan.message("Not changed").waitFor({ state: "detached" });
});

test("messages by the keyboard alone", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=abe&user=bea");
  const [abe, bea] = sideBySide(page, "abe", "bea");
  await abe.isState("Online");
  await bea.isState("Online");
  await bea.chat("abe").click();
  await abe.say("first");
  await abe.say("second");
  await bea.message("second").waitFor();
  await abe.hasTicks("second", "Read");
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");

  // Up in an empty field edits the user's last message. Escape cancels, and the text typed before is there again.
  await abe.field().focus();
  await page.keyboard.press("ArrowUp");
  await abe.root.getByText("Edit message").waitFor();
  await page.keyboard.press("Escape");
  expect(await abe.field().inputValue()).toBe("");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.type(" and last");
  await page.keyboard.press("Enter");
  await bea.message("second and last").waitFor();

  // From message to message, into the menu and out of it.
  await abe.root.getByRole("list", { name: "Messages with" }).focus();
  await page.keyboard.press("ArrowUp");
  expect(await focused()).toContain("second and last");
  await page.keyboard.press("ArrowUp");
  expect(await focused()).toContain("first");
  await page.keyboard.press("Enter");
  expect(await focused()).toBe("👍");
  await page.keyboard.press("ArrowRight");
  expect(await focused()).toBe("❤️");
  await page.keyboard.press("Escape");
  expect(await focused()).toContain("first");
  await page.keyboard.press("ContextMenu");
  await page.keyboard.press("Enter");
  await bea.reaction("first", "👍 1").waitFor();
  expect(await focused()).toContain("first");

  // A reply: the focus goes to the field, and Escape leaves the chat open.
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  expect(await focused()).toBe("Reply");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  expect(await abe.root.getByText("Reply to yourself").isVisible()).toBe(false);
  expect(await abe.field().isVisible()).toBe(true);

  // A delete opens a question. Afterwards the focus comes back.
  await abe.root.getByRole("list", { name: "Messages with" }).focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  expect(await focused()).toBe("Cancel");
  await page.keyboard.press("Escape");
  expect(await focused()).toContain("second and last");
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await bea.message("This message was deleted").waitFor();
  expect(await focused()).toContain("This message was deleted");
  await page.keyboard.press("Escape");
  expect(await abe.field().evaluate((field) => field === document.activeElement)).toBe(true);
});

test("a message is pressed long, on a phone", async () => {
  const visitor = await stage.arrive({
    viewport: { width: 390, height: 780 },
    deviceScaleFactor: 2,
    hasTouch: true,
    isMobile: true,
  });
  const page = await visitor.open("?user=cas&with=dot");
  const cas = new Pane(page, "cas");
  await cas.say("The bakery closes at six.");
  await cas.hasTicks("closes at six", "Stored");
  const session = await visitor.context.newCDPSession(page);
  const press = async () => {
    const box = await cas.message("You: The bakery").locator(".bubble").boundingBox();
    const touchPoints = [{ x: (box?.x ?? 0) + 20, y: (box?.y ?? 0) + 10 }];
    await session.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints });
    await cas.item("Edit").waitFor();
    await session.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  };
  await press();
  await screenshot(page, "phone-menu");
  await cas.item("❤️").tap();
  await cas.reaction("closes at six", "❤️ 1, one of them yours").waitFor();
  await press();
  await cas.item("Reply").tap();
  await cas.say("Or at seven?");
  await cas.message("Or at seven?").getByText("closes at six").waitFor();
  await screenshot(page, "phone-changes");
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  await press();
  await cas.item("Delete").tap();
  await cas.sayYes();
  await cas.message("This message was deleted").first().waitFor();
});

test("with the keyboard alone", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=mia&user=noa");
  const [mia, noa] = sideBySide(page, "mia", "noa");
  await mia.isState("Online");
  const tabTo = async (name: string) => {
    for (let tries = 0; tries < 80; tries += 1) {
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
  await tabTo("Search or start a chat with");
  await page.keyboard.type("zoe");
  await page.keyboard.press("Enter");
  // The field has the focus.
  await page.keyboard.type("first line");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("second line");
  await page.keyboard.press("Enter");
  await mia.hasTicks("second line", "Stored");
  await expect.poll(() => mia.bodies()).toEqual(["first line\nsecond line"]);

  // Out of the chat, and in the list to another one.
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.type("hello noa");
  await page.keyboard.press("Enter");
  await noa.hasUnread("mia", 1);
  expect((await tabTo("Open noa in a new tab")).outline).toBe("solid");
  await tabTo("Mmia");
  await page.keyboard.press("Enter");
  await noa.message("hello noa").waitFor();
  await mia.hasTicks("hello noa", "Read");
});

test("on a phone, in the dark: one user at a time", async () => {
  const visitor = await stage.arrive({
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
  await page.getByRole("button", { name: "paul 1 unread" }).click();
  await paul.hasUnread("olga", 1);
  await paul.chat("olga").click();
  // The message has been on the screen for long enough.
  await page.getByRole("button", { name: "paul", exact: true }).waitFor();
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
  // The row of the list can have the same name.
  await page.getByRole("button", { name: "paul 1 unread" }).first().tap();
  await paul.say("Out of the tunnel. Where are you?");
  await paul.hasTicks("Out of the tunnel.", "Stored");
  await page.getByRole("button", { name: "olga" }).first().tap();
  await olga.notification("Where are you?").waitFor();
  await screenshot(page, "phone-locked");
  await olga.notification("Where are you?").tap();
  await olga.message("Where are you?").waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});
