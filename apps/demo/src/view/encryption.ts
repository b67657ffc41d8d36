// The encryption of a user with keys: a panel of the open chat, a warning in it, and a panel of the user's devices. The
// page loads this module together with the keys.

import { type ClientEvent, isService, type Lock, type Pigeonhole } from "@pigeonhole/client";
import { type OwnDevice, Security } from "@pigeonhole/client/sealed";
import { generate, mode } from "lean-qr";
import { toSvg } from "lean-qr/extras/svg";
import type { Opened } from "../opened.ts";
import { explained, explainedInGroup, locks, noticed, short } from "../sealed.ts";
import { Confirm } from "./confirm.ts";
import { fill, h, icon, put } from "./dom.ts";
import { brief } from "./time.ts";

/** Interval of a look at the devices and at the keys of the peer, while a panel shows them. */
const LOOK_MS = 1000;
const NOTICES_MAX = 5;

export class Encryption {
  readonly chat: ChatPanel;
  readonly devices: DevicesPanel;

  /** `address`: of the same user on another device. */
  constructor(user: string, deviceId: string, pigeonhole: Pigeonhole, address: string) {
    const security = new Security(pigeonhole);
    this.chat = new ChatPanel(user, security);
    this.devices = new DevicesPanel(user, deviceId, security, address);
    pigeonhole.onEvent((event) => this.chat.onEvent(event));
  }
}

/** The encryption of the open chat: with its user, or of its group. */
export class ChatPanel {
  readonly element: HTMLElement;
  /** Opens it. */
  readonly button: HTMLButtonElement;
  /** Tells that a member has other keys, above the messages. */
  readonly warning = h("div", { class: "key-warning", role: "alert", hidden: true });
  #user: string;
  #security: Security;
  /** The user whose keys the panel compares. In a group, a member with other keys. */
  #peer: string | undefined;
  /** The open chat, if it can be encrypted: its user, or the id of its group. */
  #of: string | undefined;
  #isGroup = false;
  #lock: Lock = "plain";
  #conversationId: string | undefined;
  /** Users whose keys changed without a verification, until the user has seen it. */
  #changed = new Set<string>();
  #notices: { conversationId: string | undefined; text: string }[] = [];
  #state = h("p", {});
  #number = h("code", { class: "safety-number" });
  #qr = h("div", { class: "qr", role: "img", "aria-label": "The safety number as a QR code" });
  #verify = h("button", { type: "button", class: "filled", click: () => void this.#verified() }, "They are equal");
  #compare: HTMLElement;
  #reset = h(
    "button",
    { type: "button", class: "link", click: () => void this.#resets() },
    "Begin the encryption anew",
  );
  #list = h("ul", { class: "notices", "aria-label": "Changes of the keys" });
  #confirm = new Confirm();

  constructor(user: string, security: Security) {
    this.#user = user;
    this.#security = security;
    const id = `encryption-${user}`;
    const attributes = { type: "button", class: "button lock", "aria-controls": id, click: () => this.#toggle() };
    this.button = h("button", attributes, icon("unlocked"));
    this.#compare = h(
      "div",
      { class: "compare" },
      h("p", {}, "Compare this safety number on both screens. If the numbers differ, another user reads along."),
      this.#number,
      this.#qr,
      this.#verify,
    );
    this.element = panel(
      id,
      `Encryption of ${user}`,
      () => this.#toggle(),
      this.#state,
      this.#compare,
      this.#list,
      this.#reset,
    );
    this.element.append(this.#confirm.element);
    setInterval(() => !this.element.hidden && void this.#look(), LOOK_MS);
  }

  onEvent(event: ClientEvent): void {
    if (event.type !== "security") {
      return;
    }
    const { notice, user, conversation_id } = event.notice;
    if (notice === "identity_changed") {
      this.#changed.add(String(user));
      this.#warn();
    }
    const text = noticed(event.notice, this.#user);
    if (text !== undefined) {
      const conversationId = typeof conversation_id === "string" ? conversation_id : undefined;
      this.#notices = [{ conversationId, text }, ...this.#notices].slice(0, NOTICES_MAX);
    }
  }

  turnTo(): void {
    this.element.hidden = true;
    this.#number.textContent = "";
  }

  update({ row, chat, members }: Opened): void {
    const { peerId, kind, lock } = row;
    const isUser = peerId !== undefined && !isService(peerId) && peerId !== this.#user;
    this.#isGroup = kind === "group" && lock !== "plain";
    this.#of = this.#isGroup ? row.conversationId : isUser ? peerId : undefined;
    if (!this.#isGroup) {
      this.#peer = this.#of;
    } else if (lock === "changed") {
      void this.#find();
    } else {
      this.#peer = members.find(({ userId }) => this.#changed.has(userId))?.userId;
    }
    this.#lock = lock;
    this.#conversationId = chat?.id;
    this.button.hidden = this.#of === undefined;
    this.element.hidden ||= this.#of === undefined;
    const name = `Encryption: ${locks[row.lock]}`;
    if (this.button.getAttribute("aria-label") !== name) {
      put(this.button, "aria-label", name);
      this.button.title = name;
      this.button.replaceChildren(icon(row.lock === "plain" ? "unlocked" : "locked"));
    }
    put(this.button, "aria-expanded", String(!this.element.hidden));
    this.#warn();
  }

  /** Finds the member whose new keys messages wait for. */
  async #find(): Promise<void> {
    const of = this.#of ?? "";
    const held = await this.#security.held(of);
    if (of === this.#of && held !== undefined) {
      this.#peer = held;
      this.#warn();
    }
  }

  /** Shows why the keys of a user need a look. */
  #warn(): void {
    const peer = this.#peer ?? "";
    const isHeld = this.#lock === "changed" && peer !== "";
    const why = isHeld ? "verified" : this.#changed.has(peer) ? "unverified" : "";
    const to = this.#isGroup ? "the group" : peer;
    if (this.warning.dataset.why === `${why} ${peer}`) {
      return;
    }
    this.warning.dataset.why = `${why} ${peer}`;
    this.warning.hidden = why === "";
    const compare = h("button", { type: "button", class: "link", click: () => this.#toggle(true) }, "Compare");
    const words = {
      "": [],
      verified: [
        `The keys of ${peer} are not those that you verified. Messages to ${to} wait until you accept the new keys. `,
        compare,
        h("button", { type: "button", class: "link", click: () => void this.#accept() }, "Accept the new keys"),
      ],
      unverified: [
        `${peer} has new keys. Compare the safety number if another user can have taken the name. `,
        compare,
        h("button", { type: "button", class: "link", click: () => this.#seen() }, "Dismiss"),
      ],
    }[why];
    this.warning.replaceChildren(...words);
  }

  #seen(): void {
    this.#changed.delete(this.#peer ?? "");
    this.#warn();
  }

  #toggle(isOpen = this.element.hidden === true): void {
    this.element.hidden = !isOpen;
    put(this.button, "aria-expanded", String(isOpen));
    if (isOpen) {
      void this.#look();
    } else {
      this.button.focus();
    }
  }

  async #look(): Promise<void> {
    const peer = this.#peer;
    const security = this.#security;
    const [number, code, isVerified] =
      peer === undefined
        ? [undefined, undefined, false]
        : await Promise.all([security.safetyNumber(peer), security.safetyCode(peer), security.isVerified(peer)]);
    if (peer !== this.#peer) {
      return;
    }
    this.#state.textContent =
      this.#isGroup || peer === undefined ? explainedInGroup(this.#lock) : explained(this.#lock, peer, isVerified);
    this.#compare.hidden = code === undefined;
    this.#verify.hidden = isVerified;
    this.#reset.hidden = this.#lock === "plain";
    if (code && this.#number.textContent !== number) {
      this.#number.textContent = number ?? "";
      this.#qr.replaceChildren(toSvg(generate(mode.bytes(code)), document));
    }
    const of = this.#notices.filter(
      ({ conversationId }) => (conversationId ?? this.#conversationId) === this.#conversationId,
    );
    this.#list.replaceChildren(...of.map(({ text }) => h("li", {}, text)));
    this.#list.hidden = of.length === 0;
  }

  async #verified(): Promise<void> {
    await this.#security.verify(this.#peer ?? "");
    this.#seen();
    await this.#look();
  }

  async #accept(): Promise<void> {
    await this.#security.accept(this.#peer ?? "");
    this.#seen();
  }

  async #resets(): Promise<void> {
    const of = this.#of ?? "";
    const question = this.#isGroup
      ? "Begin the encryption of this group anew? All devices of its members get new keys."
      : `Begin the encryption with ${of} anew? All devices of both of you get new keys.`;
    if (await this.#confirm.ask(question, "Begin anew")) {
      await this.#security.reset(of);
    }
  }
}

/** The user's devices. */
export class DevicesPanel {
  readonly element: HTMLElement;
  readonly button: HTMLButtonElement;
  #own: string;
  #security: Security;
  #list = h("ul", { class: "members", "aria-label": "Devices" });
  #confirm = new Confirm();

  constructor(user: string, own: string, security: Security, address: string) {
    this.#own = own;
    this.#security = security;
    const id = `devices-${user}`;
    const attributes = { type: "button", class: "button lock", "aria-controls": id, click: () => this.#toggle() };
    this.button = h("button", { ...attributes, "aria-label": `Devices of ${user}` }, icon("locked"));
    put(this.button, "aria-expanded", "false");
    const another = h("a", { class: "link", href: address, target: "_blank" }, "Open a second device");
    const words = h("p", {}, `Messages of ${user} to another user leave encrypted. These devices can read them:`);
    this.element = panel(id, `Devices of ${user}`, () => this.#toggle(), words, this.#list, another);
    this.element.append(this.#confirm.element);
    setInterval(() => !this.element.hidden && void this.#look(), LOOK_MS);
  }

  #toggle(): void {
    this.element.hidden = !this.element.hidden;
    put(this.button, "aria-expanded", String(!this.element.hidden));
    if (this.element.hidden) {
      this.button.focus();
    } else {
      void this.#look();
    }
  }

  async #look(): Promise<void> {
    const devices = await this.#security.devices();
    fill(
      this.#list,
      devices.map((device) => ({ key: device.device, of: [JSON.stringify(device)], create: () => this.#row(device) })),
    );
  }

  #row({ device, known, seen_at }: OwnDevice): HTMLElement {
    const isThis = device === this.#own;
    const about = isThis
      ? "this device"
      : known
        ? `here on ${brief(Date.parse(seen_at))}`
        : "with keys that are not yours";
    const remove = { type: "button", class: "link", "aria-label": `Remove ${short(device)}` };
    return h(
      "li",
      {},
      h("span", { class: "name" }, short(device)),
      h("span", { class: "role" }, about),
      ...(isThis ? [] : [h("button", { ...remove, click: () => void this.#remove(device) }, "Remove")]),
    );
  }

  async #remove(device: string): Promise<void> {
    const question = `Remove ${short(device)}? It reads no new message, unless it has your keys and signs in again.`;
    if (await this.#confirm.ask(question, "Remove")) {
      await this.#security.removeDevice(device);
    }
  }
}

/** A panel that Escape closes, and not the chat. */
function panel(id: string, label: string, close: () => void, ...children: HTMLElement[]): HTMLElement {
  const keydown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
  };
  return h(
    "section",
    { id, class: "group-panel encryption-panel", "aria-label": label, hidden: true, keydown },
    ...children,
  );
}
