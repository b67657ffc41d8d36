// One user on the page, found as a screen reader finds it: by roles and names.

import type { Locator, Page } from "playwright-core";

/** A file that the user chooses. */
export interface Given {
  name: string;
  mimeType: string;
  buffer: Buffer;
}

export class Pane {
  readonly page: Page;
  readonly root: Locator;

  constructor(page: Page, user: string) {
    this.page = page;
    this.root = page.getByRole("region", { name: user, exact: true });
  }

  /** Describes the connection's state in words. */
  async isState(text: string): Promise<void> {
    await this.root.getByRole("status").filter({ hasText: text }).waitFor();
  }

  connection(): Locator {
    return this.root.getByRole("switch", { name: "Connection" });
  }

  /** The lock screen of the phone, while the app has no connection. */
  phone(): Locator {
    return this.root.getByRole("complementary", { name: "phone, locked" });
  }

  /** In the form for the quiet hours. */
  async setQuiet(button: "Set" | "Always ring", from?: string, to?: string): Promise<void> {
    await this.root.getByRole("button", { name: /^Quiet/ }).click();
    const form = this.root.getByRole("form", { name: "Quiet hours" });
    if (from !== undefined && to !== undefined) {
      await form.getByLabel("Quiet from").fill(from);
      await form.getByLabel("Quiet until").fill(to);
    }
    await form.getByRole("button", { name: button }).click();
    await form.waitFor({ state: "hidden" });
  }

  notification(text: string): Locator {
    return this.phone().getByRole("list", { name: "Notifications" }).getByRole("button").filter({ hasText: text });
  }

  field(): Locator {
    return this.root.getByRole("textbox", { name: "Message" });
  }

  chat(peer: string): Locator {
    return this.root.getByRole("navigation").locator("li").filter({ hasText: peer }).getByRole("button");
  }

  async say(text: string): Promise<void> {
    await this.field().fill(text);
    await this.field().press("Enter");
  }

  /** By the button. A large file is given by its path, since its bytes take long to reach the browser. */
  async attach(files: Given | Given[] | string, caption = ""): Promise<void> {
    await this.root.getByLabel("Files to send").setInputFiles(files);
    await this.say(caption);
  }

  /** Where there is room for the list or the open chat only. */
  async toChats(): Promise<void> {
    await this.root.getByRole("button", { name: "Back to the chats" }).click();
  }

  /** By hand, as one who sees the form. */
  async makeGroup(title: string, members: string, isEncrypted?: boolean): Promise<void> {
    await this.root.getByRole("button", { name: "New group" }).click();
    const form = this.root.getByRole("form", { name: "New group" });
    await form.getByRole("textbox", { name: "Title" }).fill(title);
    await form.getByRole("textbox", { name: "Members" }).fill(members);
    if (isEncrypted !== undefined) {
      await form.getByRole("checkbox", { name: "Encrypted" }).setChecked(isEncrypted);
    }
    await form.getByRole("button", { name: "Create" }).click();
  }

  /** The forms by which one joins a channel, or makes one. */
  async openChannels(): Promise<Locator> {
    await this.root.getByRole("button", { name: "Channels", exact: true }).click();
    return this.root.getByRole("group", { name: "Channels", exact: true });
  }

  async makeChannel(title: string): Promise<void> {
    const forms = await this.openChannels();
    await forms.getByRole("textbox", { name: "Title" }).fill(title);
    await forms.getByRole("button", { name: "Create" }).click();
  }

  async joinChannel(id: string): Promise<void> {
    const forms = await this.openChannels();
    await forms.getByRole("textbox", { name: "Channel’s id" }).fill(id);
    await forms.getByRole("button", { name: "Join", exact: true }).click();
  }

  /** Members and rules of the open channel. */
  channelPanel(): Locator {
    return this.root.getByRole("region", { name: "Channel", exact: true });
  }

  /** Returns a notice of the open chat: an event of the group. */
  line(text: string): Locator {
    return this.root.locator(".separator.system").filter({ hasText: text });
  }

  /** Members and rules of the open group. */
  panel(): Locator {
    return this.root.getByRole("region", { name: "Group", exact: true });
  }

  async togglePanel(): Promise<void> {
    await this.root.getByRole("button", { name: "Members and rules" }).click();
  }

  member(user: string): Locator {
    return this.panel().getByRole("list", { name: "Members" }).getByRole("listitem").filter({ hasText: user });
  }

  /** Chooses an item of a member's menu. */
  async chooseFor(user: string, item: string, panel = this.panel()): Promise<void> {
    await panel.getByRole("button", { name: `Actions for ${user}` }).click();
    await panel.getByRole("menuitem", { name: item, exact: true }).click();
  }

  async confirm(name: string): Promise<void> {
    await this.root.getByRole("dialog").getByRole("button", { name, exact: true }).click();
  }

  /** Makes the user's keys. The page loads again with them. `devices`: those of the user that have keys then. */
  async encrypt(devices = 1): Promise<void> {
    await this.root.getByRole("button", { name: "Turn on encryption" }).click();
    await this.confirm("Turn on");
    await this.hasDevices(devices);
  }

  /** The panel of the user's devices. */
  devices(): Locator {
    return this.root.getByRole("region", { name: "Devices of" });
  }

  async toggleDevices(): Promise<void> {
    await this.root.getByRole("button", { name: "Devices of" }).click();
  }

  /** Waits until the server has the keys of this number of devices. */
  async hasDevices(count: number): Promise<void> {
    await this.toggleDevices();
    await this.devices()
      .getByRole("listitem")
      .nth(count - 1)
      .waitFor();
    await this.devices().getByRole("listitem").nth(count).waitFor({ state: "detached" });
    await this.toggleDevices();
  }

  /** Waits until the open chat has this lock. */
  lock(state: "off" | "on" | "joining" | "other keys"): Locator {
    return this.root.getByRole("button", { name: `Encryption: ${state}` });
  }

  /** The panel of the open chat's encryption. */
  encryption(): Locator {
    return this.root.getByRole("region", { name: "Encryption of" });
  }

  menu(): Locator {
    return this.root.getByRole("button", { name: "Chat menu" });
  }

  /** Chooses an item of the open chat's menu. */
  async choose(item: string): Promise<void> {
    await this.menu().click();
    await this.root.getByRole("menuitem", { name: item, exact: true }).click();
  }

  async block(peer: string): Promise<void> {
    await this.choose(`Block ${peer}`);
    await this.confirm("Block");
  }

  /** Waits until the open chat shows this setting. */
  async isSet(text: string): Promise<void> {
    await this.root.locator(".set").filter({ hasText: text }).waitFor();
  }

  message(text: string): Locator {
    return this.root.getByRole("list", { name: "Messages with" }).getByRole("listitem").filter({ hasText: text });
  }

  /** Chooses an item of a message's menu, opened by the mouse. */
  async pick(text: string, item: string): Promise<void> {
    await this.message(text).hover();
    await this.message(text).getByRole("button", { name: "Message menu" }).click();
    await this.item(item).click();
  }

  /** Returns an item of the open menu. */
  item(name: string): Locator {
    return this.root.getByRole("menu").locator("button").filter({ hasText: name });
  }

  /** The choice in the question before a delete. */
  async sayYes(): Promise<void> {
    await this.root.getByRole("dialog").getByRole("button", { name: "Delete for everyone" }).click();
  }

  /** The reaction of that kind, with its count. */
  reaction(text: string, name: string): Locator {
    return this.message(text).getByRole("group", { name: "Reactions" }).getByRole("button", { name, exact: true });
  }

  /** Waits until the open chat shows this presence of the peer. */
  async isPresent(text: string): Promise<void> {
    await this.root.locator(".presence").filter({ hasText: text }).waitFor();
  }

  /** Next to a chat in the list. */
  async hasPreview(peer: string, text: string): Promise<void> {
    await this.chat(peer).locator(".preview").filter({ hasText: text }).waitFor();
  }

  /** This message is there, with these ticks. */
  async hasTicks(
    text: string,
    ticks: "Waiting for a connection" | "Not sent" | "Stored" | "Delivered" | "Read",
  ): Promise<void> {
    await this.message(text).getByRole("img", { name: ticks }).waitFor();
  }

  /** The list's number of unread messages. */
  async hasUnread(peer: string, count: number): Promise<void> {
    const unread = count > 0 ? { hasText: `${count} unread` } : { hasNotText: " unread" };
    await this.chat(peer).filter(unread).waitFor();
  }

  /** Waits until the client has reported this message as read: it was on the screen for long enough. */
  async hasRead(text: string): Promise<void> {
    // Not a row of the chat list, whose preview is the same text.
    const message = new RegExp(`"seq":(\\d+)[^{}]*"body":"[^"]*${text}`);
    const came = await this.#frames.filter({ hasText: message }).first().textContent();
    const seq = message.exec(came ?? "")?.[1];
    await this.hasReported(Number(seq));
  }

  /** As `hasRead`, by the number of the message. */
  async hasReported(seq: number): Promise<void> {
    const read = this.#frames.filter({ hasText: new RegExp(`read.*"seq":${seq},"id"`) });
    await read.first().waitFor({ state: "attached" });
  }

  get #frames(): Locator {
    return this.root.getByRole("list", { name: "Frames", includeHidden: true }).locator("li");
  }

  /** Returns the texts of all messages, top to bottom, without times. */
  bodies(): Promise<string[]> {
    return this.root
      .locator(".message .body")
      .evaluateAll((bodies) => bodies.map((body) => body.lastChild?.textContent ?? ""));
  }
}
