// SHA-256 without waiting. The platform's own is asynchronous, and absent from pages without TLS.

/** Returns the first 32 bits of the fractional part of a root. */
const fraction = (root: number) => ((root - Math.floor(root)) * 2 ** 32) | 0;

const PRIMES = primes(64);
const ROUNDS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

export function sha256(message: Uint8Array): Uint8Array {
  // A bit behind the message, zeros, and the length in bits.
  const padded = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const words = new DataView(padded.buffer);
  words.setUint32(padded.length - 4, message.length * 8);
  const state = Int32Array.from(START);
  for (let block = 0; block < padded.length; block += 64) {
    compress(state, words, block);
  }
  const digest = new DataView(new ArrayBuffer(32));
  for (const [at, word] of state.entries()) {
    digest.setInt32(at * 4, word);
  }
  return new Uint8Array(digest.buffer);
}

function compress(state: Int32Array, words: DataView, block: number): void {
  const schedule: number[] = [];
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (const [round, constant] of ROUNDS.entries()) {
    schedule.push(round < 16 ? words.getInt32(block + round * 4) : mixed(schedule, round));
    const choice = (e & f) ^ (~e & g);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + constant + (schedule[round] ?? 0);
    const other = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + other) | 0];
  }
  for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) {
    state[at] = (state[at] ?? 0) + word;
  }
}

function mixed(schedule: number[], round: number): number {
  const [early = 0, late = 0] = [schedule[round - 15], schedule[round - 2]];
  const first = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
  const second = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
  return ((schedule[round - 16] ?? 0) + first + (schedule[round - 7] ?? 0) + second) | 0;
}

/** Turns a word to the right. */
function turned(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

function primes(count: number): number[] {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate += 1) {
    if (found.every((prime) => candidate % prime !== 0)) {
      found.push(candidate);
    }
  }
  return found;
}
