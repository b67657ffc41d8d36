// The bars of a voice note: 100 of 5 bits each, packed from the first bit on. No DOM.

import { base64, bytesOf } from "./base64.ts";

export const BARS = 100;
const BITS = 5;
const HIGHEST = 2 ** BITS - 1;

/** Returns the loudness of each hundredth, relative to the loudest. */
export function barsOf(samples: Float32Array): number[] {
  const peaks = Array.from({ length: BARS }, (_, bar) => {
    let peak = 0;
    const end = Math.floor(((bar + 1) * samples.length) / BARS);
    for (let at = Math.floor((bar * samples.length) / BARS); at < end; at += 1) {
      peak = Math.max(peak, Math.abs(samples[at] ?? 0));
    }
    return peak;
  });
  const loudest = Math.max(...peaks, Number.EPSILON);
  return peaks.map((peak) => Math.round((peak / loudest) * HIGHEST));
}

export function packed(bars: readonly number[]): string {
  const bytes = new Uint8Array(Math.ceil((BARS * BITS) / 8));
  bars.slice(0, BARS).forEach((bar, number) => {
    for (let bit = 0; bit < BITS; bit += 1) {
      if ((bar >> (BITS - 1 - bit)) & 1) {
        const at = number * BITS + bit;
        bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (0x80 >> (at & 7));
      }
    }
  });
  return base64(bytes);
}

/** Returns values from 0 to 1. An unreadable waveform is silence. */
export function unpacked(waveform: string | undefined): number[] {
  const bytes = bytesOf(waveform ?? "") ?? new Uint8Array();
  return Array.from({ length: BARS }, (_, number) => {
    let bar = 0;
    for (let at = number * BITS; at < (number + 1) * BITS; at += 1) {
      bar = bar * 2 + (((bytes[at >> 3] ?? 0) >> (7 - (at & 7))) & 1);
    }
    return bar / HIGHEST;
  });
}
