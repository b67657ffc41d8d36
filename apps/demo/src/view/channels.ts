// A button that becomes a form: which channel to join, or how one that is to be made is called.

import { type ChatRow, limits, type NewGroup } from "@pigeonhole/client";
import { madeHere, remember } from "../known-channels.ts";
import { isolated } from "../system.ts";
import { fill, h, icon, put } from "./dom.ts";

export interface ChannelsActions {
  create(channel: NewGroup): Promise<void>;
  join(channel: string): Promise<void>;
}

export class Channels {
  readonly element: HTMLElement;
  #actions: ChannelsActions;
  #button: HTMLButtonElement;
  #forms: HTMLElement;
  #id: HTMLInputElement;
  #title: HTMLInputElement;
  #isOpen = h("input", { type: "checkbox", checked: true });
  #known = h("ul", { class: "known", "aria-label": "Channels made in this browser" });
  #joined = new Set<string>();
  /** By their titles. */
  #made = new Map<string, string>();

  constructor(user: string, actions: ChannelsActions) {
    this.#actions = actions;
    const id = `channels-${user}`;
    const name = { type: "button", class: "new-group", "aria-controls": id, "aria-expanded": "false" };
    this.#button = h("button", { ...name, click: () => this.#open() }, icon("channel"), "Channels");
    this.#id = field("Channel’s id", {
      placeholder: "ch_…",
      pattern: "(ch|gr)_[!-~]+",
      title: "It begins with ch_, or with gr_ of a group that you left",
    });
    this.#title = field("Title", {
      placeholder: "Title of a new one",
      maxlength: limits.TITLE_CHARS_MAX,
      pattern: ".*\\S.*",
      title: "What the channel is called",
    });
    const join = (event: SubmitEvent) => {
      event.preventDefault();
      this.#try(this.#id, () => actions.join(this.#id.value.trim()));
    };
    const create = (event: SubmitEvent) => {
      event.preventDefault();
      const title = this.#title.value.trim();
      const by = this.#isOpen.checked ? "open" : "admins";
      this.#try(this.#title, () => actions.create({ kind: "channel", title, members: [], join: by }));
    };
    const cancel = () => {
      this.#close();
      this.#button.focus();
    };
    const keydown = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        // The chat stays open.
        event.stopPropagation();
        cancel();
      }
    };
    this.#forms = h(
      "div",
      { id, class: "new-group-form", role: "group", "aria-label": "Channels", hidden: true, keydown },
      this.#known,
      h("form", { class: "one", "aria-label": "Join a channel", submit: join }, this.#id, filled("Join")),
      h(
        "form",
        { "aria-label": "New channel", submit: create },
        h("div", { class: "one" }, this.#title, filled("Create")),
        h("label", {}, this.#isOpen, " Anyone can join"),
      ),
      h("div", { class: "answers" }, h("button", { type: "button", class: "link", click: cancel }, "Cancel")),
    );
    this.element = h("div", {}, this.#button, this.#forms);
  }

  /** Offers channels that the user is not in. The page can offer the user's own channels to other users. */
  update(rows: readonly ChatRow[]): void {
    const channels = rows.filter(
      ({ kind, conversationId, isClosed }) => kind === "channel" && conversationId && !isClosed,
    );
    this.#joined = new Set(channels.map(({ conversationId = "" }) => conversationId));
    for (const { conversationId = "", role, rules, title } of channels) {
      if (role === "owner" && rules.join === "open" && title && this.#made.get(conversationId) !== title) {
        this.#made.set(conversationId, title);
        remember(conversationId, title);
      }
    }
  }

  async #try(field: HTMLInputElement, act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.#close();
    } catch (error) {
      field.setCustomValidity((error as Error).message);
      field.reportValidity();
    }
  }

  #open(): void {
    const known = madeHere().filter(({ id }) => !this.#joined.has(id));
    fill(
      this.#known,
      known.map(({ id, title }) => {
        const join = () => this.#try(this.#id, () => this.#actions.join(id));
        const button = { type: "button", class: "link", click: join };
        return { key: id, create: () => h("li", {}, h("button", button, `Join “${isolated(title)}”`)) };
      }),
    );
    this.#known.hidden = known.length === 0;
    this.#show(true);
    this.#id.focus();
  }

  #close(): void {
    this.#show(false);
    for (const form of this.#forms.querySelectorAll("form")) {
      form.reset();
    }
  }

  #show(isOpen: boolean): void {
    this.#forms.hidden = !isOpen;
    this.#button.hidden = isOpen;
    put(this.#button, "aria-expanded", String(isOpen));
  }
}

function field(name: string, attributes: Record<string, string | number>): HTMLInputElement {
  const input = h("input", {
    required: true,
    "aria-label": name,
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    input: () => input.setCustomValidity(""),
    ...attributes,
  });
  return input;
}

function filled(name: string): HTMLElement {
  return h("button", { class: "filled" }, name);
}
