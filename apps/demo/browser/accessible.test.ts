// axe looks for problems on the demo's page, in each colour scheme and width: roles, names, contrast, focus.

import axe from "axe-core";
import { expect } from "vitest";
import { findIn, looks } from "./axe.ts";
import { png } from "./png.ts";
import { Stage, sideBySide, test } from "./stage.ts";

const stage = new Stage({ reducedMotion: "reduce", permissions: ["notifications"] });

/** Two users side by side, whose page contains axe. */
async function axes(...users: [string, string]) {
  const visitor = await stage.arrive();
  const page = await visitor.open(`?user=${users[0]}&user=${users[1]}`);
  await page.evaluate(axe.source);
  const [ann, ben] = await sideBySide(page, ...users);
  const found = new Map<string, string>();
  return { page, ann, ben, found, look: (what: string) => findIn(page, what, found) };
}

test("axe finds nothing in a chat, in its question and beside the phone’s lock screen", async () => {
  const { ann, ben, found, look } = await axes("ann", "ben");
  await look("an empty chat");
  await ben.chat("ann").click();
  await ann.say("See https://a.example/b, it is open again.");
  await ann.attach({ name: "lake.png", mimeType: "image/png", buffer: png(400, 300) }, "The lake");
  await ann.attach({ name: "report.txt", mimeType: "text/plain", buffer: Buffer.from("all well") });
  await ben.message("report.txt").waitFor();
  await ben.pick("See https", "Reply");
  await ben.say("At last.");
  await ann.pick("At last.", "👍");
  await ben.pick("You: At last.", "Delete for everyone");
  await look("a question");
  await ben.sayYes();
  await ann.message("This message was deleted").waitFor();
  await ann.connection().click();
  await ann.isState("Offline");
  await ann.say("Are you there?");
  await ann.hasTicks("there?", "Waiting for a connection");
  await ben.say("One");
  await ann.notification("One").waitFor();
  await look("offline, with the phone’s lock screen");
  await ann.connection().click();
  await ann.isState("Online");
  await ann.message("One").waitFor();
  expect([...found]).toEqual([]);
});

test("axe finds nothing in the menus, the emoji and a picture", async () => {
  const { page, ann, found, look } = await axes("eve", "fay");
  await ann.say("See https://a.example/b, it is open again.");
  await ann.attach({ name: "lake.png", mimeType: "image/png", buffer: png(400, 300) });
  await ann.root.locator(".picture img.seen").waitFor();
  await ann.message("See https").click({ button: "right" });
  await ann.item("Reply").waitFor();
  await look("a message’s menu");
  await page.keyboard.press("Escape");
  await ann.menu().click();
  await look("a chat’s menu");
  await page.keyboard.press("Escape");
  await ann.root.getByRole("button", { name: "Look at:" }).click();
  await look("a picture");
  await page.keyboard.press("Escape");
  await ann.root.getByRole("button", { name: "Insert an emoji" }).click();
  await look("the emoji");
  await page.keyboard.press("Escape");
  expect([...found]).toEqual([]);
});

test("axe finds nothing in the lists, a group, the forms and a search", async () => {
  const { page, ann, ben, found, look } = await axes("cara", "dirk");
  await ann.say("At last.");
  await ann.hasTicks("At last.", "Delivered");
  await ann.choose("Archive");
  await ann.isSet("Archived");
  await ann.makeGroup("Lake", "dirk, erin");
  await ann.line("You created the group “Lake” with dirk and erin").waitFor();
  await ann.say("Who brings the boat, @dirk?");
  await ann.hasTicks("boat", "Stored");
  await ann.togglePanel();
  await ann.member("erin").waitFor();
  await look("a group with its members");
  await ann.panel().getByRole("button", { name: "Actions for dirk" }).click();
  await look("a member’s menu");
  await page.keyboard.press("Escape");
  await ann.togglePanel();
  await page.setViewportSize(looks.phone);
  await ann.toChats();
  await ann.root.locator(".archive > summary").click();
  await look("the lists");
  await ann.root.getByRole("button", { name: "New group" }).click();
  await ben.openChannels();
  await look("the forms");
  await ann.root.getByRole("textbox", { name: "Search or start a chat with" }).fill("boat");
  await ann.root.getByRole("list", { name: "Messages found" }).getByRole("button").waitFor();
  await look("a search");
  expect([...found]).toEqual([]);
});
