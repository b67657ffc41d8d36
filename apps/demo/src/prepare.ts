// What a file becomes before it is sent: a photo is made smaller and loses what it says of where it was taken, all else stays as it is.

import type { MediaDraft } from "@pigeonhole/client";
import { rgbaToThumbHash } from "thumbhash";
import { base64 } from "./base64.ts";

/** Of the longer side, in pixels. */
const SIDE_MAX = 1600;
/** What a thumbhash is made of. */
const THUMB_SIDE_MAX = 100;
const QUALITY = 0.85;
const PHOTOS = ["image/jpeg", "image/png", "image/webp", "image/avif", "image/gif"];

export async function draftOf(file: File): Promise<MediaDraft> {
  const whole: MediaDraft = { blob: file, kind: "file", name: file.name || "file" };
  // One that the browser can't read, or can't draw, is a file.
  return PHOTOS.includes(file.type) ? pictureOf(file).catch(() => whole) : whole;
}

async function pictureOf(file: File): Promise<MediaDraft> {
  const bitmap = await createImageBitmap(file);
  const { width, height } = bitmap;
  try {
    const small = drawn(bitmap, THUMB_SIDE_MAX);
    const { data } = small.context.getImageData(0, 0, small.width, small.height);
    const thumbhash = base64(rgbaToThumbHash(small.width, small.height, data));
    if (file.type === "image/gif") {
      // It may move.
      return { blob: file, kind: "image", width, height, thumbhash };
    }
    const large = drawn(bitmap, SIDE_MAX);
    const type = file.type === "image/jpeg" ? "image/jpeg" : "image/webp";
    const blob = await large.canvas.convertToBlob({ type, quality: QUALITY });
    return { blob, kind: "image", width: large.width, height: large.height, thumbhash };
  } finally {
    bitmap.close();
  }
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
