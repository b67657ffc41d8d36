// The end-to-end encryption in a browser. `just wasm` builds the encryption, and runs these tests.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { describe, expect } from "vitest";
import { findIn } from "./axe.ts";
import { Pane } from "./pane.ts";
import { png } from "./png.ts";
import { Stage, screenshot, sideBySide, test } from "./stage.ts";

const stage = new Stage({ reducedMotion: "reduce" });
const isBuilt = existsSync(new URL("../../../clients/web/src/wasm/sealing_bg.wasm", import.meta.url));

/** Two users side by side, with keys that the server has. */
async function encrypted(...users: [string, string]) {
  const visitor = await stage.arrive();
  const page = await visitor.open(`?user=${users[0]}&user=${users[1]}`);
  const [one, other] = await sideBySide(page, ...users);
  await one.encrypt();
  await other.encrypt();
  return { visitor, page, one, other };
}

/** The page of what the server sees of the open chat. */
async function serversView(pane: Pane): Promise<Page> {
  const opened = pane.page.context().waitForEvent("page");
  await pane.choose("What the server sees");
  return opened;
}

/** The user compares the open chat's safety number. */
async function verifies(pane: Pane, other: string) {
  await pane.lock("on").click();
  await pane.encryption().getByRole("button", { name: "They are equal" }).click();
  await pane.encryption().getByText(`You have verified the keys of ${other}`).waitFor();
  await pane.lock("on").click();
}

/** The user in another browser, which has none of the user's keys, and begins the encryption of the chat anew. */
async function begunAnew(user: string, peer: string, chat: string): Promise<Pane> {
  const visitor = await stage.arrive();
  const anew = new Pane(await visitor.open(`?user=${user}&with=${peer}`), user);
  await anew.isState("Online");
  await anew.encrypt(2);
  await anew.chat(chat).click();
  await anew.lock("joining").click();
  await anew.encryption().getByRole("button", { name: "Begin the encryption anew" }).click();
  await anew.confirm("Begin anew");
  await anew.lock("on").waitFor();
  return anew;
}

describe.runIf(isBuilt)("with the encryption", () => {
  test("a first message is sealed: both see the lock, and the server sees no text", async () => {
    const { page, one: ann, other: ben } = await encrypted("ann", "ben");
    await ann.lock("off").waitFor();
    await ann.say("a canary for ben");
    await ann.hasTicks("a canary for ben", "Delivered");
    await ben.chat("ann").getByRole("img", { name: "Encrypted" }).waitFor();
    await ben.hasPreview("ann", "a canary for ben");
    await ben.chat("ann").click();
    await ben.say("a canary for ann");
    await ann.message("a canary for ann").waitFor();
    await ann.pick("a canary for ann", "👍");
    await ben.reaction("a canary for ann", "👍 1").waitFor();
    for (const pane of [ann, ben]) {
      await pane.lock("on").waitFor();
    }

    // The operator has no key, and gets the reporter's word.
    await ann.pick("a canary for ann", "Report");
    await ann.confirm("Spam");
    await ann.isSet("Reported to the operator");
    const [report] = await stage.server.reportsOf("ann");
    expect(report).toMatchObject({ claimed: "a canary for ann", messages: [{ kind: "sealed", sender_id: "ben" }] });

    const view = await serversView(ann);
    await view.getByRole("row").filter({ hasText: "sealed, silent" }).waitFor();
    const rows = view.getByRole("row");
    const kinds = await rows.evaluateAll((all) => all.slice(1).map((row) => row.children[3]?.textContent));
    expect(kinds).toEqual(["commit", "sealed", "sealed", "sealed, silent"]);
    expect(await view.content()).not.toContain("canary");
    await view.getByRole("link", { name: "Back to the chat" }).waitFor();
    await view.evaluate(axe.source);
    const found = new Map<string, string>();
    await findIn(view, "the server’s view", found);

    await page.evaluate(axe.source);
    await ann.lock("on").click();
    const number = ann.encryption().locator(".safety-number");
    await number.filter({ hasText: /^(\d{5} ){11}\d{5}$/ }).waitFor();
    await ann.encryption().getByRole("img", { name: "QR code" }).locator("path").waitFor();
    await ben.lock("on").click();
    await ben
      .encryption()
      .locator(".safety-number")
      .filter({ hasText: (await number.textContent()) ?? "-" })
      .waitFor();
    await ann.toggleDevices();
    await ann.devices().getByText("this device").waitFor();
    await screenshot(page, "encryption");
    await findIn(page, "the panels of the encryption", found);
    expect([...found]).toEqual([]);
  });

  test("the server sees the text of a chat without keys", async () => {
    const visitor = await stage.arrive();
    const page = await visitor.open("?user=cara&user=dirk");
    const [cara] = await sideBySide(page, "cara", "dirk");
    await cara.say("a canary in the clear");
    await cara.hasTicks("a canary", "Delivered");
    const view = await serversView(cara);
    await view.getByRole("row").filter({ hasText: "a canary in the clear" }).waitFor();
  });

  test("a second device reads what follows, and a removed one reads nothing more", async () => {
    const { visitor, one: eve, other: fay } = await encrypted("eve", "fay");
    await eve.say("before the second device");
    await eve.hasTicks("before the second device", "Delivered");
    await fay.chat("eve").click();

    const tab = await visitor.open("?user=eve&device=second&with=fay");
    const second = new Pane(tab, "eve");
    await second.isState("Online");
    await second.chat("fay").click();
    await second.lock("on").waitFor();
    await second.message("Sent before this device joined").waitFor();
    await fay.say("to both devices");
    await second.message("to both devices").waitFor();
    await eve.message("to both devices").waitFor();
    await eve.hasDevices(2);

    await second.connection().click();
    await second.isState("Offline");
    await eve.toggleDevices();
    await eve.devices().getByRole("button", { name: "Remove Device" }).click();
    await eve.confirm("Remove");
    await eve.devices().getByRole("listitem").nth(1).waitFor({ state: "detached" });
    await fay.lock("on").click();
    await fay.encryption().getByText("is no longer among the devices of eve").waitFor();
    await fay.say("to one device");
    await eve.message("to one device").waitFor();
  });

  test("an encrypted group: members are added and removed, and the server sees no text", async () => {
    const { visitor, page, one: ida, other: jan } = await encrypted("ida", "jan");
    const kim = new Pane(await visitor.open("?user=kim&with=ida"), "kim");
    await kim.encrypt();
    await ida.makeGroup("Secrets", "jan", true);
    await ida.line("You created the group “Secrets”").waitFor();
    await ida.lock("on").waitFor();
    await ida.say("a canary for the group");
    await jan.hasPreview("Secrets", "a canary for the group");
    await jan.chat("Secrets").getByRole("img", { name: "Encrypted" }).waitFor();
    await jan.chat("Secrets").click();
    await jan.lock("on").waitFor();

    await ida.togglePanel();
    await ida.panel().getByRole("textbox", { name: "Add members" }).fill("kim");
    await ida.panel().getByRole("button", { name: "Add", exact: true }).click();
    await jan.line("ida added kim").waitFor();
    await kim.chat("Secrets").click();
    await kim.lock("on").waitFor();
    await jan.say("a canary for all three");
    await kim.message("a canary for all three").waitFor();
    await kim.say("a canary of the new member");
    await ida.message("a canary of the new member").waitFor();

    await ida.chooseFor("kim", "Remove kim");
    await ida.confirm("Remove");
    await jan.line("ida removed kim").waitFor();
    await ida.togglePanel();
    await ida.say("a canary for two");
    await jan.message("a canary for two").waitFor();

    await jan.lock("on").click();
    await jan.encryption().getByText("Only the devices of the members can read this group").waitFor();
    await page.evaluate(axe.source);
    const found = new Map<string, string>();
    await findIn(page, "the panel of an encrypted group", found);
    expect([...found]).toEqual([]);
    const view = await serversView(ida);
    await view.getByRole("row").filter({ hasText: "sealed" }).first().waitFor();
    expect(await view.content()).not.toContain("canary");
  });

  test("a picture and a file are encrypted, and the other user has them in the clear", async () => {
    const { page, one: lea, other: max } = await encrypted("lea", "max");
    await lea.say("to begin");
    await max.chat("lea").click();
    await max.message("to begin").waitFor();
    await lea.attach({ name: "lake.png", mimeType: "image/png", buffer: png(2000, 1200) });
    const picture = max.root.getByRole("button", { name: "Look at: Photo from lea" });
    const size = (image: HTMLImageElement) => [image.naturalWidth, image.naturalHeight];
    expect(await picture.locator("img.seen").evaluate(size)).toEqual([1600, 960]);
    // The thumbnail came inside of the message.
    expect(await picture.locator("img.blurred").getAttribute("src")).toMatch(/^data:image\/jpeg/);
    expect(await picture.locator("img.blurred").evaluate(size)).toEqual([160, 96]);
    await lea.hasPreview("max", "You: Photo");
    await lea.attach({ name: "plan.txt", mimeType: "text/plain", buffer: Buffer.from("a canary in a file") });
    const save = max.root.getByRole("button", { name: "Save plan.txt from lea" });
    const [download] = await Promise.all([page.waitForEvent("download"), save.click()]);
    expect(await readFile(await download.path(), "utf8")).toBe("a canary in a file");
    const view = await serversView(lea);
    await view.getByRole("row").filter({ hasText: "sealed" }).nth(2).waitFor();
    expect(await view.locator("main").innerHTML()).not.toMatch(/plan\.txt|image|canary/);
  });

  test("a voice message is encrypted, and played by the other", async () => {
    const { visitor, one: nia, other: otis } = await encrypted("nia", "otis");
    await visitor.context.grantPermissions(["microphone"], { origin: new URL(stage.server.url).origin });
    await nia.say("to begin");
    await otis.chat("nia").click();
    await otis.message("to begin").waitFor();
    await nia.root.getByRole("button", { name: "Record a voice message" }).click();
    await nia.root.getByRole("timer").getByText("0:01").waitFor();
    await nia.root.getByRole("button", { name: "Send the recording" }).click();
    const play = otis.root.getByRole("button", { name: "Play the voice message from nia" });
    await play.click();
    await otis.root.getByRole("button", { name: "Pause the voice message from nia" }).waitFor();
    await otis.root.locator(".wave .played").first().waitFor();
    await play.waitFor();
    await nia.hasPreview("otis", "You: Voice message");
    const view = await serversView(nia);
    await view.getByRole("row").filter({ hasText: "sealed" }).nth(1).waitFor();
    expect(await view.locator("main").innerHTML()).not.toMatch(/voice|audio|waveform/);
  });

  test("a user with other keys: a warning, and messages wait until they are accepted", async () => {
    const { one: gil, other: hal } = await encrypted("gil", "hal");
    await gil.say("to the first keys");
    await gil.hasTicks("to the first keys", "Delivered");
    await verifies(gil, "hal");
    await hal.connection().click();

    const anew = await begunAnew("hal", "gil", "gil");
    const warning = gil.root.getByRole("alert").filter({ hasText: "not those that you verified" });
    await warning.waitFor();
    await gil.lock("other keys").waitFor();
    await gil.say("to the new keys");
    await gil.hasTicks("to the new keys", "Waiting for a connection");
    await warning.getByRole("button", { name: "Accept the new keys" }).click();
    await anew.message("to the new keys").waitFor();
    await gil.lock("on").waitFor();
  });

  test("a member of a group with other keys: a warning in words, and the messages of who verified the old ones wait", async () => {
    const { visitor, one: pia, other: quinn } = await encrypted("pia", "quinn");
    const rob = new Pane(await visitor.open("?user=rob&with=pia"), "rob");
    await rob.encrypt();
    await pia.say("to the first keys");
    await pia.hasTicks("to the first keys", "Delivered");
    await verifies(pia, "quinn");
    await pia.makeGroup("Choir", "quinn, rob", true);
    await pia.line("You created the group “Choir”").waitFor();
    await pia.say("to the whole choir");
    for (const pane of [quinn, rob]) {
      await pane.chat("Choir").click();
      await pane.message("to the whole choir").waitFor();
    }
    await quinn.connection().click();

    const anew = await begunAnew("quinn", "pia", "Choir");
    const held = "The keys of quinn are not those that you verified. Messages to the group wait until you accept";
    await pia.root.getByRole("alert").filter({ hasText: held }).waitFor();
    await pia.lock("other keys").waitFor();
    await pia.say("from the verifier");
    await pia.hasTicks("from the verifier", "Waiting for a connection");
    // This member has compared nothing, so nothing waits.
    await rob.root.getByRole("alert").filter({ hasText: "quinn has new keys. Compare the safety number" }).waitFor();
    await rob.lock("on").waitFor();
    await rob.say("from the other member");
    await anew.message("from the other member").waitFor();
    expect(await anew.message("from the verifier").count()).toBe(0);
    await pia.root.getByRole("button", { name: "Accept the new keys" }).click();
    for (const pane of [anew, rob]) {
      await pane.message("from the verifier").waitFor();
    }
    await pia.lock("on").waitFor();
  });
});
