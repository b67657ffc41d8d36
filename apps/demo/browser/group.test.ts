// Groups in the demo, in a browser, against the server that `cargo run` starts.

import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { Stage, screenshot, sideBySide, TEST_MS_MAX, test } from "./stage.ts";

const stage = new Stage({ viewport: { width: 1500, height: 900 } });

test("a group is made by hand, three chat in it, and its owner changes who is in it and what it is", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=fay&user=gus&user=hal");
  const [fay, gus, hal] = await sideBySide(page, "fay", "gus", "hal");
  await fay.toChats();
  await fay.makeGroup("Summer <b>trip</b>", "gus, hal");
  await fay.line("You created the group “Summer <b>trip</b>” with gus and hal").waitFor();
  await gus.hasPreview("Summer <b>trip</b>", "fay created the group");
  await gus.chat("Summer <b>trip</b>").click();
  await gus.line("fay created the group “Summer <b>trip</b>” with you and hal").waitFor();

  // Each bubble names its author, and the menu its readers.
  await fay.say("Shall we go to the lake?");
  await gus.message("Shall we go").locator(".who").getByText("fay").waitFor();
  await hal.hasUnread("Summer <b>trip</b>", 1);
  await fay.hasTicks("Shall we go", "Delivered");
  await fay.message("Shall we go").click({ button: "right" });
  await fay.root.locator(".readers").getByText("Read by gus. Received by hal.").waitFor();
  await screenshot(page, "group-readers");
  await page.keyboard.press("Escape");
  await hal.chat("Summer <b>trip</b>").click();
  await fay.hasTicks("Shall we go", "Read");

  // A mention, by the names that are offered.
  await hal.toChats();
  await gus.field().pressSequentially("Ask @h");
  await gus.root.getByRole("option", { name: "hal" }).waitFor();
  await screenshot(page, "group-names");
  await page.keyboard.press("Enter");
  expect(await gus.field().inputValue()).toBe("Ask @hal ");
  await gus.field().press("Enter");
  await fay.message("Ask @hal").locator(".mention").getByText("@hal").waitFor();
  await fay.say("Everybody, please");
  await hal.root.getByRole("button", { name: /Summer <b>trip<.b>.* 1 for you 2 unread/ }).waitFor();
  await hal.chat("Summer <b>trip</b>").click();
  await hal.message("2 unread messages").waitFor();
  expect(await hal.root.locator(".message.named").count()).toBe(1);

  // Several write.
  const writes = async () => {
    // The client sends `typing` every few seconds, however fast the user types.
    await gus.field().pressSequentially("I");
    await hal.field().pressSequentially("We");
    return fay.root.locator(".presence").textContent();
  };
  await expect.poll(writes, { timeout: TEST_MS_MAX }).toBe("gus and hal are typing …");

  // Another title, an admin, and rules.
  await fay.togglePanel();
  expect(await fay.panel().getByRole("listitem").count()).toBe(3);
  await fay.member("fay").getByText("Owner").waitFor();
  await fay.panel().getByRole("textbox", { name: "Title" }).fill("Lake");
  await fay.panel().getByRole("button", { name: "Rename" }).click();
  await hal.line("fay called the group “Lake”").waitFor();
  await gus.root.getByRole("heading", { name: "Lake" }).waitFor();
  await fay.chooseFor("gus", "Make admin");
  await fay.member("gus").getByText("Admin").waitFor();
  await gus.line("fay made you an admin").waitFor();
  await screenshot(page, "group-panel");
  await fay.panel().getByLabel("Who can write").selectOption("Only admins");
  await hal.root.getByText("Only admins write in this group.").waitFor();
  expect(await hal.field().isVisible()).toBe(false);
  expect(await gus.field().isVisible()).toBe(true);
  await fay.panel().getByLabel("Who can write").selectOption("All members");
  await hal.field().waitFor();
  await fay.chooseFor("hal", "Only read for an hour");
  await hal.root.getByText(/You can only read in this group until/).waitFor();
  expect(await hal.field().isVisible()).toBe(false);
  expect(await gus.field().isVisible()).toBe(true);
  await fay.chooseFor("hal", "Let write again");
  await hal.field().waitFor();

  // A removed member keeps the messages, and can do nothing more.
  await fay.chooseFor("hal", "Remove hal");
  await fay.confirm("Remove");
  await hal.line("fay removed you").waitFor();
  await hal.root.getByText("You are no longer in this group.").waitFor();
  expect(await hal.field().isVisible()).toBe(false);
  expect(await hal.root.getByRole("button", { name: "Members and rules" }).count()).toBe(0);
  await fay.member("hal").waitFor({ state: "detached" });
  await gus.say("Without hal, then");
  await fay.message("Without hal").waitFor();
  await screenshot(page, "group-removed");

  // Hal is added again, and sees no earlier message.
  await gus.togglePanel();
  await gus.panel().getByRole("textbox", { name: "Add members" }).fill("hal");
  await gus.panel().getByRole("button", { name: "Add", exact: true }).click();
  await hal.line("gus added you").waitFor();
  await hal.field().waitFor();
  await hal.message("Shall we go").waitFor({ state: "detached" });
  await expect.poll(() => hal.bodies()).toEqual([]);
  await hal.say("Back again");
  await fay.message("Back again").waitFor();
  await hal.hasTicks("Back again", "Stored");

  // Fay makes gus the owner, and leaves.
  await fay.chooseFor("gus", "Transfer ownership");
  await fay.confirm("Transfer");
  await gus.line("fay transferred the group to you").waitFor();
  await fay.panel().getByRole("button", { name: "Leave the group" }).click();
  await fay.confirm("Leave");
  await hal.line("fay left").waitFor();
  await fay.root.getByText("You are no longer in this group.").waitFor();
  await page.reload();
  await fay.line("You left").waitFor();
  await fay.root.getByText("You are no longer in this group.").waitFor();
});

test("a group that is made without a connection waits, over a reload too, and what an admin deletes is gone", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=ivo&user=jay&user=kay");
  const [ivo, jay, kay] = await sideBySide(page, "ivo", "jay", "kay");
  await ivo.toChats();
  await ivo.connection().click();
  await ivo.isState("Offline");
  await ivo.makeGroup("Choir", "jay, kay");
  await ivo.root.getByText("The group is not created yet.").waitFor();
  await page.reload();
  await ivo.isState("Offline: switched off here");
  await ivo.chat("Choir").waitFor();
  await ivo.connection().click();
  await jay.chat("Choir").click();
  await kay.chat("Choir").click();
  await ivo.chat("Choir").click();
  await jay.say("At seven?");
  await kay.message("At seven?").waitFor();
  // While one is away, the group goes on.
  await kay.connection().click();
  await kay.isState("Offline");
  await ivo.say("At eight. @all");
  await jay.message("At eight").locator(".mention").waitFor();
  await ivo.message("At seven?").click({ button: "right" });
  await ivo.item("Delete for everyone").click();
  await ivo.sayYes();
  await jay.message("This message was deleted").waitFor();
  await jay.message("At eight").click({ button: "right" });
  await jay.item("Reply").waitFor();
  expect(await jay.item("Delete").count()).toBe(0);
  await page.keyboard.press("Escape");
  await kay.connection().click();
  await kay.message("At eight").waitFor();
  await expect.poll(() => kay.bodies()).toEqual(["This message was deleted", "At eight. @all"]);
  await ivo.hasTicks("At eight", "Read");
  // Each reacts, and so do two with the same.
  await jay.pick("At eight", "👍");
  await kay.reaction("At eight", "👍 1").click();
  await ivo.reaction("At eight", "👍 2").waitFor();
  await kay.pick("At eight", "🙏");
  await ivo.reaction("At eight", "👍 1").waitFor();
  await ivo.reaction("At eight", "🙏 1").waitFor();
});

test("a group by the keyboard alone", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=lou&user=max&user=nia");
  const [lou, max] = await sideBySide(page, "lou", "max", "nia");
  await lou.toChats();
  await lou.root.getByRole("button", { name: "New group" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("x");
  await page.keyboard.press("Escape");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("New group");
  await page.keyboard.press("Enter");
  await page.keyboard.type("Chess");
  await page.keyboard.press("Tab");
  await page.keyboard.type("max, nia");
  await page.keyboard.press("Enter");
  await lou.line("You created the group “Chess”").waitFor();
  await lou.field().waitFor();
  // The names, and that Escape leaves the field and the chat as they are.
  await lou.field().focus();
  await page.keyboard.type("@");
  await lou.root.getByRole("option", { name: "max" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  expect(await lou.root.getByRole("listbox").count()).toBe(0);
  await page.keyboard.type("n");
  await page.keyboard.press("Tab");
  await page.keyboard.type("begins");
  await page.keyboard.press("Enter");
  await max.hasPreview("Chess", "lou: @nia begins");
  // The panel: the first field has the focus, and Escape brings it back.
  await lou.root.getByRole("button", { name: "Members and rules" }).focus();
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Title");
  await lou.member("nia").getByRole("button", { name: "Actions for nia" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await max.hasPreview("Chess", "lou removed nia");
  await lou.member("nia").waitFor({ state: "detached" });
  await lou.panel().getByRole("textbox", { name: "Title" }).focus();
  await page.keyboard.press("Escape");
  expect(await lou.panel().count()).toBe(0);
  expect(await lou.field().isVisible()).toBe(true);
});

test("a group on a phone", async () => {
  const visitor = await stage.arrive({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true });
  const page = await visitor.open("?user=oda&user=pip&user=roy");
  const oda = new Pane(page, "oda");
  const pip = new Pane(page, "pip");
  await oda.isState("Online");
  await oda.toChats();
  await oda.makeGroup("Book club, which reads long titles", "pip, roy");
  await oda.say("Who has the book?");
  await oda.hasTicks("Who has the book?", "Delivered");
  await page.getByRole("button", { name: "pip 1 unread" }).click();
  await pip.chat("Book club").click();
  await pip.say("Roy has it");
  await page.getByRole("button", { name: "oda" }).first().click();
  await oda.message("Roy has it").waitFor();
  await screenshot(page, "phone-group");
  await oda.togglePanel();
  await oda.member("roy").waitFor();
  await screenshot(page, "phone-group-panel");
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});

test("a group that can't be made says whose fault it is, and can be put away; one that is made has its rules at once", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=tim&user=una");
  const [tim, una] = await sideBySide(page, "tim", "una");
  await tim.say("hi");
  await una.chat("tim").click();
  await una.block("tim");
  await una.isSet("Blocked");

  await tim.root.getByRole("button", { name: "New group" }).click();
  const form = tim.root.getByRole("form", { name: "New group" });
  await form.getByRole("textbox", { name: "Title" }).fill("Two of us");
  const members = form.getByRole("textbox", { name: "Members" });
  const problem = () => members.evaluate((field: HTMLInputElement) => field.validationMessage);
  for (const [text, says] of [
    ["Mr Smith", "“Mr Smith” is no user id"],
    ["una, @orders", "@orders is a service"],
  ] as const) {
    await members.fill(text);
    await form.getByRole("button", { name: "Create" }).click();
    await expect.poll(problem).toContain(says);
  }
  await members.fill("una");
  await form.getByRole("button", { name: "Create" }).click();
  await tim.root.getByText("Not created: una can’t be added").first().waitFor();
  await screenshot(page, "group-not-made");
  await tim.root.getByRole("button", { name: "Remove" }).click();
  await tim.chat("Two of us").waitFor({ state: "detached" });

  await tim.makeGroup("Alone", "");
  await tim.line("You created the group “Alone”").waitFor();
  await tim.togglePanel();
  await tim.panel().getByRole("combobox", { name: "Who can write" }).waitFor();
  const chosen = await tim
    .panel()
    .getByRole("combobox")
    .evaluateAll((all) =>
      all.filter((each) => (each as HTMLElement).checkVisibility()).map((each) => (each as HTMLSelectElement).value),
    );
  expect(chosen).toEqual(["all", "all", "joined"]);
});
