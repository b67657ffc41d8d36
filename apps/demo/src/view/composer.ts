// The field to write a message, to answer one, or to say it in other words.

import { mentionsIn, type Named } from "../mentions.ts";
import { Attach, type AttachActions } from "./attach.ts";
import { Completer } from "./completer.ts";
import { h, icon, put } from "./dom.ts";

export interface ComposerActions extends AttachActions {
  /** `replyTo`: the message that this one answers. `mentions`: whom of the group it names. */
  send(body: string, replyTo: number | undefined, mentions: string[]): void;
  edit(seq: number, body: string): void;
  /** A key was pressed. */
  typing(): void;
  /** The user wants to edit what they said last. */
  editLast(): void;
}

/** What is written is about another message. */
interface About {
  way: "reply" | "edit";
  seq: number;
  /** What the message said. */
  text: string;
}

export class Composer {
  readonly element: HTMLElement;
  #actions: ComposerActions;
  #key: string | undefined;
  /** Unsent texts, by chat. */
  #drafts = new Map<string, string>();
  #about: About | undefined;
  #what = h("strong", {});
  #text = h("span", { dir: "auto" });
  #context: HTMLElement;
  #field: HTMLTextAreaElement;
  #send = h("button", { class: "button primary", "aria-label": "Send" }, icon("send"));

  /** Whom of the open group one may mention. */
  #named: () => Named[];
  #completer: Completer;
  #attach: Attach;

  constructor(user: string, named: () => Named[], actions: ComposerActions) {
    this.#actions = actions;
    this.#named = named;
    const cancel = () => {
      this.cancel();
      this.focus();
    };
    const id = `about-${user}`;
    const words = h("p", { id }, this.#what, " ", this.#text);
    const close = h(
      "button",
      { type: "button", class: "button", "aria-label": "Cancel", click: cancel },
      icon("close"),
    );
    this.#context = h("div", { class: "context", hidden: true }, words, close);
    this.#field = h("textarea", {
      rows: 1,
      "aria-label": "Message",
      "aria-describedby": id,
      autocomplete: "off",
      keydown: (event: KeyboardEvent) => this.#pressed(event),
      input: () => this.#field.value && this.#about?.way !== "edit" && actions.typing(),
    });
    this.#completer = new Completer(user, this.#field, named);
    this.#attach = new Attach(actions);
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      this.#submit();
    };
    this.element = h(
      "form",
      { class: "composer", submit },
      this.#context,
      this.#completer.element,
      this.#attach.element,
      this.#attach.clip,
      this.#field,
      this.#attach.microphone,
      this.#send,
    );
  }

  /** Files that are dropped there are sent. */
  takeFrom(place: HTMLElement): void {
    this.#attach.takeFrom(this.#field, place);
  }

  focus(): void {
    this.#field.focus();
  }

  turnTo(key: string | undefined): void {
    this.cancel();
    this.#completer.close();
    this.#attach.cancel();
    if (this.#key !== undefined) {
      this.#drafts.set(this.#key, this.#field.value);
    }
    this.#key = key;
    this.#field.value = this.#draft();
  }

  /** Whom one may mention has changed, perhaps. */
  update(): void {
    this.#completer.update();
  }

  /** `name`: to whom one writes. */
  address(name: string): void {
    this.#field.placeholder = `Message ${name}`;
  }

  reply(seq: number, whose: string, text: string): void {
    this.cancel();
    this.#begin({ way: "reply", seq, text }, `Reply to ${whose}`);
  }

  edit(seq: number, text: string): void {
    this.cancel();
    // What was being written comes back afterwards.
    this.#drafts.set(this.#key ?? "", this.#field.value);
    this.#begin({ way: "edit", seq, text }, "Edit message");
    this.#field.value = text;
  }

  /** Writes to no message in particular. */
  cancel(): void {
    if (this.#about?.way === "edit") {
      this.#field.value = this.#draft();
    }
    this.#about = undefined;
    this.#context.hidden = true;
    // It describes the field also where it is hidden.
    this.#what.textContent = "";
    this.#text.textContent = "";
    put(this.#send, "aria-label", "Send");
  }

  /** These are deleted by now. */
  forget(isDeleted: (seq: number) => boolean): void {
    if (this.#about && isDeleted(this.#about.seq)) {
      this.cancel();
    }
  }

  #begin(about: About, what: string): void {
    this.#about = about;
    this.#what.textContent = what;
    this.#text.textContent = about.text;
    this.#context.hidden = false;
    put(this.#send, "aria-label", about.way === "edit" ? "Save" : "Send");
    this.focus();
  }

  #draft(): string {
    return this.#drafts.get(this.#key ?? "") ?? "";
  }

  #pressed(event: KeyboardEvent): void {
    const { key } = event;
    if (this.#completer.pressed(event)) {
      return;
    }
    if (key === "Enter" && !event.shiftKey && !event.isComposing) {
      // Enter may also choose a character of an input method.
      event.preventDefault();
      this.#submit();
    } else if (key === "Escape" && this.#about) {
      // The chat stays open.
      event.stopPropagation();
      this.cancel();
    } else if (key === "ArrowUp" && this.#field.value === "" && !this.#about) {
      event.preventDefault();
      this.#actions.editLast();
    }
  }

  #submit(): void {
    const body = this.#field.value.trim();
    const about = this.#about;
    if (!body) {
      return;
    }
    if (about?.way === "edit") {
      this.cancel();
      if (body !== about.text) {
        this.#actions.edit(about.seq, body);
      }
    } else {
      this.cancel();
      this.#field.value = "";
      this.#completer.close();
      this.#actions.send(body, about?.seq, mentionsIn(body, this.#named()));
    }
  }
}
