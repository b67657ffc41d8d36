// The bytes of a file in an encrypted conversation: padded, in segments, each by AES-256-GCM. The platform has the cipher,
// so the bytes need not go through WebAssembly.

import { PigeonholeError } from "./errors.ts";
import { limits, type Media, type Message } from "./frames.ts";
import { clearOf, digestsOf, safeType } from "./media.ts";
import type { SealedFile } from "./saved.ts";

/** A file as its message has it: with its key. */
export interface KeyedMedia extends Media {
  /** Base64 of 32 bytes. */
  key?: string;
}

const SEGMENT_BYTES = 1024 * 1024;
const TAG_BYTES = 16;
/** A segment of the ciphertext. */
const SEALED_SEGMENT_BYTES = SEGMENT_BYTES + TAG_BYTES;
/** The smallest padded file. */
const PADDED_BYTES_MIN = 256;
const KEY_BYTES = 32;

/** Returns the length of the padded file (Padmé). */
function paddedBytes(bytes: number): number {
  const size = Math.max(bytes, PADDED_BYTES_MIN);
  const exponent = Math.floor(Math.log2(size));
  const step = 2 ** (exponent - Math.floor(Math.log2(exponent)) - 1);
  return Math.ceil(size / step) * step;
}

/** Returns the length of the ciphertext of a file. */
export function sealedBytes(bytes: number): number {
  const padded = paddedBytes(bytes);
  return padded + Math.ceil(padded / SEGMENT_BYTES) * TAG_BYTES;
}

/** Makes a key for this file, and returns it with the digests of the ciphertext. Another file needs another key. */
export async function sealFile(file: Blob): Promise<SealedFile> {
  const bytes = sealedBytes(file.size);
  if (bytes > limits.MEDIA_BYTES_MAX) {
    throw new PigeonholeError("too_large", `bytes: must be 1 to ${limits.MEDIA_BYTES_MAX}, encrypted`);
  }
  const key = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(KEY_BYTES))));
  return { key, ...(await digestsOf(await sealedPart(file, key, 0, bytes))) };
}

/** Returns a part of the ciphertext. */
export async function sealedPart(file: Blob, key: string, offset: number, bytes: number): Promise<Blob> {
  const cipher = await cipherOf(key, "encrypt");
  const padded = paddedBytes(file.size);
  const first = Math.floor(offset / SEALED_SEGMENT_BYTES);
  const segments: ArrayBuffer[] = [];
  for (let segment = first; segment * SEALED_SEGMENT_BYTES < offset + bytes; segment += 1) {
    const from = segment * SEGMENT_BYTES;
    const plaintext = new Uint8Array(Math.min(padded - from, SEGMENT_BYTES));
    plaintext.set(new Uint8Array(await file.slice(from, from + SEGMENT_BYTES).arrayBuffer()));
    segments.push(await crypto.subtle.encrypt(algorithm(segment, padded), cipher, plaintext));
  }
  const skipped = offset - first * SEALED_SEGMENT_BYTES;
  return new Blob(segments).slice(skipped, skipped + bytes);
}

/** Opens the file of a message, whose ciphertext `download` fetches and checks. */
export async function openFile(
  message: Pick<Message, "kind" | "media">,
  download: (message: Pick<Message, "kind" | "media">) => Promise<Blob>,
): Promise<Blob> {
  const { key, ...media }: KeyedMedia = clearOf(message.media) ?? ({} as Media);
  if (key === undefined) {
    return download(message);
  }
  const sealed = await download({ kind: "file", media: { ...media, bytes: sealedBytes(media.bytes) } });
  try {
    const plain = new Blob(await opened(sealed, key, media.bytes), { type: safeType(message.kind, media) });
    return plain.slice(0, media.bytes, plain.type);
  } catch (cause) {
    throw new PigeonholeError("file", "the bytes are not those that the sender encrypted", { cause });
  }
}

async function opened(sealed: Blob, key: string, bytes: number): Promise<ArrayBuffer[]> {
  const cipher = await cipherOf(key, "decrypt");
  const padded = paddedBytes(bytes);
  const segments: ArrayBuffer[] = [];
  for (let segment = 0; segment * SEALED_SEGMENT_BYTES < sealed.size; segment += 1) {
    const ciphertext = await sealed
      .slice(segment * SEALED_SEGMENT_BYTES, (segment + 1) * SEALED_SEGMENT_BYTES)
      .arrayBuffer();
    segments.push(await crypto.subtle.decrypt(algorithm(segment, padded), cipher, ciphertext));
  }
  return segments;
}

/** The number stops a swap of segments, and the flag of the last a cut behind a segment. */
function algorithm(segment: number, padded: number): AesGcmParams {
  const iv = new DataView(new ArrayBuffer(12));
  iv.setUint32(7, segment);
  iv.setUint8(11, (segment + 1) * SEGMENT_BYTES >= padded ? 1 : 0);
  return { name: "AES-GCM", iv: iv.buffer as ArrayBuffer };
}

function cipherOf(key: string, use: "encrypt" | "decrypt"): Promise<CryptoKey> {
  const bytes = Uint8Array.from(atob(key), (letter) => letter.charCodeAt(0));
  return crypto.subtle.importKey("raw", bytes, "AES-GCM", false, [use]);
}
