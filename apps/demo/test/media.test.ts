import { expect, it } from "vitest";
import { lengthOf, said, sizeOf } from "../src/said.ts";
import { BARS, barsOf, packed, unpacked } from "../src/waveform.ts";

it("100 bars of 5 bits are 84 characters, and come back as they were", () => {
  const bars = Array.from({ length: BARS }, (_, at) => (at * 7) % 32);
  const waveform = packed(bars);
  expect(waveform.length).toBe(84);
  expect(unpacked(waveform).map((bar) => Math.round(bar * 31))).toEqual(bars);
  // From the first bit on.
  expect(packed([31, 0, 1]).slice(0, 4)).toBe(Buffer.from([0b11111000, 0b00000010, 0]).toString("base64"));
});

it("a note is as loud as its loudest, and a stranger's bars are never an error", () => {
  const samples = Float32Array.from({ length: 1000 }, (_, at) => (at < 500 ? -0.5 : 0.25));
  const bars = barsOf(samples);
  expect([bars[0], bars[99], barsOf(new Float32Array(3)).length]).toEqual([31, 16, BARS]);
  expect(unpacked("no base64 …")).toEqual(unpacked(undefined));
  expect(unpacked("AA")).toHaveLength(BARS);
});

it("what is carried has words", () => {
  expect([said("image", ""), said("image", "us"), said("file", "", { name: "a.pdf" }), said("text", "")]).toEqual([
    "Photo",
    "us",
    "a.pdf",
    "",
  ]);
  expect([sizeOf(0), sizeOf(25), sizeOf(1500), sizeOf(20 * 1024 * 1024)]).toEqual([
    "0 bytes",
    "25 bytes",
    "1.5 kB",
    "21 MB",
  ]);
  expect([lengthOf(400), lengthOf(65_000)]).toEqual(["0:00", "1:05"]);
});
