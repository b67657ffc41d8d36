// Messages of a team's own server: the demo in a browser, against the server that `cargo run` starts.

import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { Stage, screenshot, test } from "./stage.ts";

const stage = new Stage();

/** The operators' function. */
async function admin(request: object): Promise<{ result: { conversation_id: string } }> {
  const body = JSON.stringify(request);
  const answer = await fetch(`${stage.server.url}local/admin`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body,
  });
  return answer.json();
}

test("a shop writes: it is listed, counted and rings; it is read, muted and archived, and nobody answers it", async () => {
  const visitor = await stage.arrive({ viewport: { width: 1000, height: 860 } });
  const page = await visitor.open("?user=amy&user=ben");
  const ben = new Pane(page, "ben");
  await ben.isState("Online");
  const shop = ben.root.getByRole("button", { name: "Get a message from a shop" });
  await shop.click();
  await ben.hasPreview("@shop", "Your parcel is on its way");
  await ben.hasUnread("@shop", 1);
  await shop.click();
  await ben.hasUnread("@shop", 2);
  await screenshot(page, "service-listed");
  await ben.chat("@shop").click();
  await ben.message("two stops away").waitFor();
  await ben.isPresent("Service");

  // A user can't reply to a service.
  await ben.root.getByText("Only @shop sends messages here.").waitFor();
  expect(await ben.field().isVisible()).toBe(false);
  await ben.message("two stops away").click({ button: "right" });
  await ben.item("Copy").waitFor();
  expect(await ben.root.getByRole("menu").locator("button").allTextContents()).toEqual(["Forward", "Copy", "Report"]);
  await screenshot(page, "service");
  await page.keyboard.press("Escape");
  await ben.menu().click();
  await ben.item("Archive").waitFor();
  const choices = await ben.root.getByRole("menu").locator("button").allTextContents();
  expect(choices).toEqual([
    "Mute for 8 hours",
    "Mute",
    "Pin to top",
    "Archive",
    "Mark as unread",
    "What the server sees",
  ]);
  await ben.item("Archive").click();
  await ben.isSet("Archived");

  // The next message brings it back.
  await ben.toChats();
  await shop.click();
  await ben.hasUnread("@shop", 1);
  await ben.chat("@shop").click();
  await ben.message("at your door").waitFor();
  await ben.hasReported(3);
  await ben.choose("Mute");
  await ben.isSet("Muted");
  await ben.toChats();
  await shop.click();
  await ben.root.getByRole("button", { name: /@shop Muted.* 1 unread/ }).waitFor();

  // While ben is away, his phone gets a push notification.
  await ben.chat("@shop").click();
  await ben.hasReported(4);
  await ben.choose("Unmute");
  await ben.connection().click();
  await ben.isState("Offline");
  await ben.toChats();
  await shop.click();
  await ben.notification("two stops away").waitFor();
  await ben.connection().click();
  await ben.hasUnread("@shop", 1);
});

test("a service's text is drawn while it grows, until its message comes or six seconds have passed", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=eli");
  const eli = new Pane(page, "eli");
  await eli.isState("Online");
  const send = { op: "send", as: "@orders", to: "eli", kind: "text" };
  await admin({ ...send, client_msg_id: "m1", body: "Good morning" });
  await eli.chat("@orders").click();
  await eli.message("Good morning").waitFor();
  const growing = eli.root.locator(".growing");
  // The server sends one text in 200 ms, and drops others.
  const grows = async (text: string) => {
    const isDrawn = growing.filter({ hasText: text });
    await expect
      .poll(async () => {
        await admin({ op: "typing", as: "@orders", to: "eli", text });
        return isDrawn.count();
      })
      .toBe(1);
  };
  await grows("Your order");
  await eli.root.getByText("@orders is writing", { exact: true }).waitFor({ state: "attached" });
  await grows("Your order is packed");
  await screenshot(page, "service-writes");
  await admin({ ...send, client_msg_id: "m2", body: "Your order is packed and on its way" });
  await eli.message("on its way").waitFor();
  expect(await growing.count()).toBe(0);
  await eli.hasReported(2);
  await grows("One moment");
  await growing.waitFor({ state: "detached", timeout: 15_000 });
});

test("what an operator deletes is deleted for both, and begins no chat", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=cat&user=dan");
  const [cat, dan] = [new Pane(page, "cat"), new Pane(page, "dan")];
  await dan.isState("Online");
  await cat.say("Something forbidden");
  await cat.hasTicks("Something forbidden", "Delivered");
  const { result } = await admin({ op: "conversation", user_ids: ["cat", "dan"] });
  await admin({ op: "delete_message", conversation_id: result.conversation_id, seq: 1 });
  await cat.message("This message was deleted").waitFor();
  await dan.hasPreview("cat", "This message was deleted");
  await cat.say("Sorry");
  await dan.hasPreview("cat", "Sorry");
  for (const pane of [cat, dan]) {
    expect(await pane.chat("@system").count()).toBe(0);
    expect(await pane.root.getByRole("navigation").locator(".chat").count()).toBe(1);
  }
});
