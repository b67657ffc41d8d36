// The operators' console in a browser, against the server that `cargo run` starts.

import axe from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { findIn } from "./axe.ts";
import { Stage, screenshot, sideBySide, test } from "./stage.ts";

const stage = new Stage({ reducedMotion: "reduce" });

/** The console, and what an operator does there. */
class Console {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  async find(user: string, other = "", at = ""): Promise<void> {
    await this.page.getByLabel("User", { exact: true }).fill(user);
    await this.page.getByLabel("And another user").fill(other);
    await this.page.getByLabel("At (UTC)").fill(at);
    await this.press("Find");
  }

  async press(name: string): Promise<void> {
    await this.page.getByRole("button", { name, exact: true }).click();
  }

  async says(text: string): Promise<void> {
    await this.page.getByRole("status").filter({ hasText: text }).waitFor();
  }

  /** The rows of a table with their cells. */
  async rows(caption: string): Promise<string[][]> {
    const rows = this.page.getByRole("table", { name: caption }).locator("tbody tr");
    return rows.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? "")));
  }
}

test("an operator finds where a message is, who is connected, and suspends a user", async () => {
  const visitor = await stage.arrive();
  const [ann, ben] = await sideBySide(await visitor.open("?user=ann&user=ben"), "ann", "ben");
  await ann.say("Are you there?");
  await ann.hasTicks("there?", "Delivered");
  await ben.connection().click();
  await ben.isState("Offline");
  await ann.say("Secret of ann");
  await ann.hasTicks("Secret", "Stored");
  const operator = new Console(await visitor.open("console.html"));
  const { page } = operator;
  await page.evaluate(axe.source);

  await operator.find("ann", "ben");
  await operator.says("The conversation of ann and ben is found.");
  const entries = await operator.rows("Entries around that time");
  expect(entries.map(([seq, from, , kind, where]) => [seq, from, kind, where])).toEqual([
    ["1", "ann", "text", "on a device of ben"],
    ["2", "ann", "text", "waits for ben"],
  ]);
  expect(await page.locator("main").textContent()).not.toContain("Secret");
  await operator.find("ann", "ben", "2020-01-01T00:00:00");
  await operator.says("The conversation of ann and ben is found.");
  expect((await operator.rows("Entries around that time")).length).toBe(2);
  const found = new Map<string, string>();
  await findIn(page, "a conversation", found);
  await screenshot(page, "console-conversation");

  await operator.find("ben");
  await page.getByText("Connections: none.").waitFor();
  expect((await operator.rows("Waits for acknowledgement")).map(([peer, seqs]) => [peer, seqs])).toEqual([
    ["ann", "2 to 2"],
  ]);
  await operator.find("ann");
  await page.getByRole("heading", { name: "ann" }).waitFor();
  expect((await operator.rows("Connections")).length).toBe(1);
  await findIn(page, "a user", found);
  await screenshot(page, "console-user");
  expect([...found]).toEqual([]);
  visitor.mayFail = true;
  await operator.press("Suspend");
  await operator.says("ann is suspended.");
  await page.getByText("Connections: none.").waitFor();
  await operator.press("End the suspension");
  await operator.says("ann is no longer suspended.");
  await ann.isState("Online");

  await operator.find("two words");
  await page.locator(".outcome.failed").filter({ hasText: "bad_request" }).waitFor();
});

test("an operator reads a report, deletes its message and closes it", async () => {
  const visitor = await stage.arrive();
  const [cara, dirk] = await sideBySide(await visitor.open("?user=cara&user=dirk"), "cara", "dirk");
  await cara.say("You are ugly.");
  await dirk.chat("cara").click();
  await dirk.pick("You are ugly.", "Report");
  await dirk.confirm("Abuse");
  await dirk.isSet("Reported to the operator");
  const operator = new Console(await visitor.open("console.html"));
  const { page } = operator;
  await page.evaluate(axe.source);
  await operator.press("List the reports");
  await operator.says("1 open reports.");
  const report = page.getByRole("listitem", { name: "Report r_" });
  await report.getByText("You are ugly.").waitFor();
  const found = new Map<string, string>();
  await findIn(page, "a report", found);
  await screenshot(page, "console-report");
  expect([...found]).toEqual([]);

  await report.getByRole("button", { name: "Delete message 1" }).click();
  await operator.says("Message 1 is deleted.");
  await cara.message("This message was deleted").waitFor();
  await report.getByRole("button", { name: "cara" }).first().click();
  await page.getByRole("heading", { name: "cara" }).waitFor();
  await report.getByLabel("Outcome").fill("deleted");
  await report.getByRole("button", { name: "Close" }).click();
  await operator.says("The report is closed.");
  expect(await stage.server.reportsOf("dirk")).toEqual([]);
});
