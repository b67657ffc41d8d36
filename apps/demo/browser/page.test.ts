// The page around the chats: the title of the tab, Back, notifications, small screens, colours, movement.

import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { png } from "./png.ts";
import { Stage, screenshot, sideBySide, test } from "./stage.ts";

const stage = new Stage();
const PHONE = { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true };

test("unread messages are in the title of the tab, on the arrow back, and in a notification that opens the chat", async () => {
  const visitor = await stage.arrive(PHONE);
  await visitor.context.grantPermissions(["notifications"]);
  // A browser without a screen shows no notification: the page's are kept.
  await visitor.context.addInitScript(() => {
    const shown: Notification[] = [];
    const Real = Notification;
    class Kept extends EventTarget {
      title: string;
      body: string;
      static permission = Real.permission;
      static requestPermission = Real.requestPermission.bind(Real);
      constructor(title: string, { body = "" }: NotificationOptions = {}) {
        super();
        this.title = title;
        this.body = body;
        shown.push(this as unknown as Notification);
      }
      close() {}
    }
    Object.assign(window, { Notification: Kept, shown });
  });
  const page = await visitor.open("?user=pia&user=rob");
  const shown = () =>
    page.evaluate(() =>
      (window as unknown as { shown: Notification[] }).shown.map(({ title, body }) => `${title}: ${body}`),
    );
  const [pia, rob] = [new Pane(page, "pia"), new Pane(page, "rob")];
  await pia.isState("Online");
  expect(await page.title()).toBe("Pigeonhole");
  await pia.say("Are you there?");
  await page.getByRole("button", { name: "rob 1 unread" }).waitFor();
  expect(await page.title()).toBe("(1) Pigeonhole");
  expect(await shown()).toEqual(["pia: Are you there?"]);
  await page.evaluate(() =>
    (window as unknown as { shown: Notification[] }).shown[0]?.dispatchEvent(new Event("click")),
  );
  await rob.message("Are you there?").waitFor();
  await expect.poll(() => page.title()).toBe("Pigeonhole");

  // In another chat than the open one.
  const third = await (await stage.arrive()).tab("sam", "rob");
  await third.chat("rob").click();
  await third.say("And me?");
  await rob.root.getByRole("button", { name: "Back to the chats, 1 unread" }).waitFor();
  expect(await shown()).toEqual(["pia: Are you there?", "sam: And me?"]);
});

test("Back goes from a chat to the list on a phone, and only then away", async () => {
  const visitor = await stage.arrive(PHONE);
  const page = await visitor.open("?user=ute");
  const ute = new Pane(page, "ute");
  await ute.isState("Online");
  const start = async (name: string) => {
    await ute.root.getByRole("textbox", { name: "Search or start a chat with" }).fill(name);
    await page.keyboard.press("Enter");
    await ute.field().waitFor();
  };
  await start("val");
  await page.goBack();
  await ute.chat("val").waitFor();
  expect(await ute.field().isVisible()).toBe(false);
  await ute.chat("val").tap();
  await ute.toChats();
  await ute.chat("val").waitFor();
  // The arrow has taken its entry of the history away.
  await ute.chat("val").tap();
  await page.reload();
  await ute.field().waitFor();
  await page.goBack();
  await ute.chat("val").waitFor();
  await page.goBack();
  expect(page.url()).toBe("about:blank");
});

test("links open, emoji are large, any emoji is a reaction, and a picture is seen before it goes", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=wes&user=yva");
  const [wes, yva] = await sideBySide(page, "wes", "yva");
  await wes.say("See https://a.example/b?c=1, and <b>https://d.example</b>.");
  await yva.chat("wes").click();
  await yva.message("See").waitFor();
  const links = yva.message("See").getByRole("link");
  expect(await links.evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).href))).toEqual([
    "https://a.example/b?c=1",
    "https://d.example/",
  ]);
  expect(await links.first().getAttribute("rel")).toBe("noopener noreferrer");
  await yva.message("See").focus();
  await page.keyboard.press("Enter");
  await yva.item("Open a.example").waitFor();

  // By the keyboard, to one below the quick ones.
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await wes.reaction("See", "😘 1").waitFor();

  await wes.root.getByRole("button", { name: "Insert an emoji" }).click();
  await wes.item("🎉").click();
  expect(await wes.field().inputValue()).toBe("🎉");
  await wes.field().press("Enter");
  await wes.hasTicks("🎉", "Read");
  const size = (text: string) =>
    wes
      .message(text)
      .locator(".text")
      .evaluate((element) => Number.parseFloat(getComputedStyle(element).fontSize));
  expect(await size("🎉")).toBeGreaterThan(2 * (await size("See")));

  await wes.root
    .getByLabel("Files to send")
    .setInputFiles({ name: "p.png", mimeType: "image/png", buffer: png(40, 30) });
  expect(await wes.field().getAttribute("placeholder")).toBe("Add a caption");
  const preview = wes.root.locator(".previews img");
  await expect.poll(() => preview.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBe(40);
  await wes.field().press("Escape");
  expect(await preview.count()).toBe(0);
  expect(await wes.field().getAttribute("placeholder")).toBe("Message yva");
});

test("nothing is wider than 320 px, and a finger finds every button", async () => {
  const visitor = await stage.arrive({ ...PHONE, viewport: { width: 320, height: 640 } });
  const long = `${"maximilian".repeat(6)}`;
  const page = await visitor.open(`?user=abe&user=${long}`);
  const abe = new Pane(page, "abe");
  await abe.isState("Online");
  const fits = async () => {
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
    const small = await page
      .locator("button:visible, input:visible, textarea:visible, summary:visible")
      .evaluateAll((all) =>
        all
          .filter((element) => !element.closest(".frames ol, .offer") && element.tabIndex >= 0)
          .map((element) => (element.closest("label") ?? element).getBoundingClientRect().height)
          .filter((height) => height < 43.9),
      );
    expect(small).toEqual([]);
  };
  await abe.say("x".repeat(400));
  await abe.hasTicks("xxx", "Delivered");
  await fits();
  expect((await abe.field().boundingBox())?.height).toBeLessThan(50);
  await screenshot(page, "narrow");
  await abe.toChats();
  await abe.chat(long).waitFor();
  await fits();
});

test("in high contrast the switch, bubbles and buttons have edges; with less movement nothing flashes", async () => {
  const visitor = await stage.arrive({ forcedColors: "active", reducedMotion: "reduce" });
  const page = await visitor.open("?user=cal&user=dot");
  const [cal, dot] = await sideBySide(page, "cal", "dot");
  await cal.say("The bridge is open again.");
  await dot.chat("cal").click();
  await cal.hasTicks("bridge", "Read");
  const edge = (element: Element) => Number.parseFloat(getComputedStyle(element).borderTopWidth);
  expect(await cal.connection().evaluate(edge)).toBeGreaterThan(0);
  expect(await cal.message("bridge").locator(".bubble").evaluate(edge)).toBeGreaterThan(0);
  expect(await cal.root.getByRole("button", { name: "Send", exact: true }).evaluate(edge)).toBeGreaterThan(0);
  const knob = () =>
    cal.connection().evaluate((element) => {
      const [inner, outer] = [getComputedStyle(element, "::before"), getComputedStyle(element)];
      return [inner.backgroundColor, outer.backgroundColor];
    });
  const [inner, outer] = await knob();
  expect(inner).not.toBe(outer);
  await dot.say("At last.");
  await cal.pick("At last.", "Reply");
  await cal.say("Yes.");
  await cal.message("Yes.").getByRole("button", { name: "In reply to dot" }).click();
  const flash = await cal
    .message("dot: At last.")
    .locator(".bubble")
    .evaluate((element) => getComputedStyle(element).animationDuration);
  expect(["0.001s", "0s"]).toContain(flash);
  await screenshot(page, "high-contrast");
});
