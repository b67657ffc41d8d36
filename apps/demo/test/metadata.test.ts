import { expect, it } from "vitest";
import { isAnimated, withoutMetadata } from "../src/metadata.ts";

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part, "latin1")] : part)));
const text = (all: Uint8Array | undefined) => Buffer.from(all ?? []).toString("latin1");

const png = (...names: string[]) =>
  bytes(
    [0x89],
    "PNG\r\n\x1a\n",
    ...names.map((name) => `\0\0\0\x05${name}<${name}>`.slice(0, 13)).flatMap((chunk) => [chunk, [1, 2, 3, 4]]),
  );

const webp = (...names: string[]) => {
  const chunks = names.map((name) => {
    const data = name === "VP8X" ? "\x2e\0\0\0\x09\0\0\x09\0\0" : "abc";
    return `${name}${String.fromCharCode(data.length)}\0\0\0${data}${data.length % 2 ? "\0" : ""}`;
  });
  const all = `WEBP${chunks.join("")}`;
  return bytes(`RIFF${String.fromCharCode(all.length)}\0\0\0`, all);
};

const segment = (marker: number, data: string) => bytes([0xff, marker, 0, data.length + 2], data);
const jpeg = (...segments: Uint8Array[]) =>
  bytes([0xff, 0xd8], ...segments.map((each) => [...each]), [0xff, 0xda, 0, 2, 0xe1, 9, 9, 0xff, 0xd9]);

it("pictures that move are told from those that don't", () => {
  expect([isAnimated(png("IHDR", "acTL", "IDAT")), isAnimated(png("IHDR", "IDAT"))]).toEqual([true, false]);
  expect([isAnimated(webp("VP8X", "ANIM", "ANMF")), isAnimated(webp("VP8 "))]).toEqual([true, false]);
  const avif = (brand: string) => bytes([0, 0, 0, 24], `ftyp${brand}\0\0\0\0mif1miaf`, [0, 0, 0, 9], "metaavis");
  expect([isAnimated(avif("avis")), isAnimated(avif("avif"))]).toEqual([true, false]);
  expect([isAnimated(jpeg()), isAnimated(bytes()), isAnimated(bytes("GIF89a"))]).toEqual([false, false, false]);
});

it("where and with what a picture was taken is gone, and the picture as it was", () => {
  const chunks = png("IHDR", "eXIf", "acTL", "tEXt", "iTXt", "IDAT", "IEND");
  expect(text(withoutMetadata(chunks))).toBe(text(png("IHDR", "acTL", "IDAT", "IEND")));

  const moving = withoutMetadata(webp("VP8X", "ANIM", "EXIF", "ANMF", "XMP "));
  expect(text(moving?.subarray(8))).toBe(text(webp("VP8X", "ANIM", "ANMF").subarray(8)).replace("\x2e", "\x22"));
  expect(moving?.[4]).toBe((moving?.length ?? 0) - 8);

  const shot = jpeg(segment(0xe0, "JFIF"), segment(0xe1, "Exif\0\0GPS"), segment(0xed, "IPTC"), segment(0xe2, "ICC"));
  expect(text(withoutMetadata(shot))).toBe(text(jpeg(segment(0xe0, "JFIF"), segment(0xe2, "ICC"))));
  expect(text(withoutMetadata(jpeg(segment(0xfe, "by me"), segment(0xdb, "table"))))).toBe(
    text(jpeg(segment(0xdb, "table"))),
  );
  expect(withoutMetadata(bytes([0, 0, 0, 24], "ftypheic"))).toBeUndefined();
});

it("what is cut off or no picture at all ends nothing", () => {
  for (const whole of [png("IHDR", "eXIf", "IDAT"), webp("VP8X", "EXIF"), jpeg(segment(0xe1, "Exif"))]) {
    for (let length = 0; length <= whole.length; length += 1) {
      const part = whole.subarray(0, length);
      isAnimated(part);
      expect((withoutMetadata(part)?.length ?? 0) <= length).toBe(true);
    }
  }
});
