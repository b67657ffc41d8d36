import * as fc from "fast-check";
import { expect, it } from "vitest";
import { subject, timeLeft } from "../src/token.ts";

const NOW = 1_000_000;

const token = (claims: string) => `e30.${Buffer.from(claims).toString("base64url")}.c2ln`;

function left(claims: string): number | undefined {
  return timeLeft(token(claims), NOW);
}

it("reads from a JWT whose it is", () => {
  expect(subject(token('{"sub":"alice"}'))).toBe("alice");
  for (const claims of ['{"exp":1}', '{"sub":7}', "[]", "null", ""]) {
    expect(subject(token(claims)), claims).toBeUndefined();
  }
  expect(subject("opaque")).toBeUndefined();
});

it("reads from a JWT when it ends", () => {
  expect(left('{"sub":"Zoë ???>>>","exp":4600}')).toBe(3_600_000);
  expect(left('{"exp":1000.5}')).toBe(500);
  expect(left('{"exp":999}')).toBe(0);
});

it("does not know it of anything else", { timeout: 60_000 }, () => {
  for (const claims of ['{"sub":"alice"}', '{"exp":"soon"}', '{"exp":-1}', '{"exp":1e999}', "[]", "null"]) {
    expect(left(claims), claims).toBeUndefined();
  }
  fc.assert(fc.property(fc.string(), (text) => (timeLeft(text, NOW) ?? 0) >= 0));
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => (left(text) ?? 0) >= 0));
});
