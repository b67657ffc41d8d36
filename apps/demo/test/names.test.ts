import { expect, it } from "vitest";
import { called, learn, ownNameOf, rename } from "../src/names.ts";
import { sentence } from "../src/system.ts";

it("calls users by the names that views have, and one who has renamed themselves here by that", () => {
  expect([called("ann"), ownNameOf("ann")]).toEqual(["ann", ""]);
  learn(new Map([["ann", "Ann"]]));
  expect(sentence({ event: "member.left" }, "ann", "bob")).toBe("Ann left");
  rename("ann", "Anna");
  learn(new Map([["ann", "Ann"]]));
  expect([called("ann"), ownNameOf("ann")]).toEqual(["Anna", "Anna"]);
  rename("ann", "");
  expect(called("ann")).toBe("ann");
});
