// How pictures, files and voice notes get into a chat: by a button, by the clipboard, by dropping them, by speaking.

import type { MediaDraft } from "@pigeonhole/client";
import { canRecord, Recording } from "../recording.ts";
import { lengthOf } from "../said.ts";
import { h, icon } from "./dom.ts";

export interface AttachActions {
  files(files: File[]): void;
  /** For the chat that is open now: what was recorded goes there, whatever is opened until it is ready. */
  voice(): Voice;
}

export interface Voice {
  send(draft: MediaDraft): void;
  /** There is nothing to send, and why. */
  refuse(why: string): void;
}

export class Attach {
  /** Next to the field. */
  readonly clip: HTMLElement;
  readonly microphone: HTMLButtonElement;
  /** Replaces the field while the user records. */
  readonly element: HTMLElement;
  #actions: AttachActions;
  #recording: Recording | undefined;
  /** The page requests the microphone. A user who leaves meanwhile is not recorded. */
  #beginning: { isOver: boolean } | undefined;
  #since = 0;
  #time = h("span", { class: "clock", role: "timer" });
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(actions: AttachActions) {
    this.#actions = actions;
    const input = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files to send" });
    input.addEventListener("change", () => {
      actions.files([...(input.files ?? [])]);
      input.value = "";
    });
    const clip = {
      type: "button",
      class: "button",
      "aria-label": "Send a picture or a file",
      click: () => input.click(),
    };
    this.clip = h("span", { class: "files" }, h("button", clip, icon("clip")), input);
    this.microphone = h(
      "button",
      { type: "button", class: "button", "aria-label": "Record a voice message", click: () => this.#begin() },
      icon("microphone"),
    );
    this.microphone.hidden = !canRecord();
    const cancel = {
      type: "button",
      class: "button",
      "aria-label": "Discard the recording",
      click: () => this.cancel(),
    };
    const send = {
      type: "button",
      class: "button primary",
      "aria-label": "Send the recording",
      click: () => this.#end(),
    };
    this.element = h(
      "div",
      { class: "recording", role: "group", "aria-label": "Recording", hidden: true },
      h("button", cancel, icon("close")),
      h("span", { class: "lamp" }),
      this.#time,
      h("button", send, icon("send")),
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        // The chat stays open.
        event.stopPropagation();
        this.cancel();
        this.microphone.focus();
      }
    });
  }

  /** Files that are pasted or dropped there are sent. */
  takeFrom(field: HTMLElement, place: HTMLElement): void {
    const take = (event: Event, data: DataTransfer | null) => {
      const files = [...(data?.files ?? [])];
      if (files.length > 0) {
        event.preventDefault();
        this.#actions.files(files);
      }
    };
    field.addEventListener("paste", (event) => take(event, event.clipboardData));
    const mark = (isOver: boolean) => place.classList.toggle("over", isOver);
    place.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) {
        event.preventDefault();
        mark(true);
      }
    });
    place.addEventListener("dragleave", () => mark(false));
    place.addEventListener("drop", (event) => {
      mark(false);
      take(event, event.dataTransfer);
    });
  }

  cancel(): void {
    if (this.#beginning) {
      this.#beginning.isOver = true;
    }
    this.#recording?.cancel();
    this.#over();
  }

  async #begin(): Promise<void> {
    if (this.#beginning) {
      return;
    }
    const beginning = { isOver: false };
    this.#beginning = beginning;
    const voice = this.#actions.voice();
    try {
      const recording = await Recording.begin();
      if (beginning.isOver) {
        recording.cancel();
        return;
      }
      this.#recording = recording;
    } catch {
      voice.refuse("Not recorded: there is no microphone, or the page may not use it");
      return;
    } finally {
      this.#beginning = undefined;
    }
    this.#since = performance.now();
    const tick = () => {
      this.#time.textContent = lengthOf(performance.now() - this.#since);
    };
    tick();
    this.#timer = setInterval(tick, 500);
    this.element.hidden = false;
    this.element.querySelector<HTMLElement>(".primary")?.focus();
  }

  async #end(): Promise<void> {
    const recording = this.#recording;
    const voice = this.#actions.voice();
    this.#over();
    if (recording) {
      try {
        voice.send(await recording.end());
      } catch {
        voice.refuse("Not sent: what was recorded is no sound that this browser can read");
      }
    }
    this.microphone.focus();
  }

  #over(): void {
    clearInterval(this.#timer);
    this.#recording = undefined;
    this.element.hidden = true;
  }
}
