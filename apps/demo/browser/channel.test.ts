// Channels in the demo, in a browser, against the server that `cargo run` starts.

import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { Stage, screenshot, sideBySide, test } from "./stage.ts";

const stage = new Stage({ viewport: { width: 1500, height: 900 } });

/** Returns the id of the open channel. */
async function idOf(pane: Pane): Promise<string> {
  await pane.togglePanel();
  const id = (await pane.channelPanel().locator("code").textContent()) ?? "";
  await pane.togglePanel();
  return id;
}

test("a channel is made, joined by its id and from the list, and what its admin posts is watched live", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=abe&user=bea&user=cal");
  const [abe, bea, cal] = await sideBySide(page, "abe", "bea", "cal");
  await abe.toChats();
  await abe.makeChannel("Town <b>news</b>");
  await abe.line("You created the channel “Town <b>news</b>”").waitFor();
  await abe.say("Before anybody was there");
  await abe.hasTicks("Before anybody", "Stored");
  const id = await idOf(abe);
  expect(id).toMatch(/^ch_/);

  // By its id, and of those that were made in this browser.
  await bea.joinChannel(id);
  await bea.root.getByText("Nothing was posted here yet.").waitFor();
  await bea.root.getByText("Only admins post in this channel.").waitFor();
  expect(await bea.field().isVisible()).toBe(false);
  const forms = await cal.openChannels();
  await screenshot(page, "channel-join");
  await forms.getByRole("button", { name: "Join “Town <b>news</b>”" }).click();
  await cal.root.getByText("Only admins post in this channel.").waitFor();

  // Subscribers get posts as events. A channel's message has one tick.
  await abe.say("The bridge is open again");
  await bea.message("The bridge is open").waitFor();
  await cal.message("The bridge is open").waitFor();
  await abe.hasTicks("The bridge is open", "Stored");
  await expect.poll(() => bea.bodies()).toEqual(["The bridge is open again"]);
  await bea.message("The bridge is open").click({ button: "right" });
  await bea.item("👍").waitFor();
  expect(await bea.item("Reply").count()).toBe(0);
  await bea.item("👍").click();
  await bea.reaction("The bridge is open", "👍 1, one of them yours").waitFor();
  await abe.pick("You: The bridge", "Edit");
  await abe.say("The bridge is closed again");
  await cal.message("edited").filter({ hasText: "closed again" }).waitFor();
  await screenshot(page, "channel");

  // An entry posted while a member is away is there on return, and counts as unread until the member looks.
  await cal.connection().click();
  await cal.isState("Offline");
  await abe.say("While cal was away");
  await bea.message("While cal was away").waitFor();
  await cal.connection().click();
  await cal.message("While cal was away").waitFor();
  await bea.hasRead("While cal was away");
  await bea.toChats();
  await abe.say("One more");
  await bea.hasUnread("Town <b>news</b>", 1);
  await bea.chat("Town <b>news</b>").click();
  await bea.message("One more").waitFor();

  // An admin posts; who is removed sees nothing more.
  await abe.togglePanel();
  await abe.chooseFor("bea", "Make admin", abe.channelPanel());
  await bea.line("abe made you an admin").waitFor();
  await bea.field().waitFor();
  await bea.say("From the second admin");
  await cal.message("From the second").locator(".who").getByText("bea").waitFor();
  await screenshot(page, "channel-panel");
  await abe.chooseFor("cal", "Remove cal", abe.channelPanel());
  await abe.confirm("Remove");
  await bea.line("abe removed cal").waitFor();
  // The server sends no event: the page finds out when it requests the news.
  await cal.root.getByText("You are no longer in this channel.").waitFor();
  expect(await cal.root.getByRole("button", { name: "Members and rules" }).count()).toBe(0);

  // Left, it is off the list, also after a reload.
  await bea.togglePanel();
  await bea.channelPanel().getByRole("button", { name: "Leave the channel" }).click();
  await bea.confirm("Leave");
  await bea.chat("Town <b>news</b>").waitFor({ state: "detached" });
  // The page has gone back in its history. Until then, it can't be loaded again.
  await expect.poll(() => page.evaluate(() => history.state?.open ?? [])).not.toContain("bea");
  await page.reload();
  await abe.message("From the second admin").waitFor();
  await bea.isState("Online");
  expect(await bea.chat("Town <b>news</b>").count()).toBe(0);
});

test("a channel of which admins decide who joins, made without a connection; a post waits for it", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=dex&user=eli&user=fia");
  const [dex, eli] = await sideBySide(page, "dex", "eli", "fia");
  await dex.toChats();
  await dex.connection().click();
  await dex.isState("Offline");
  const forms = await dex.openChannels();
  await forms.getByRole("textbox", { name: "Title" }).fill("Board");
  await forms.getByRole("checkbox", { name: "Anyone can join" }).uncheck();
  await forms.getByRole("button", { name: "Create" }).click();
  await dex.root.getByText("The channel is not created yet.").waitFor();
  await page.reload();
  await dex.isState("Offline: switched off here");
  await dex.connection().click();
  await dex.chat("Board").click();
  await dex.line("You created the channel “Board”").waitFor();
  const id = await idOf(dex);
  await eli.isState("Online");
  await eli.joinChannel(id);
  const field = eli.root.getByRole("textbox", { name: "Channel’s id" });
  await expect
    .poll(() => field.evaluate((input: HTMLInputElement) => input.validationMessage))
    .toMatch(/admins decide/);
  await page.keyboard.press("Escape");
  await dex.togglePanel();
  await dex.channelPanel().getByRole("textbox", { name: "Add members" }).fill("eli");
  await dex.channelPanel().getByRole("button", { name: "Add", exact: true }).click();
  await dex.line("You added eli").waitFor();
  await eli.chat("Board").click();
  await eli.line("dex added you").waitFor();
  await dex.connection().click();
  await dex.isState("Offline");
  await dex.say("Waits");
  await dex.hasTicks("Waits", "Waiting for a connection");
  await page.reload();
  await dex.hasTicks("Waits", "Waiting for a connection");
  await dex.connection().click();
  await dex.hasTicks("Waits", "Stored");
  await eli.message("Waits").waitFor();
});

test("a channel by the keyboard, and on a phone", async () => {
  const visitor = await stage.arrive({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true });
  const page = await visitor.open("?user=gil&user=hod");
  const [gil, hod] = [new Pane(page, "gil"), new Pane(page, "hod")];
  await gil.isState("Online");
  await gil.toChats();
  await gil.root.getByRole("button", { name: "Channels", exact: true }).focus();
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Channel’s id");
  await page.keyboard.press("Escape");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Channels");
  await page.keyboard.press("Enter");
  await gil.root.getByRole("textbox", { name: "Title" }).last().focus();
  await page.keyboard.type("A channel with a long title, for small screens");
  await page.keyboard.press("Enter");
  await gil.field().focus();
  await page.keyboard.type("By the keyboard");
  await page.keyboard.press("Enter");
  await gil.hasTicks("By the keyboard", "Stored");
  await page.getByRole("button", { name: "hod" }).first().click();
  await hod.isState("Online");
  await hod.openChannels();
  await screenshot(page, "phone-channels");
  await hod.root.getByRole("button", { name: "Join “A channel" }).click();
  await hod.root.getByText("Only admins post in this channel.").waitFor();
  await screenshot(page, "phone-channel");
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});
