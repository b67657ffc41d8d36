// The header: the user, the state of the connection, and the switch that cuts it.

import type { State, Why } from "@pigeonhole/client";
import { avatar } from "./avatar.ts";
import { h, icon, put } from "./dom.ts";

export interface HeaderActions {
  /** The switch was turned. */
  connect(wanted: boolean): void;
  /** The user wants a connection now, or this one of many. */
  comeBack(): void;
  /** The address of this user's own tab; none, if this is it. */
  ownTab: string | undefined;
  /** The button of the encryption. */
  encryption: HTMLElement;
}

export interface Status {
  state: State;
  retryAt: number;
  isCut: boolean;
}

export class Header {
  readonly element: HTMLElement;
  #words = h("span", { class: "words" });
  #status = h("p", { class: "status", role: "status" }, h("span", { class: "lamp" }), this.#words);
  #countdown = h("span", { class: "countdown" });
  #comeBack: HTMLButtonElement;
  #switch: HTMLInputElement;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(user: string, { connect, comeBack, ownTab, encryption }: HeaderActions) {
    this.#comeBack = h("button", { type: "button", class: "link", hidden: true, click: comeBack });
    const turned = () => connect(this.#switch.checked);
    this.#switch = h("input", { type: "checkbox", role: "switch", change: turned });
    // The countdown is next to the status and not in it, so that screen readers don't read out every second.
    const who = h(
      "div",
      { class: "who" },
      h("h2", {}, user),
      h("div", { class: "line" }, this.#status, this.#countdown, this.#comeBack),
    );
    const tab = {
      class: "button own-tab",
      href: ownTab ?? "",
      target: "_blank",
      "aria-label": `Open ${user} in a new tab`,
    };
    this.element = h(
      "header",
      { class: "pane-header" },
      avatar(user),
      who,
      encryption,
      h("label", { class: "switch" }, h("span", {}, "Connection"), this.#switch),
      ...(ownTab === undefined ? [] : [h("a", { ...tab, title: "Open in a new tab" }, icon("open"))]),
    );
  }

  update(status: Status): void {
    const { state, isCut } = status;
    this.#switch.checked = !isCut;
    const text = words(state, isCut);
    if (this.#words.textContent !== text) {
      this.#words.textContent = text;
    }
    put(this.#status, "data-state", isCut || state.state === "replaced" ? "offline" : state.state);
    const offer = { replaced: "Connect here", offline: "Try now" }[state.state as string];
    this.#comeBack.hidden = isCut || offer === undefined;
    this.#comeBack.textContent = offer ?? "";
    clearInterval(this.#timer);
    this.#count(status);
    if (state.state === "offline") {
      this.#timer = setInterval(() => this.#count(status), 1000);
    }
  }

  #count({ state, retryAt, isCut }: Status): void {
    const seconds = Math.ceil((retryAt - Date.now()) / 1000);
    const counts = state.state === "offline" && !isCut && seconds > 0;
    this.#countdown.textContent = counts ? `trying again in ${seconds} s` : "";
  }
}

function words(state: State, isCut: boolean): string {
  if (isCut) {
    return "Offline: switched off here";
  }
  switch (state.state) {
    case "connecting":
      return "Connecting …";
    case "online":
      return "Catching up …";
    case "caught_up":
      return "Online";
    case "replaced":
      return "Offline: open in too many places";
    case "offline":
      return `Offline: ${reasons[state.why.reason]}`;
  }
}

const reasons: Record<Why["reason"], string> = {
  closed: "the server closed the connection",
  lost: "the connection broke",
  silent: "the server has gone silent",
  unreachable: "the server can't be reached",
  no_token: "the server can't be reached",
  wrong_user: "the token is another user’s",
  refused: "the server refused the connection",
  token_refused: "the server refused the token",
  token_expired: "the token has expired",
  storage: "the browser's storage can't be written",
};
