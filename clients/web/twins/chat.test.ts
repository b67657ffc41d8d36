// Plays random scripts of the Rust core, which `just twins` writes: this chat model must show the same.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { playChat } from "../test/chat-play.ts";
import { camel, type Step } from "../test/script.ts";

const file = process.env.PIGEONHOLE_TURNS ?? "";
const scripts = JSON.parse(readFileSync(file, "utf8")) as Step[][];

it("shows what the Rust core shows", { timeout: 600_000 }, () => {
  expect(scripts.length).toBeGreaterThan(0);
  for (const [at, steps] of scripts.entries()) {
    try {
      playChat("alice", steps, plain);
    } catch (error) {
      throw new Error(`script ${at}: ${error instanceof Error ? error.message : error}`, { cause: error });
    }
  }
});

/** Returns the content without what only one language writes: the case of names, and values that are not there. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  // The core writes the entry of an unknown kind in the item, and not within it.
  const { message, ...item } = value as Step;
  const fields = item.type === "other" ? { ...item, ...message } : value;
  const named = Object.entries(fields).map(([name, field]) => [camel(name), plain(field)] as const);
  return Object.fromEntries(
    named.filter(([name, field]) => !isNothing(field) && !(name === "lock" && field === "plain")),
  );
}

function isNothing(field: unknown): boolean {
  const isEmpty = Array.isArray(field) && field.length === 0;
  return field === undefined || field === null || field === false || field === "" || isEmpty;
}
