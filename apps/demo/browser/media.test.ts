// Pictures, files and voice messages in the demo, in a browser, against the server that `cargo run` starts, with its S3.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { expect } from "vitest";
import { type Given, Pane } from "./pane.ts";
import { movingPng, png } from "./png.ts";
import { Stage, screenshot, sideBySide, test, type Visitor } from "./stage.ts";

const stage = new Stage();

/** Two users side by side, each of whom looks at the other's chat. */
async function inOneChat(page: Page, ...users: [string, string]): Promise<[Pane, Pane]> {
  const [one, other] = await sideBySide(page, ...users);
  await other.chat(users[0]).click();
  return [one, other];
}

const photo = { name: "lake.png", mimeType: "image/png", buffer: png(2000, 1200) };
const report = { name: "Report <1>.html", mimeType: "text/html", buffer: Buffer.from("<script>alert(1)</script>") };

/** As by the keys or the mouse: the event that the browser makes of it. */
async function give(pane: Pane, way: "paste" | "drop", file: Given) {
  const of = way === "paste" ? pane.field() : pane.root.getByRole("region", { name: "The open chat" });
  const bytes = file.buffer.toString("base64");
  await of.evaluate(
    (element, { way, name, mimeType, bytes }) => {
      const data = new DataTransfer();
      data.items.add(
        new File([Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0))], name, { type: mimeType }),
      );
      const init = { bubbles: true, cancelable: true };
      element.dispatchEvent(
        way === "paste"
          ? new ClipboardEvent("paste", { ...init, clipboardData: data })
          : new DragEvent("drop", { ...init, dataTransfer: data }),
      );
    },
    { way, name: file.name, mimeType: file.mimeType, bytes },
  );
  await pane.say("");
}

/** Holds an upload until the test calls the returned function. */
async function hold(visitor: Visitor): Promise<{ held: Promise<void>; release: () => Promise<void> }> {
  const routes: Route[] = [];
  const isPut = (url: URL) => url.port !== new URL(stage.server.url).port;
  let hear = () => {};
  const held = new Promise<void>((arrived) => {
    hear = arrived;
  });
  const handler = (route: Route) => {
    if (route.request().method() !== "PUT") {
      return route.continue();
    }
    routes.push(route);
    hear();
    return undefined;
  };
  await visitor.context.route(isPut, handler);
  const release = async () => {
    await visitor.context.unroute(isPut, handler);
    // A request whose page was left is gone.
    await Promise.all(routes.map((route) => route.continue().catch(() => {})));
  };
  return { held, release };
}

test("a picture goes by the button, the clipboard and the mouse, is looked at, and is gone for both when it is deleted", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=ada&user=bor");
  const [ada, bor] = await inOneChat(page, "ada", "bor");
  await ada.attach(photo);
  const picture = bor.root.getByRole("button", { name: "Look at: Photo from ada" });
  await picture.getByRole("img", { name: "Photo from ada" }).waitFor();
  // Made smaller, and what stood for it until it was there is beneath it.
  const size = (image: HTMLImageElement) => [image.naturalWidth, image.naturalHeight];
  expect(await picture.locator("img.seen").evaluate(size)).toEqual([1600, 960]);
  expect(await picture.locator("img.blurred").getAttribute("src")).toMatch(/^data:image\/png/);
  await ada.root.getByRole("img", { name: "Photo from ada" }).waitFor();
  await ada.hasPreview("bor", "You: Photo");
  await ada.hasTicks("You: ", "Read");
  await screenshot(page, "picture");
  await picture.click();
  const box = page.getByRole("dialog", { name: "Picture" });
  await box.getByRole("img", { name: "Photo from ada" }).waitFor();
  await screenshot(page, "lightbox");
  await page.keyboard.press("Escape");
  await box.waitFor({ state: "hidden" });
  expect(await bor.field().isVisible()).toBe(true);

  await give(bor, "paste", photo);
  await ada.root.getByRole("button", { name: "Look at: Photo from bor" }).locator("img.seen").waitFor();
  await give(ada, "drop", report);
  const save = bor.root.getByRole("button", { name: "Save Report <1>.html from ada" });
  await save.getByText("25 bytes").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), save.click()]);
  expect(download.suggestedFilename()).toMatch(/^Report .1.\.html$/);
  expect(await readFile(await download.path(), "utf8")).toBe(report.buffer.toString());
  await screenshot(page, "file");

  // By the keyboard: the message's menu has what can be done with what it carries.
  await bor.message("Report").focus();
  await page.keyboard.press("Enter");
  await bor.item("Save").waitFor();
  await page.keyboard.press("Escape");
  await bor.message("Report").getByRole("button", { name: "Message menu" }).waitFor();

  const own = ada.root.locator(".message.mine").filter({ has: page.locator(".picture") });
  await own.click({ button: "right", position: { x: 5, y: 5 } });
  await ada.item("Delete").click();
  await ada.sayYes();
  await bor.message("This message was deleted").waitFor();
  await picture.waitFor({ state: "detached" });
  await ada.message("This message was deleted").waitFor();
  expect(await ada.root.getByRole("button", { name: "Look at: Photo from ada" }).count()).toBe(0);
  await page.reload();
  await ada.root.getByRole("button", { name: "Look at: Photo from bor" }).locator("img.seen").waitFor();
  expect(await ada.root.getByRole("button", { name: "Look at: Photo from ada" }).count()).toBe(0);
});

test("files wait for a caption, which is edited and may go; what they carry is forwarded, and outlives the first", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=max&user=nia");
  const [max, nia] = await inOneChat(page, "max", "nia");
  const files = max.root.getByLabel("Files to send");
  await files.setInputFiles(photo);
  await files.setInputFiles(report);
  const context = max.root.locator(".context");
  await context.getByText("2 files lake.png and Report <1>.html").waitFor();
  await screenshot(page, "caption");
  await max.field().press("Escape");
  await context.waitFor({ state: "hidden" });
  await max.attach(photo, "The lake");
  await nia.message("The lake").locator("img.seen").waitFor();
  await nia.hasPreview("max", "The lake");
  await max.pick("The lake", "Edit");
  await max.say("");
  await nia.message("edited").locator("img.seen").waitFor();
  expect(await nia.message("The lake").count()).toBe(0);

  await nia.message("edited").hover();
  await nia.message("edited").getByRole("button", { name: "Message menu" }).click();
  await nia.item("Forward").click();
  const where = nia.root.getByRole("dialog", { name: "Forward to …" });
  await screenshot(page, "forward");
  await where.getByRole("button", { name: "max" }).click();
  const copy = max.root.getByRole("button", { name: "Look at: Photo from nia" });
  await copy.locator("img.seen").waitFor();
  await max.pick("edited", "Delete");
  await max.sayYes();
  await nia.message("This message was deleted").waitFor();
  await page.reload();
  await copy.locator("img.seen").waitFor();

  await max.say("Words go there, too");
  await nia.pick("Words go there", "Forward");
  await where.getByRole("button", { name: "max" }).click();
  await expect.poll(() => max.message("Words go there").count()).toBe(2);
});

test("an upload goes on after a reload in the middle of it; a text overtakes it; another is cancelled", async () => {
  const visitor = await stage.arrive();
  visitor.mayFail = true;
  const page = await visitor.open("?user=cyd&user=dov");
  const [cyd, dov] = await inOneChat(page, "cyd", "dov");
  const first = await hold(visitor);
  await cyd.attach(photo);
  await first.held;
  await cyd.root.getByRole("progressbar", { name: "Uploaded" }).waitFor();
  await cyd.root.getByRole("img", { name: "Photo from cyd" }).waitFor();
  await cyd.say("A picture is on its way");
  await dov.message("A picture is on its way").waitFor();
  await screenshot(page, "uploading");
  await page.reload();
  await cyd.root.getByRole("img", { name: "Photo from cyd" }).waitFor();
  await first.release();
  await dov.chat("cyd").click();
  await dov.root.getByRole("button", { name: "Look at: Photo from cyd" }).locator("img.seen").waitFor();
  await cyd.root.getByRole("progressbar").waitFor({ state: "detached" });
  await expect.poll(() => dov.bodies()).toEqual(["A picture is on its way", ""]);

  const second = await hold(visitor);
  await cyd.attach(report);
  await second.held;
  await cyd.root.getByRole("button", { name: "Cancel the upload" }).click();
  await cyd.message("Report").waitFor({ state: "detached" });
  await second.release();
  await cyd.say("Never mind");
  await dov.message("Never mind").waitFor();
  expect(await dov.message("Report").count()).toBe(0);
});

test("what can't be sent says why, and can be tried again; what is too large is not begun", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=eda&user=fox");
  const [eda, fox] = await inOneChat(page, "eda", "fox");
  await eda.say("Hello");
  await fox.message("Hello").waitFor();
  await fox.block("eda");
  await fox.root.getByText("You have blocked eda.").waitFor();
  await eda.attach(report);
  await eda.message("Not sent: it can’t be delivered").waitFor();
  await fox.root.locator(".composer").getByRole("button", { name: "Unblock eda" }).click();
  await fox.field().waitFor();
  await eda.root.getByRole("button", { name: "Try again" }).click();
  await fox.root.getByRole("button", { name: "Save Report <1>.html from eda" }).waitFor();
  expect(await eda.message("Not sent").count()).toBe(0);
  await give(eda, "paste", { name: "nothing.txt", mimeType: "text/plain", buffer: Buffer.alloc(0) });
  await eda.isSet("Not sent: bytes: must be 1 to 104857600");
});

test("a file of 20 MiB goes in parts", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=gro&user=hen");
  const [gro, hen] = await inOneChat(page, "gro", "hen");
  const large = { name: "large.bin", mimeType: "application/zip", buffer: Buffer.alloc(20 * 1024 * 1024, 7) };
  await gro.attach(large);
  const save = hen.root.getByRole("button", { name: "Save large.bin from gro" });
  await save.getByText("21 MB").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), save.click()]);
  expect((await readFile(await download.path())).equals(large.buffer)).toBe(true);
});

test("a voice message is spoken, and played by the other", async () => {
  const visitor = await stage.arrive();
  await visitor.context.grantPermissions(["microphone"], { origin: new URL(stage.server.url).origin });
  const page = await visitor.open("?user=ivy&user=jud");
  const [ivy, jud] = await inOneChat(page, "ivy", "jud");
  await ivy.root.getByRole("button", { name: "Record a voice message" }).click();
  await ivy.root.getByRole("timer").getByText("0:01").waitFor();
  await page.keyboard.press("Escape");
  await ivy.field().waitFor();
  await ivy.root.getByRole("button", { name: "Record a voice message" }).click();
  await ivy.root.getByRole("timer").getByText("0:02").waitFor();
  await screenshot(page, "recording");
  await ivy.root.getByRole("button", { name: "Send the recording" }).click();
  const play = jud.root.getByRole("button", { name: "Play the voice message from ivy" });
  await play.waitFor();
  const heights = (bars: Element[]) => new Set(bars.map((bar) => (bar as HTMLElement).style.height)).size;
  expect(await jud.root.locator(".wave i").evaluateAll(heights)).toBeGreaterThan(2);
  await play.click();
  const pause = jud.root.getByRole("button", { name: "Pause the voice message from ivy" });
  await pause.waitFor();
  await jud.root.locator(".wave .played").first().waitFor();
  await screenshot(page, "voice");
  await ivy.hasPreview("jud", "You: Voice message");
  await play.waitFor();
  // A key starts the voice note from its beginning, and a click starts it anywhere.
  await jud.root.locator(".message").last().focus();
  await page.keyboard.press("ArrowLeft");
  await pause.waitFor();
  await play.waitFor();
  await jud.root.locator(".wave").click({ position: { x: 4, y: 10 } });
  await pause.waitFor();
  await play.waitFor();
});

test("a voice message whose address is forgotten is played from another one", async () => {
  const visitor = await stage.arrive();
  await visitor.context.grantPermissions(["microphone"], { origin: new URL(stage.server.url).origin });
  await visitor.context.addInitScript(() => {
    const all: HTMLAudioElement[] = [];
    const Own = class extends Audio {
      constructor() {
        super();
        all.push(this);
      }
    };
    Object.assign(window, { Audio: Own, allAudio: all });
  });
  // The test loses a request on purpose, and the console reports it.
  visitor.mayFail = true;
  const page = await visitor.open("?user=kit&user=lea");
  const [kit, lea] = await inOneChat(page, "kit", "lea");
  await kit.root.getByRole("button", { name: "Record a voice message" }).click();
  await kit.root.getByRole("timer").getByText("0:01").waitFor();
  await kit.root.getByRole("button", { name: "Send the recording" }).click();
  const play = lea.root.getByRole("button", { name: "Play the voice message from kit" });
  await play.click();
  await lea.root.locator(".wave .played").first().waitFor();
  await play.waitFor();
  await page.evaluate(() => {
    const gone = URL.createObjectURL(new Blob());
    URL.revokeObjectURL(gone);
    for (const audio of (window as unknown as { allAudio: HTMLAudioElement[] }).allAudio) {
      audio.src = gone;
    }
  });
  await play.click();
  await lea.root.locator(".wave .played").first().waitFor();
  expect(await lea.root.getByText("Can’t be played").count()).toBe(0);
});

test("without a microphone, and with what can't be read, the chat says why; a photo that can't be drawn goes as a file", async () => {
  const visitor = await stage.arrive();
  await visitor.context.grantPermissions(["microphone"], { origin: new URL(stage.server.url).origin });
  const page = await visitor.open("?user=mia&user=nedda");
  const [mia, nedda] = await inOneChat(page, "mia", "nedda");
  await page.evaluate(() => {
    const no = () => Promise.reject(new DOMException("no", "NotAllowedError"));
    OfflineAudioContext.prototype.decodeAudioData = no;
    OffscreenCanvas.prototype.convertToBlob = no;
  });
  await mia.root.getByRole("button", { name: "Record a voice message" }).click();
  await mia.root.getByRole("timer").getByText("0:01").waitFor();
  await mia.root.getByRole("button", { name: "Send the recording" }).click();
  await mia.isSet("Not sent: what was recorded is no sound that this browser can read");
  await mia.attach([photo, report]);
  await nedda.root.getByRole("button", { name: "Save lake.png from mia" }).waitFor();
  await nedda.root.getByRole("button", { name: "Save Report <1>.html from mia" }).waitFor();
  await page.evaluate(() => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("no", "NotAllowedError"));
  });
  await mia.root.getByRole("button", { name: "Record a voice message" }).click();
  await mia.isSet("Not recorded: there is no microphone, or the page may not use it");
});

test("a picture on a phone", async () => {
  const visitor = await stage.arrive({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true });
  const page = await visitor.open("?user=kit&user=lem");
  const kit = new Pane(page, "kit");
  await kit.isState("Online");
  await kit.attach([photo, report]);
  await kit.hasTicks("Report", "Delivered");
  await kit.root.getByRole("button", { name: "Look at: Photo from kit" }).locator("img.seen").waitFor();
  await screenshot(page, "phone-picture");
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});

test("a picture that moves goes on moving, and no picture tells where it was taken without a word", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=rex&user=sid");
  const [rex, sid] = await inOneChat(page, "rex", "sid");
  const port = new URL(stage.server.url).port;
  const fetched: Buffer[] = [];
  const ofStore = (url: URL) => url.protocol === "http:" && url.port !== port;
  await page.route(ofStore, async (route) => {
    if (route.request().method() !== "GET") return route.continue();
    // Read on its way to the page: afterwards the browser may have dropped the body.
    const response = await route.fetch();
    const body = await response.body();
    fetched.push(body);
    await route.fulfill({ response, body });
  });
  await rex.attach({ name: "dance.png", mimeType: "image/png", buffer: movingPng(60, 40) });
  await sid.root.getByRole("button", { name: "Look at: Photo from rex" }).locator("img.seen").waitFor();
  const dance = fetched.map((body) => body.toString("latin1"));
  expect(dance.map((image) => [image.includes("acTL"), image.includes("eXIf")])).toEqual([[true, false]]);

  // A browser that can't draw a picture sends the camera's file, without its metadata.
  const told = Buffer.concat([Buffer.from([0xff, 0xe1, 0, 10]), Buffer.from("Exif\0\0GP")]);
  const broken = Buffer.concat([Buffer.from([0xff, 0xd8]), told, Buffer.from([0xff, 0xda, 0, 2, 1, 2, 3])]);
  await rex.attach({ name: "broken.jpg", mimeType: "image/jpeg", buffer: broken });
  const save = sid.root.getByRole("button", { name: "Save broken.jpg from rex" });
  await save.waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), save.click()]);
  expect([...(await readFile(await download.path()))]).toEqual([0xff, 0xd8, 0xff, 0xda, 0, 2, 1, 2, 3]);

  const heic = { name: "IMG_1.HEIC", mimeType: "image/heic", buffer: Buffer.from("\0\0\0\x18ftypheic Exif GPS") };
  await rex.root.getByLabel("Files to send").setInputFiles([heic, report]);
  await rex.root.getByText("IMG_1.HEIC may tell where and with which camera it was taken.").waitFor();
  await screenshot(page, "tells-place");
  await rex.root.getByRole("button", { name: "Cancel", exact: true }).click();
  await rex.root.getByText("may tell where").waitFor({ state: "hidden" });
});

test("a file that is too large says how large it may be, and offers no try that can't help", async () => {
  const visitor = await stage.arrive();
  const page = await visitor.open("?user=tov&user=ute");
  const [tov] = await inOneChat(page, "tov", "ute");
  const folder = await mkdtemp(join(tmpdir(), "pigeonhole-"));
  const path = join(folder, "big.bin");
  await writeFile(path, Buffer.alloc(31 * 1024 * 1024));
  await tov.attach(path);
  await tov.message("Not sent: the file is too large: up to 25 MB.").waitFor();
  expect(await tov.root.getByRole("button", { name: "Try again" }).count()).toBe(0);
  await tov.hasPreview("ute", "Not sent: File");
  await screenshot(page, "too-large");
  await tov.root.getByRole("button", { name: "Discard" }).click();
  await tov.message("Not sent").waitFor({ state: "detached" });
  await rm(folder, { recursive: true });
});
