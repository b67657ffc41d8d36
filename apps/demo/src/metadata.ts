// Metadata in a picture's file: whether it is animated, and where and with which camera it was made. No DOM.

/** Whether these bytes are a picture that moves. */
export function isAnimated(bytes: Uint8Array): boolean {
  if (isPng(bytes)) {
    return pngChunks(bytes).some(({ name }) => name === "acTL");
  }
  if (isWebp(bytes)) {
    return webpChunks(bytes).some(({ name }) => name === "ANIM");
  }
  // The brands of an AVIF come first in it.
  return text(bytes, 4, 4) === "ftyp" && text(bytes, 8, uint32(bytes, 0) - 8).includes("avis");
}

/** Returns the picture without the data on its place and camera, or `undefined` for an unknown format. */
export function withoutMetadata(bytes: Uint8Array): Uint8Array | undefined {
  if (isPng(bytes)) {
    const told = ["eXIf", "tEXt", "zTXt", "iTXt", "tIME"];
    return joined([bytes.subarray(0, 8), ...pngChunks(bytes).flatMap(kept(told))]);
  }
  if (isWebp(bytes)) {
    return webpWithout(bytes);
  }
  return uint16(bytes, 0) === 0xffd8 ? jpegWithout(bytes) : undefined;
}

interface Chunk {
  name: string;
  bytes: Uint8Array;
}

const kept = (told: string[]) => (chunk: Chunk) => (told.includes(chunk.name) ? [] : [chunk.bytes]);

function isPng(bytes: Uint8Array): boolean {
  return text(bytes, 1, 3) === "PNG" && bytes[0] === 0x89;
}

function isWebp(bytes: Uint8Array): boolean {
  return text(bytes, 0, 4) === "RIFF" && text(bytes, 8, 4) === "WEBP";
}

function pngChunks(bytes: Uint8Array): Chunk[] {
  // Each has its length, its name and a checksum.
  return chunks(bytes, 8, (at) => ({ name: text(bytes, at + 4, 4), length: uint32(bytes, at) + 12 }));
}

function webpChunks(bytes: Uint8Array): Chunk[] {
  return chunks(bytes, 12, (at) => {
    const length = little32(bytes, at + 4);
    return { name: text(bytes, at, 4), length: 8 + length + (length % 2) };
  });
}

function webpWithout(bytes: Uint8Array): Uint8Array {
  const left = joined([bytes.subarray(0, 12), ...webpChunks(bytes).flatMap(kept(["EXIF", "XMP "]))]);
  new DataView(left.buffer).setUint32(4, left.length - 8, true);
  const flags = left[20];
  if (text(left, 12, 4) === "VP8X" && flags !== undefined) {
    // The header no longer announces them.
    left[20] = flags & ~0b1100;
  }
  return left;
}

/** All segments before the picture itself, but those of applications other than how its colours are meant, and comments. */
function jpegWithout(bytes: Uint8Array): Uint8Array {
  const parts = [bytes.subarray(0, 2)];
  let at = 2;
  while (at + 4 <= bytes.length && bytes[at] === 0xff && bytes[at + 1] !== 0xda) {
    const marker = bytes[at + 1] ?? 0;
    const end = at + 2 + uint16(bytes, at + 2);
    // JFIF, the colour profile, and Adobe's colours.
    const isOfColours = [0xe0, 0xe2, 0xee].includes(marker);
    const isTold = (marker >= 0xe0 && marker <= 0xef && !isOfColours) || marker === 0xfe;
    parts.push(...(isTold ? [] : [bytes.subarray(at, end)]));
    at = end;
  }
  return joined([...parts, bytes.subarray(at)]);
}

function chunks(bytes: Uint8Array, first: number, head: (at: number) => { name: string; length: number }): Chunk[] {
  const found: Chunk[] = [];
  for (let at = first; at + 8 <= bytes.length; ) {
    const { name, length } = head(at);
    found.push({ name, bytes: bytes.subarray(at, at + length) });
    at += length;
  }
  return found;
}

function joined(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function text(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, Math.min(at + length, at + 256)));
}

function uint16(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
}

function uint32(bytes: Uint8Array, at: number): number {
  return uint16(bytes, at) * 0x1_00_00 + uint16(bytes, at + 2);
}

function little32(bytes: Uint8Array, at: number): number {
  return [3, 2, 1, 0].reduce((sum, place) => sum * 256 + (bytes[at + place] ?? 0), 0);
}
