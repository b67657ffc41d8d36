// The end-to-end encryption: an entry of its own, so that a page without it loads nothing of it.

import { PigeonholeError } from "./errors.ts";

/** The WebAssembly of the encryption, once loaded. */
type Sealing = typeof import("./wasm/sealing.js");

/** The bytes of a seed. */
const SEED_BYTES = 32;

/**
 * The private key of a user's identity. Its holder is the user. All devices of a user have the same identity. A user
 * without any of them begins with a new identity, and the contacts see that.
 *
 * A page can keep a secret no better than its server and its scripts allow.
 */
export class Keys {
  /** @internal */
  readonly sealing: Sealing;
  #seed: Uint8Array;

  private constructor(sealing: Sealing, seed: Uint8Array) {
    this.sealing = sealing;
    this.#seed = seed;
  }

  /**
   * Makes a new identity, and loads the encryption. `wasm`: the file `@pigeonhole/client/sealing.wasm`, or its address,
   * if the platform can't fetch it from beside the program. Node can't.
   *
   * @throws `unsupported`: the platform has no WebAssembly, or the file can't be loaded.
   */
  static async generate(wasm?: BufferSource | URL): Promise<Keys> {
    return new Keys(await load(wasm), crypto.getRandomValues(new Uint8Array(SEED_BYTES)));
  }

  /**
   * Takes what `export` returned, on this device or on another one. `wasm`: as in `generate`.
   *
   * @throws `config`: the seed has not 32 bytes. `unsupported`: as `generate`.
   */
  static async import(seed: Uint8Array, wasm?: BufferSource | URL): Promise<Keys> {
    if (seed.length !== SEED_BYTES) {
      throw new PigeonholeError("config", `a seed has ${SEED_BYTES} bytes`);
    }
    return new Keys(await load(wasm), seed.slice());
  }

  /** Returns the 32 bytes to keep, or to carry to another device of the user. */
  export(): Uint8Array {
    return this.#seed.slice();
  }
}

async function load(wasm: BufferSource | URL | undefined): Promise<Sealing> {
  if (typeof WebAssembly === "undefined") {
    throw new PigeonholeError("unsupported", "the encryption needs WebAssembly, which this platform does not have");
  }
  try {
    const sealing = await import("./wasm/sealing.js");
    await sealing.default(wasm && { module_or_path: wasm });
    return sealing;
  } catch (cause) {
    const remedy = "serve the file sealing_bg.wasm, and allow 'wasm-unsafe-eval' in the page's CSP";
    throw new PigeonholeError("unsupported", `the encryption can't be loaded: ${remedy}`, { cause });
  }
}
