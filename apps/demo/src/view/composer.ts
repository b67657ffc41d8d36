// The field to write a message, to answer one, to say it in other words, or to say something of files.

import { mentionsIn, type Named } from "../mentions.ts";
import { list } from "../system.ts";
import { Attach, type AttachActions } from "./attach.ts";
import { Completer } from "./completer.ts";
import { h, icon, put } from "./dom.ts";

export interface ComposerActions extends Omit<AttachActions, "files"> {
  /** `caption`: what is said of the last one. */
  files(files: File[], caption: string): void;
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
  /** It carries something, so it may have no words. */
  isCaption: boolean;
}

export class Composer {
  readonly element: HTMLElement;
  #actions: ComposerActions;
  #key: string | undefined;
  /** Unsent texts, by chat. */
  #drafts = new Map<string, string>();
  #about: About | undefined;
  /** They wait for words, or for "Send" without any. */
  #files: File[] = [];
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
    this.#attach = new Attach({ voice: actions.voice, files: (files) => this.#take(files) });
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
    this.#about = { way: "reply", seq, text, isCaption: false };
    this.#say(`Reply to ${whose}`, text);
  }

  edit(seq: number, text: string, isCaption: boolean): void {
    this.cancel();
    // What was being written comes back afterwards.
    this.#drafts.set(this.#key ?? "", this.#field.value);
    this.#about = { way: "edit", seq, text, isCaption };
    this.#say(isCaption ? "Edit caption" : "Edit message", text);
    put(this.#send, "aria-label", "Save");
    this.#field.value = text;
  }

  /** Writes to no message in particular, and sends no files. */
  cancel(): void {
    if (this.#about?.way === "edit") {
      this.#field.value = this.#draft();
    }
    this.#about = undefined;
    this.#files = [];
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

  #take(files: File[]): void {
    if (this.element.hidden) {
      // Where nobody writes, nothing is dropped.
      return;
    }
    const all = [...this.#files, ...files];
    this.cancel();
    this.#files = all;
    this.#say(all.length === 1 ? "One file" : `${all.length} files`, list(all.map(({ name }) => name)));
  }

  /** What it is about that is written. */
  #say(what: string, text: string): void {
    this.#what.textContent = what;
    this.#text.textContent = text;
    this.#context.hidden = false;
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
    } else if (key === "Escape" && !this.#context.hidden) {
      // The chat stays open.
      event.stopPropagation();
      this.cancel();
    } else if (key === "ArrowUp" && this.#field.value === "" && this.#context.hidden) {
      event.preventDefault();
      this.#actions.editLast();
    }
  }

  #submit(): void {
    const body = this.#field.value.trim();
    const about = this.#about;
    const files = this.#files;
    if (!body && files.length === 0 && !about?.isCaption) {
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
      if (files.length > 0) {
        this.#actions.files(files, body);
      } else {
        this.#actions.send(body, about?.seq, mentionsIn(body, this.#named()));
      }
    }
  }
}
