// A poll and a location: kinds of the page's own, of which the server knows nothing.

import { expect } from "vitest";
import { Pane } from "./pane.ts";
import { Stage, screenshot, test } from "./stage.ts";

const stage = new Stage();

test("two users vote in a poll, each once, and one changes the vote", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=paul&user=quinn");
  const [paul, quinn] = [new Pane(page, "paul"), new Pane(page, "quinn")];
  await paul.isState("Online");
  await paul.say("I am in the kitchen.");
  await paul.choose("New poll");
  const form = page.getByRole("dialog", { name: "New poll" });
  await form.getByRole("textbox", { name: "Question" }).fill("Tea or coffee?");
  await form.getByRole("textbox", { name: "Options" }).fill("Tea\n\nCoffee");
  await form.getByRole("button", { name: "Send the poll" }).click();
  await quinn.chat("paul").click();
  const option = (pane: Pane, name: string, votes: number) =>
    pane
      .message("Tea or coffee?")
      .getByRole("button", { name: `${name}, ${votes === 1 ? "1 vote" : `${votes} votes`}` });
  await option(quinn, "Tea", 0).click();
  await option(paul, "Tea", 1).waitFor();
  await option(paul, "Coffee", 0).click();
  await option(quinn, "Coffee", 1).waitFor();
  await screenshot(page, "poll");
  await option(quinn, "Coffee", 1).click();
  await option(paul, "Coffee", 2).waitFor();
  expect(await option(quinn, "Tea", 0).getAttribute("aria-pressed")).toBe("false");
  expect(await option(quinn, "Coffee", 2).getAttribute("aria-pressed")).toBe("true");
  // A vote is silent: the poll is still the last message of the list.
  expect(await paul.chat("quinn").textContent()).toContain("You: Tea or coffee?");
});

test("a location is a text with a map", async () => {
  const visitor = await stage.arrive({
    geolocation: { latitude: 52.52, longitude: 13.405 },
    permissions: ["geolocation"],
  });
  const page = await visitor.open("?user=rosa&user=sam");
  const [rosa, sam] = [new Pane(page, "rosa"), new Pane(page, "sam")];
  await rosa.isState("Online");
  await rosa.choose("Send my location");
  await sam.chat("rosa").click();
  const map = sam.message("Location: 52.52, 13.405").getByRole("link", { name: "Show the map" });
  expect(await map.getAttribute("href")).toContain("mlat=52.52&mlon=13.405");
});

test("a user has a name, which another browser shows in the list and over the chat", async () => {
  const first = await (await stage.arrive()).open("?user=tess&user=uma");
  const tess = new Pane(first, "tess");
  await tess.isState("Online");
  await tess.say("Hello");
  await tess.hasTicks("Hello", "Delivered");
  await tess.root.getByRole("button", { name: "Your name" }).click();
  const form = tess.root.getByRole("form", { name: "Your name" });
  await form.getByRole("textbox", { name: "Your name" }).fill("Tess Lee");
  await form.getByRole("button", { name: "Save" }).click();
  await form.waitFor({ state: "hidden" });
  const uma = new Pane(await (await stage.arrive()).open("?user=uma&user=vera"), "uma");
  await uma.chat("Tess Lee").click();
  await uma.root.getByRole("heading", { name: "Tess Lee" }).waitFor();
  await uma.message("Hello").waitFor();
});
