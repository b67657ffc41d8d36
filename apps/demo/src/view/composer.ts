// The field to write a message, to reply to a message, to edit one, or to add a caption to files.

import { mentionsIn, type Named } from "../mentions.ts";
import { type Prepared, prepared } from "../prepare.ts";
import { list } from "../system.ts";
import { Attach, type AttachActions } from "./attach.ts";
import { Completer } from "./completer.ts";
import { chooses, h, icon, put } from "./dom.ts";
import { EmojiMenu } from "./emoji.ts";

export interface ComposerActions extends Omit<AttachActions, "files"> {
  /** `caption`: the text of the last one. */
  files(files: Promise<Prepared>[], caption: string): void;
  /** `replyTo`: the message to which this one replies. `mentions`: the members whom it names. */
  send(body: string, replyTo: number | undefined, mentions: string[]): void;
  edit(seq: number, body: string): void;
  /** A key was pressed. */
  typing(): void;
  /** The text that the user has begun, to be kept. */
  draft(body: string): void;
  /** The user wants to edit the last own message. */
  editLast(): void;
}

/** The text is kept this long after the last key. */
const DRAFT_MS = 300;

/** The message that the text is about. */
interface About {
  way: "reply" | "edit";
  seq: number;
  /** The text of that message. */
  text: string;
  /** The message has media, so its text may be empty. */
  isCaption: boolean;
}

interface Chosen {
  name: string;
  file: File;
  ready: Promise<Prepared>;
}

export class Composer {
  readonly element: HTMLElement;
  #actions: ComposerActions;
  /** The text before an edit. */
  #begun = "";
  /** The chat’s draft has not come yet. */
  #isNew = false;
  /** Keeps the text, soon after the last key. */
  #keep: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #about: About | undefined;
  /** Files that the page prepares while they wait for a text, or for "Send" without one. */
  #files: Chosen[] = [];
  /** Pictures among them. */
  #previews = h("span", { class: "previews" });
  #peer = "";
  #emoji = new EmojiMenu();
  /** Names of files that may contain a place. */
  #telling = h("span", { class: "telling", role: "status" });
  #what = h("strong", {});
  #text = h("span", { dir: "auto" });
  #context: HTMLElement;
  #field: HTMLTextAreaElement;
  #send = h("button", { class: "button primary", "aria-label": "Send" }, icon("send"));

  /** Members of the open group who can be mentioned. */
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
    const words = h("p", { id }, this.#previews, this.#what, " ", this.#text, " ", this.#telling);
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
      input: () => this.#typed(),
    });
    const emoji = h(
      "button",
      {
        type: "button",
        class: "button",
        "aria-label": "Insert an emoji",
        "aria-haspopup": "menu",
        click: () =>
          this.#emoji.open(emoji, { choose: (emoji) => this.#insert(emoji), returnFocus: () => this.focus() }),
      },
      icon("smile"),
    );
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
      emoji,
      this.#field,
      this.#attach.microphone,
      this.#send,
      this.#emoji.element,
    );
  }

  /** Files that are dropped there are sent. */
  takeFrom(place: HTMLElement): void {
    this.#attach.takeFrom(this.#field, place);
  }

  focus(): void {
    this.#field.focus();
  }

  /** Another chat is open. Its draft comes with `restore`. */
  turnTo(): void {
    this.cancel();
    this.#completer.close();
    this.#attach.cancel();
    this.#flush();
    this.#field.value = "";
    this.#isNew = true;
  }

  /** Puts the chat’s draft into the field, once, and never into a text. */
  restore(draft: string): void {
    if (this.#isNew && this.#field.value === "") {
      this.#field.value = draft;
    }
    this.#isNew = false;
  }

  #typed(): void {
    this.#isNew = false;
    const { value } = this.#field;
    if (this.#about?.way === "edit") {
      return;
    }
    if (value) {
      this.#actions.typing();
    }
    const keep = this.#actions.draft;
    this.#keepSoon(() => keep(value));
  }

  #keepSoon(keep: () => void): void {
    clearTimeout(this.#timer);
    this.#keep = keep;
    this.#timer = setTimeout(() => this.#flush(), DRAFT_MS);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#keep?.();
    this.#keep = undefined;
  }

  /** The list of names may have changed. */
  update(): void {
    this.#completer.update();
  }

  /** `name`: to whom one writes. */
  address(name: string): void {
    this.#peer = name;
    this.#field.placeholder = `Message ${name}`;
  }

  reply(seq: number, whose: string, text: string): void {
    this.cancel();
    this.#about = { way: "reply", seq, text, isCaption: false };
    this.#say(`Reply to ${whose}`, text);
  }

  edit(seq: number, text: string, isCaption: boolean): void {
    this.cancel();
    // The draft comes back afterwards.
    this.#flush();
    this.#begun = this.#field.value;
    this.#about = { way: "edit", seq, text, isCaption };
    this.#say(isCaption ? "Edit caption" : "Edit message", text);
    put(this.#send, "aria-label", "Save");
    this.#field.value = text;
  }

  /** Writes to no message in particular, and sends no files. */
  cancel(): void {
    if (this.#about?.way === "edit") {
      this.#field.value = this.#begun;
    }
    this.#about = undefined;
    this.#files = [];
    for (const { src } of this.#previews.querySelectorAll("img")) {
      URL.revokeObjectURL(src);
    }
    this.#previews.replaceChildren();
    this.address(this.#peer);
    this.#context.hidden = true;
    // The text describes the field also while it is hidden.
    this.#what.textContent = "";
    this.#text.textContent = "";
    this.#telling.textContent = "";
    put(this.#send, "aria-label", "Send");
  }

  /** Forgets messages that are deleted by now. */
  forget(isDeleted: (seq: number) => boolean): void {
    if (this.#about && isDeleted(this.#about.seq)) {
      this.cancel();
    }
  }

  #take(files: File[]): void {
    if (this.element.hidden) {
      // A user who can't write can't drop files.
      return;
    }
    const added = files.map((file) => ({ name: file.name, file, ready: prepared(file) }));
    const all = [...this.#files, ...added];
    this.cancel();
    this.#files = all;
    this.#previews.replaceChildren(...all.flatMap(preview));
    this.#field.placeholder = "Add a caption";
    this.#say(all.length === 1 ? "One file" : `${all.length} files`, list(all.map(({ name }) => name)));
    void this.#warn(all);
  }

  /** A file that can't be freed of its place and camera is sent as it is, and the user knows it before. */
  async #warn(files: Chosen[]): Promise<void> {
    const ready = await Promise.all(files.map(({ ready }) => ready));
    const telling = files.filter((_, at) => ready[at]?.tellsPlace).map(({ name }) => name);
    if (this.#files === files && telling.length > 0) {
      this.#telling.textContent = `${list(telling)} may tell where and with which camera it was taken.`;
    }
  }

  #insert(text: string): void {
    this.#field.setRangeText(text, this.#field.selectionStart, this.#field.selectionEnd, "end");
    this.#field.dispatchEvent(new Event("input"));
  }

  /** Puts an unsent text back, to be changed. */
  takeBack(text: string): void {
    this.cancel();
    const begun = this.#field.value;
    this.#field.value = begun ? `${text}\n${begun}` : text;
    this.#field.dispatchEvent(new Event("input"));
    this.focus();
  }

  /** Shows the message that the text is about. */
  #say(what: string, text: string): void {
    this.#what.textContent = what;
    this.#text.textContent = text;
    this.#context.hidden = false;
    this.focus();
  }

  #pressed(event: KeyboardEvent): void {
    const { key } = event;
    if (this.#completer.pressed(event)) {
      return;
    }
    if (key === "Enter" && !event.shiftKey && !chooses(event)) {
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
      clearTimeout(this.#timer);
      this.#keep = undefined;
      this.#actions.draft("");
      if (files.length > 0) {
        this.#actions.files(
          files.map(({ ready }) => ready),
          body,
        );
      } else {
        this.#actions.send(body, about?.seq, mentionsIn(body, this.#named()));
      }
    }
  }
}

/** Returns a small picture. The name is next to it. */
function preview({ file }: Chosen): HTMLElement[] {
  return file.type.startsWith("image/") ? [h("img", { src: URL.createObjectURL(file), alt: "" })] : [];
}
