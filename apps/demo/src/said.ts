// Short texts for messages, where only a line fits. No DOM.

import type { MediaInfo } from "@pigeonhole/client";

const words: Record<string, string> = {
  image: "Photo",
  voice: "Voice message",
  file: "File",
  sealed: "Encrypted message",
};

/** Its caption, or what it carries. */
export function said(kind: string, body: string, media?: Pick<MediaInfo, "name"> | { media_id: string }): string {
  const carries = kind === "file" ? ((media && "name" in media ? media.name : undefined) ?? words.file) : words[kind];
  return body || (carries ?? "");
}

/** 1.5 MB, as files are measured. */
export function sizeOf(bytes: number): string {
  const units = ["bytes", "kB", "MB"];
  const unit = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const count = bytes / 1000 ** unit;
  return `${count.toFixed(unit > 0 && count < 10 ? 1 : 0)} ${units[unit]}`;
}

/** 1:05 */
export function lengthOf(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
