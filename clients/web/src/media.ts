// The attachment of a message: its properties, its name and its digests.

import { PigeonholeError } from "./errors.ts";
import { type Attached, type Data, limits, type Media } from "./frames.ts";

export type MediaKind = "image" | "file" | "voice";

/** A picture, a file or a voice note that is to be sent. */
export interface MediaDraft {
  /** Its `type` is the media type. */
  blob: Blob;
  kind: MediaKind;
  /** The name of the file. Default: its own name. Characters that a name must not have are replaced. */
  name?: string;
  /** The caption. */
  body?: string;
  replyTo?: number;
  mentions?: string[];
  /** The app's own object. */
  data?: Data;
  /** In pixels. An image must have both. */
  width?: number;
  height?: number;
  /** A voice note must have it. */
  durationMs?: number;
  /** In base64, as `waveform`. */
  thumbhash?: string;
  /** A small image of at most 4 KiB, in base64. Only an encrypted message has it. */
  thumbnail?: string;
  /** 100 bars of 5 bits, packed from the first bit on. */
  waveform?: string;
}

export function isMediaKind(kind: string): kind is MediaKind {
  return kind === "image" || kind === "file" || kind === "voice";
}

/** Returns the media of a message that is not sealed. */
export function clearOf(media: Attached | undefined): Media | undefined {
  return media && "mime" in media ? media : undefined;
}

/** The attachment as the message has it, without the server's id. `thumbnail`: a small image, of an encrypted message. */
export type MediaInfo = Omit<Media, "media_id"> & { thumbnail?: string };

export interface Digests {
  sha256: string;
  /** The digest of each part, for a file above `MEDIA_WHOLE_BYTES_MAX`. */
  parts?: string[];
}

const IMAGES = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/avif"];
/** A type of sounds, and of no document: browsers run what is XML or HTML by its type. */
const SOUND = /^audio\/(?!.*(?:\+|ml))/;
const FILE = "application/octet-stream";

/** @throws `bad_request` or `too_large`, with the field. */
export function infoOf(draft: MediaDraft): Omit<MediaInfo, "sha256"> {
  const { blob, kind, width, height, durationMs, thumbhash, thumbnail, waveform } = draft;
  const mime = mimeOf(blob);
  const name = draft.name ?? ("name" in blob && typeof blob.name === "string" ? blob.name : undefined);
  if (blob.size < 1 || blob.size > limits.MEDIA_BYTES_MAX) {
    const code = blob.size < 1 ? "bad_request" : "too_large";
    throw new PigeonholeError(code, `bytes: must be 1 to ${limits.MEDIA_BYTES_MAX}`);
  }
  if (kind === "image" ? !IMAGES.includes(mime) : kind === "voice" && !SOUND.test(mime)) {
    throw new PigeonholeError("bad_request", `mime: ${mime} is no ${kind}; send it as a file`);
  }
  if (kind === "image") {
    needs("width", width, limits.PIXELS_MAX);
    needs("height", height, limits.PIXELS_MAX);
  } else if (kind === "voice") {
    needs("duration_ms", durationMs, limits.DURATION_MS_MAX);
  } else if (name === undefined) {
    throw new PigeonholeError("bad_request", "name: is missing");
  }
  fits("thumbhash", thumbhash, limits.THUMBHASH_CHARS_MAX);
  fits("thumbnail", thumbnail, Math.ceil(limits.THUMBNAIL_BYTES_MAX / 3) * 4);
  fits("waveform", waveform, limits.WAVEFORM_CHARS_MAX);
  return {
    mime,
    bytes: blob.size,
    ...(name === undefined || kind === "voice" ? {} : { name: nameOf(name) }),
    ...(width === undefined || kind === "voice" ? {} : { width }),
    ...(height === undefined || kind === "voice" ? {} : { height }),
    ...(durationMs === undefined || kind === "image" ? {} : { duration_ms: durationMs }),
    ...(thumbhash === undefined || kind === "voice" ? {} : { thumbhash }),
    ...(waveform === undefined || kind !== "voice" ? {} : { waveform }),
  };
}

function needs(field: string, value: number | undefined, max: number): void {
  if (!Number.isSafeInteger(value) || (value ?? 0) < 1 || (value ?? 0) > max) {
    throw new PigeonholeError("bad_request", `${field}: must be an integer from 1 to ${max}`);
  }
}

function fits(field: string, value: string | undefined, max: number): void {
  if (value !== undefined && value.length > max) {
    throw new PigeonholeError("bad_request", `${field}: must be at most ${max} characters`);
  }
}

/** In lower case and without parameters. */
function mimeOf({ type }: Blob): string {
  const [mime = ""] = type.toLowerCase().split(";");
  const isType = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/.test(mime.trim()) && mime.length <= limits.MIME_CHARS_MAX;
  return isType ? mime.trim() : FILE;
}

/**
 * Returns a safe name for a file: without path separators, control characters and marks of text direction, and with at
 * least one visible character.
 */
export function nameOf(name: string): string {
  let clean = name.replace(/[/\\\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "_").trim() || "_";
  if (/^(?:\.+|[\s\p{Default_Ignorable_Code_Point}\u2800]+)$/u.test(clean)) {
    clean = "_";
  }
  // The extension shows the type.
  const end = /\.[A-Za-z0-9]{1,10}$/.exec(clean)?.[0] ?? "";
  const letters = [...clean.slice(0, clean.length - end.length)];
  while (new TextEncoder().encode(letters.join("") + end).length > limits.FILE_NAME_BYTES_MAX) {
    letters.pop();
  }
  return letters.join("") + end;
}

/** Returns the digest of the bytes. For a large file: the digests of its parts, and their digest. */
export async function digestsOf(blob: Blob): Promise<Digests> {
  if (blob.size <= limits.MEDIA_WHOLE_BYTES_MAX) {
    return { sha256: base64(await sha256(blob)) };
  }
  const digests: Uint8Array<ArrayBuffer>[] = [];
  for (let offset = 0; offset < blob.size; offset += limits.MEDIA_PART_BYTES) {
    digests.push(await sha256(blob.slice(offset, offset + limits.MEDIA_PART_BYTES)));
  }
  return { sha256: base64(await sha256(new Blob(digests))), parts: digests.map(base64) };
}

async function sha256(blob: Blob): Promise<Uint8Array<ArrayBuffer>> {
  // React Native may have none.
  const { subtle } = (globalThis.crypto as Crypto | undefined) ?? {};
  if (subtle === undefined) {
    throw new PigeonholeError(
      "config",
      "digests need crypto.subtle: a page that is served with TLS, or from localhost",
    );
  }
  let bytes: ArrayBuffer;
  try {
    bytes = await blob.arrayBuffer();
  } catch (cause) {
    throw new PigeonholeError("file", "the bytes can't be read: the file has changed, perhaps", { cause });
  }
  return new Uint8Array(await subtle.digest("SHA-256", bytes));
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/**
 * Returns the type under which a browser may handle the bytes. Another user sent them: a page or a script among them
 * must not run as part of the app.
 */
export function safeType(kind: string, { mime }: Media): string {
  const isShown = kind === "image" ? IMAGES.includes(mime) : kind === "voice" && SOUND.test(mime);
  return isShown ? mime : FILE;
}
