// The entry by which an app loads the encryption.

import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
let Keys: typeof import("../src/sealed.ts").Keys;

beforeEach(async () => {
  // Each test loads the module itself.
  vi.resetModules();
  ({ Keys } = await import("../src/sealed.ts"));
});

afterEach(() => vi.unstubAllGlobals());

it("makes an identity, and takes it on another device", async () => {
  const keys = await Keys.generate(wasm);
  const seed = keys.export();
  expect(seed).toHaveLength(32);
  expect((await Keys.import(seed, wasm)).export()).toEqual(seed);
  expect((await Keys.generate()).export()).not.toEqual(seed);
  // The app may wipe its bytes.
  seed.fill(0);
  expect(keys.export()).not.toEqual(seed);
  await expect(Keys.import(new Uint8Array(31))).rejects.toMatchObject({ code: "config" });
});

it("says so where the platform has no WebAssembly, as React Native", async () => {
  vi.stubGlobal("WebAssembly", undefined);
  await expect(Keys.generate(wasm)).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("needs WebAssembly"),
  });
});

it.each([
  ["is not there", undefined],
  ["is another", new Uint8Array([0, 97, 115, 109])],
])("says so where the file %s, and can load it later", async (_, file) => {
  await expect(Keys.generate(file)).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("sealing_bg.wasm"),
  });
  expect((await Keys.generate(wasm)).export()).toHaveLength(32);
});
