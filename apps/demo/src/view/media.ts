// Media of a message: a picture, a file or a voice note.

import type { MediaInfo, MessageItem } from "@pigeonhole/client";
import { thumbHashToDataURL } from "thumbhash";
import { bytesOf } from "../base64.ts";
import type { Carried } from "../carried.ts";
import { lengthOf, said, sizeOf } from "../said.ts";
import { unpacked } from "../waveform.ts";
import { h, icon, put } from "./dom.ts";

export interface Shown {
  kind: string;
  media: MediaInfo;
  body: string;
  /** The sender. */
  by: string;
  /** Returns the bytes' URL. Bytes of an upload of this page may be lost. */
  url(): Promise<string> | undefined;
  /** The server has no file before it has the message. */
  isMissing?: boolean;
}

/** A picture is at most so wide and high, in pixels. */
const WIDTH_MAX = 300;
const HEIGHT_MAX = 320;
/** Name of the event that moves a voice message by a number of seconds. */
export const SEEK = "seek";
/** A stranger's picture is no line. */
const RATIO_MAX = 3;

/** Puts it into the message's bubble, once, and takes it away where there is nothing any more. */
export function carry(
  element: HTMLElement,
  shown: Shown | undefined,
  carried: Carried,
  look: (url: string, alt: string) => void,
) {
  const found = element.querySelector<HTMLElement>(".carried");
  if (!shown) {
    if (found) {
      const { digest = "" } = found.dataset;
      found.remove();
      // A copy of it stays what it is.
      if (!document.querySelector(`.carried[data-digest="${digest}"]`)) {
        carried.forget(digest);
      }
    }
    return;
  }
  if (found?.dataset.digest === shown.media.sha256 && (!found.dataset.missing || shown.isMissing)) {
    return;
  }
  const view = { image: picture, voice: voiceNote }[shown.kind] ?? file;
  const made = view(shown, look);
  made.classList.add("carried", shown.kind);
  made.dataset.digest = shown.media.sha256;
  put(made, "data-missing", shown.isMissing ? "yes" : undefined);
  found?.remove();
  element.querySelector(".body")?.before(made);
}

export function ofMessage(message: MessageItem, carried: Carried): Shown | undefined {
  const { kind, media, body, senderId: by } = message;
  return media && { kind, media, body, by, url: () => carried.urlOf(message) };
}

function picture({ media, body, by, url }: Shown, look: (url: string, alt: string) => void): HTMLElement {
  const { width = 1, height = 1, thumbhash, thumbnail } = media;
  const alt = body || `Photo from ${by}`;
  const ratio = Math.min(Math.max(width / height, 1 / RATIO_MAX), RATIO_MAX);
  const button = h("button", { type: "button", class: "picture", "aria-label": `Look at: ${alt}`, tabindex: -1 });
  button.style.aspectRatio = String(ratio);
  button.style.width = `${Math.round(Math.min(WIDTH_MAX, HEIGHT_MAX * ratio))}px`;
  // A browser shows images of any format under this type, and runs none.
  const small = thumbnail === undefined ? placeholder(thumbhash) : `data:image/jpeg;base64,${thumbnail}`;
  if (small !== undefined) {
    button.append(h("img", { src: small, alt: "", class: "blurred" }));
  }
  const why = h("span", { class: "unseen", hidden: true });
  button.append(why);
  const load = async () => {
    why.hidden = true;
    try {
      const src = await url();
      if (src !== undefined) {
        const image = h("img", { src, alt, class: "seen" });
        await image.decode();
        button.append(image);
        // The browser may have dropped a file that is old.
        button.onclick = async () => look((await url()) ?? src, alt);
      }
    } catch {
      why.textContent = "Can’t be shown. Try again";
      why.hidden = false;
      button.onclick = load;
    }
  };
  load();
  return button;
}

/** `undefined`: there is none, or it is none. */
function placeholder(thumbhash: string | undefined): string | undefined {
  const bytes = bytesOf(thumbhash ?? "");
  // A hash has at least five bytes, and contains its own length.
  if (!bytes || bytes.length < 5) {
    return undefined;
  }
  try {
    return thumbHashToDataURL(bytes);
  } catch {
    return undefined;
  }
}

function file({ media, body, by, url }: Shown): HTMLElement {
  const name = said("file", "", media);
  const why = h("span", { class: "size" }, sizeOf(media.bytes));
  const save = async () => {
    why.textContent = "Fetching …";
    try {
      const href = await url();
      why.textContent = sizeOf(media.bytes);
      if (href !== undefined) {
        h("a", { href, download: name }).click();
      }
    } catch {
      why.textContent = "Can’t be fetched. Try again";
    }
  };
  const button = { type: "button", class: "file", tabindex: -1, click: save };
  const hidden = (words: string) => h("span", { class: "hidden" }, words);
  const words = h(
    "span",
    { class: "texts" },
    hidden("Save"),
    h("span", { class: "name", dir: "auto" }, name),
    hidden(`from ${by}`),
    why,
  );
  return h("button", { ...button, title: body || undefined }, icon("file"), words);
}

function voiceNote({ media, by, url }: Shown): HTMLElement {
  const length = media.duration_ms ?? 0;
  const bars = unpacked(media.waveform).map((height) => {
    const bar = h("i", {});
    bar.style.height = `${Math.round(10 + height * 90)}%`;
    return bar;
  });
  const time = h("span", { class: "time" }, lengthOf(length));
  const audio = new Audio();
  const show = () => {
    const part = length > 0 ? (audio.currentTime * 1000) / length : 0;
    bars.forEach((bar, at) => {
      bar.classList.toggle("played", at < part * bars.length);
    });
    time.textContent = lengthOf(audio.currentTime > 0 ? audio.currentTime * 1000 : length);
    const name = `${audio.paused ? "Play" : "Pause"} the voice message from ${by}, ${lengthOf(length)}`;
    put(play, "aria-label", name);
    play.replaceChildren(icon(audio.paused ? "play" : "pause"));
  };
  const begin = async () => {
    if (audio.error) {
      audio.removeAttribute("src");
    }
    const src = audio.src || (await url());
    if (src !== undefined && audio.src === "") {
      audio.src = src;
    }
    await audio.play();
  };
  const start = async () => {
    const wasKept = audio.src !== "";
    try {
      try {
        await begin();
      } catch (error) {
        // The browser may have dropped a file that is old, and its URL.
        if (!wasKept || !audio.error) {
          throw error;
        }
        await begin();
      }
    } catch {
      time.textContent = "Can’t be played";
    }
  };
  const toggle = () => (audio.paused ? start() : audio.pause());
  const goTo = async (seconds: number) => {
    // Before it plays, there is nothing to go to.
    await start();
    audio.currentTime = Math.min(Math.max(seconds, 0), length / 1000);
  };
  const click = ({ clientX }: MouseEvent) => {
    const { left, width } = wave.getBoundingClientRect();
    goTo((((clientX - left) / width) * length) / 1000);
  };
  const play = h("button", { type: "button", class: "button play", tabindex: -1, click: toggle });
  const wave = h("span", { class: "wave", "aria-hidden": "true", click }, ...bars);
  for (const event of ["play", "pause", "timeupdate", "ended"]) {
    audio.addEventListener(event, () => {
      if (event === "ended") {
        audio.currentTime = 0;
      }
      show();
    });
  }
  show();
  const seek = ({ detail }: CustomEvent<number>) => goTo(audio.currentTime + detail);
  return h("div", { [SEEK]: seek }, play, wave, time);
}

/** How far an upload is, and a button that ends it. */
export function uploading(
  element: HTMLElement,
  progress: { done: number; bytes: number } | undefined,
  cancel: () => void,
): void {
  const found = element.querySelector<HTMLElement>(".uploading");
  if (!progress) {
    found?.remove();
    return;
  }
  const bar = found?.querySelector("progress") ?? h("progress", { "aria-label": "Uploaded" });
  bar.max = progress.bytes;
  bar.value = progress.done;
  if (!found) {
    const end = { type: "button", class: "button", "aria-label": "Cancel the upload", click: cancel };
    element.append(h("div", { class: "uploading" }, bar, h("button", end, icon("close"))));
  }
}
