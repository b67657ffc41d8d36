// Prepares a file for sending: scales a photo down, and removes place and camera from pictures. Other files stay
// unchanged.

import { limits, type MediaDraft } from "@pigeonhole/client";
import { rgbaToThumbHash } from "thumbhash";
import { base64 } from "./base64.ts";
import { isAnimated, withoutMetadata } from "./metadata.ts";

/** The longer side, in pixels. */
const SIDE_MAX = 1600;
/** Size of a thumbhash's source, in pixels. */
const THUMB_SIDE_MAX = 100;
const QUALITY = 0.85;
/** The longer side of a thumbnail, in pixels: the first whose bytes fit. */
const THUMBNAIL_SIDES = [160, 96, 48];
const THUMBNAIL_QUALITY = 0.5;
const PHOTOS = ["image/jpeg", "image/png", "image/webp", "image/avif", "image/gif"];
/** Browsers give no type to some of these. */
const CAMERAS = /\.(heic|heif|tiff?|dng|cr[23]|nef|arw|raf|orf|rw2|mov|mp4|m4v|3gp)$/i;

/** A file as it goes. */
export interface Prepared {
  draft: MediaDraft;
  /** The file may contain a place and a camera that this page can't remove. */
  tellsPlace: boolean;
}

export async function prepared(file: File): Promise<Prepared> {
  if (PHOTOS.includes(file.type)) {
    try {
      return await pictureOf(file);
    } catch {
      // A picture that the browser can't read or draw is sent as a file.
    }
  }
  const whole = (blob: Blob): MediaDraft => ({ blob, kind: "file", name: file.name || "file" });
  const isOfCamera = /^(image|video)\//.test(file.type) || CAMERAS.test(file.name);
  if (!isOfCamera) {
    return { draft: whole(file), tellsPlace: false };
  }
  const { blob, tellsPlace } = await freed(file).catch(() => ({ blob: file, tellsPlace: true }));
  return { draft: whole(blob), tellsPlace };
}

async function pictureOf(file: File): Promise<Prepared> {
  const bitmap = await createImageBitmap(file);
  const { width, height } = bitmap;
  try {
    const small = drawn(bitmap, THUMB_SIDE_MAX);
    const { data } = small.context.getImageData(0, 0, small.width, small.height);
    const thumbhash = base64(rgbaToThumbHash(small.width, small.height, data));
    const thumbnail = await thumbnailOf(bitmap);
    const previews = { thumbhash, ...(thumbnail === undefined ? {} : { thumbnail }) };
    if (file.type === "image/gif" || isAnimated(new Uint8Array(await file.arrayBuffer()))) {
      // Drawn, it would stand still.
      const { blob, tellsPlace } = await freed(file);
      return { draft: { blob, kind: "image", width, height, ...previews }, tellsPlace };
    }
    const large = drawn(bitmap, SIDE_MAX);
    const type = file.type === "image/jpeg" ? "image/jpeg" : "image/webp";
    const blob = await large.canvas.convertToBlob({ type, quality: QUALITY });
    const draft = { blob, kind: "image", width: large.width, height: large.height, ...previews } as const;
    return { draft, tellsPlace: false };
  } finally {
    bitmap.close();
  }
}

/** Returns a small image in base64, for an encrypted message: its other user sees it before the picture is loaded. */
async function thumbnailOf(bitmap: ImageBitmap): Promise<string | undefined> {
  for (const side of THUMBNAIL_SIDES) {
    const blob = await drawn(bitmap, side).canvas.convertToBlob({ type: "image/jpeg", quality: THUMBNAIL_QUALITY });
    if (blob.size <= limits.THUMBNAIL_BYTES_MAX) {
      return base64(new Uint8Array(await blob.arrayBuffer()));
    }
  }
  return undefined;
}

/** Removes the data on place and camera, if the format is known. A GIF has no such data. */
async function freed(file: File): Promise<{ blob: Blob; tellsPlace: boolean }> {
  const bytes = withoutMetadata(new Uint8Array(await file.arrayBuffer()));
  return bytes
    ? { blob: new Blob([bytes as BlobPart], { type: file.type }), tellsPlace: false }
    : { blob: file, tellsPlace: file.type !== "image/gif" };
}

function drawn(bitmap: ImageBitmap, sideMax: number) {
  const scale = Math.min(1, sideMax / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(bitmap.width * scale));
  const height = Math.max(1, Math.round(bitmap.height * scale));
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) {
    throw new Error("this browser can't draw");
  }
  context.drawImage(bitmap, 0, 0, width, height);
  return { canvas, context, width, height };
}
