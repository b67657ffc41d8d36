// Compares the generated guards with the schema: a valid value passes, and one with a missing field or a wrong type
// fails.

import * as fc from "fast-check";
import { expect, it } from "vitest";
import * as frames from "../src/frames.ts";
import { isMember, isSystem, limits } from "../src/frames.ts";
import { fail, isValid, type Json, schema } from "./script.ts";

// biome-ignore lint/suspicious/noExplicitAny: as much of JSON Schema as ours is written in.
type Schema = any;

const guards = Object.entries(frames).flatMap(([name, guard]) =>
  typeof guard === "function" ? [{ definition: name.slice("is".length), guard }] : [],
);

/** Follows references. */
function resolved(part: Schema): Schema {
  const name = (part.$ref ?? part.allOf?.[0]?.$ref)?.replace("#/definitions/", "");
  return name === undefined ? part : resolved(schema.definitions[name]);
}

const texts: Record<string, fc.Arbitrary<string>> = {
  uuid: fc.uuid(),
  "date-time": fc
    .date({ min: new Date(0), max: new Date("2100-01-01"), noInvalidDate: true })
    .map((at) => at.toISOString()),
  "^[!-~]+$": fc.stringMatching(/^[!-~]{1,64}$/),
  [schema.definitions.Emoji.pattern]: fc.constantFrom("👍", "❤️", "ok"),
  [schema.definitions.Title.pattern]: fc.constantFrom("Trip", "שלום", "❤️ us"),
  [schema.definitions.About.pattern]: fc.constantFrom("Who rows?\nAll of us", "❤️"),
  [schema.definitions.FileName.pattern]: fc.constantFrom("a.pdf", "Ünïcode 写真.jpg"),
  "^[A-Za-z0-9_-]+$": fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/),
  "^[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*$": fc.constantFrom("image/png", "application/vnd.ms-excel"),
  "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$": fc.constant("n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="),
  [schema.definitions.ClaimedDevice.properties.key_package.pattern]: fc.constantFrom("AAEABQABAAE=", "AA==", "AAEA"),
  "^[A-Za-z0-9+/]+={0,2}$": fc.constantFrom("AAAA", "1QcSHQRnh493V4dIh4eXh1h4kJUI"),
};

function values(part: Schema): fc.Arbitrary<unknown> {
  const { type, oneOf, anyOf, const: only, properties, required = [], items, ...rest } = resolved(part);
  if (only !== undefined) {
    return fc.constant(only);
  }
  if (rest.enum) {
    return fc.constantFrom(...rest.enum);
  }
  const choices = oneOf ?? (type === "object" ? undefined : anyOf);
  if (choices || Array.isArray(type)) {
    return fc.oneof(...(choices ?? type.map((one: string) => ({ type: one }))).map(values));
  }
  if (anyOf) {
    return fc.oneof(...anyOf.map((one: Schema) => values(joined(resolved(part), one))));
  }
  const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER, minLength = 0, maxLength = 128, format, pattern } = rest;
  switch (type) {
    case "object": {
      // A map, by any names.
      if (rest.additionalProperties) {
        return fc.dictionary(fc.stringMatching(/^[a-z-]{1,20}$/), values(rest.additionalProperties));
      }
      const known = Object.entries(properties ?? {}).map(([name, field]) => [name, values(field)]);
      const record = fc.record(Object.fromEntries(known), { requiredKeys: required });
      return fc
        .tuple(fc.dictionary(fc.stringMatching(/^new_/), fc.jsonValue()), record)
        .map(([more, value]) => ({ ...more, ...value }))
        .filter((value) => Object.keys(value).length >= (rest.minProperties ?? 0));
    }
    case "array":
      return fc.array(values(items), { minLength: rest.minItems ?? 0, maxLength: Math.min(3, rest.maxItems ?? 3) });
    case "integer":
      return fc.integer({ min: minimum, max: maximum });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return texts[format ?? pattern] ?? fc.string({ minLength, maxLength });
  }
}

/** An object's schema, and one of the alternatives in it. */
function joined({ anyOf: _, ...part }: Schema, one: Schema): Schema {
  const required = [...(part.required ?? []), ...(one.required ?? [])];
  return { ...part, ...one, properties: { ...part.properties, ...one.properties }, required };
}

interface Place {
  object: Json;
  name: string;
  field: Schema;
}

/** Every required field in this value, however deep. */
function requiredFields(part: Schema, value: unknown): Place[] {
  const { type, anyOf = [], properties = {}, required = [], items } = resolved(part);
  if (Array.isArray(value)) {
    return value.flatMap((item) => requiredFields(items, item));
  }
  if (typeof value !== "object" || value === null) {
    return [];
  }
  const object = value as Json;
  // A change of a group, by its `event`. Another event is from a later server.
  const happened = anyOf.find(({ properties }: Schema) => properties?.event?.const === object.event);
  if (type === undefined && happened) {
    return requiredFields({ ...happened, properties: { ...happened.properties, event: { type: "string" } } }, value);
  }
  return Object.entries(properties).flatMap(([name, field]) => {
    const inside = name in object ? requiredFields(field, object[name]) : [];
    return required.includes(name) ? [{ object, name, field }, ...inside] : inside;
  });
}

const wrongs = [null, true, "wrong", 5, 1.5, {}, []];

function isOfType(field: Schema, value: unknown): boolean {
  const part = resolved(field);
  const { type, const: only, anyOf, oneOf = type === "object" ? undefined : anyOf } = part;
  if (only !== undefined) {
    return value === only;
  }
  if (anyOf && type === undefined) {
    return anyOf.some((one: Schema) => isOfType(one, value));
  }
  // The server may have more error codes than the schema.
  if (oneOf && part !== schema.definitions.ErrorCode) {
    return oneOf.some((one: Schema) => isOfType(one, value));
  }
  const types: unknown[] = oneOf ? ["string"] : [type].flat();
  const own = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  return types.includes(Number.isSafeInteger(value) ? "integer" : own);
}

/** This value with one of its required fields removed or, if there is a `wrong` one for it, of another type. */
function breakOne(part: Schema, value: unknown, pick: number, wrong: unknown): unknown {
  const broken = structuredClone(value);
  const places = requiredFields(part, broken);
  const place = places[pick % places.length];
  fc.pre(place !== undefined);
  if (wrong === undefined) {
    delete place.object[place.name];
  } else {
    fc.pre(!isOfType(place.field, wrong));
    place.object[place.name] = wrong;
  }
  return broken;
}

for (const { definition, guard } of guards) {
  const part = schema.definitions[definition] ?? fail(`the schema has no ${definition}`);

  it(`is${definition} passes what fits the schema, with fields that nobody knows`, () => {
    const property = fc.property(values(part), (value) => {
      expect(isValid(definition, value)).toBe(true);
      expect(guard(value)).toBe(true);
    });
    fc.assert(property);
  });

  if (part.required || definition === "System") {
    it(`is${definition} fails what lacks a required field, or has one of another type`, () => {
      const wrong = fc.option(fc.constantFrom(...wrongs), { nil: undefined });
      const property = fc.property(values(part), fc.nat(), wrong, (value, pick, wrong) => {
        const broken = breakOne(part, value, pick, wrong);
        // Media without its type is a sealed one.
        fc.pre(!isValid(definition, broken));
        expect(guard(broken)).toBe(false);
      });
      fc.assert(property);
    });
  }

  it(`is${definition} fails what is no object`, () => {
    expect([null, true, "wrong", 5, [], undefined].filter((value) => guard(value))).toEqual([]);
  });
}

it("a number that JavaScript can't hold is none", () => {
  const member = { user_id: "bob", delivered_seq: limits.SEQ_MAX, read_seq: 0 };
  expect(isMember(member)).toBe(true);
  expect(isMember({ ...member, delivered_seq: limits.SEQ_MAX + 1 })).toBe(false);
});

it("what happened to a group is checked if it is known, and passed on if it is not", () => {
  expect(isSystem({ event: "members.added", members: ["bob"] })).toBe(true);
  expect(isSystem({ event: "members.added" })).toBe(false);
  expect(isSystem({ event: "members.added", members: [5] })).toBe(false);
  expect(isSystem({ event: "photo.changed" })).toBe(true);
  expect(isSystem({})).toBe(false);
});

it("has a guard for everything that the client relies on", () => {
  const answers = Object.keys(schema.definitions).filter((name) => /(Result|Event)$|^ErrorFrame$/.test(name));
  // Some are another name for one that has a guard.
  const own = answers.filter((name) => resolved(schema.definitions[name]) === schema.definitions[name]);
  expect(guards.map(({ definition }) => definition)).toEqual(expect.arrayContaining(own));
});
