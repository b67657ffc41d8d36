// Generates TypeScript guards for the server's frames. A value that passes has every field of its type, with the right
// type. The guards ignore extra fields, lengths, and all formats except timestamps: the server ensures those.

const HELPERS = `type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// A text that is none makes what computes with times throw, far from here.
export function isTimestamp(value: unknown): value is string {
  return typeof value === "string" && /^\\d{4}-\\d\\d-\\d\\dT/.test(value) && !Number.isNaN(Date.parse(value));
}

type Guard = (value: unknown) => boolean;

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isFlag(value: unknown): boolean {
  return typeof value === "boolean";
}

function isInteger(value: unknown): boolean {
  return Number.isSafeInteger(value);
}

function listOf(isItem: Guard): Guard {
  return (value) => Array.isArray(value) && value.every(isItem);
}

// All fields of a type in one call: a condition for each field would be several times as many bytes.
function has(value: Fields, isIt: Guard, ...names: string[]): boolean {
  return names.every((name) => isIt(value[name]));
}

function mayHave(value: Fields, isIt: Guard, ...names: string[]): boolean {
  return names.every((name) => value[name] === undefined || isIt(value[name]));
}
`;

/** Generates guards for the results of requests, errors, events and their parts. */
export function guards({ definitions }) {
  const wanted = new Set();
  const want = (name) => {
    if (!wanted.has(name)) {
      wanted.add(name);
      for (const reference of references(definitions[name])) {
        want(reference);
      }
    }
  };
  for (const { $ref } of definitions.ServerFrame.oneOf) {
    const { type, result } = definitions[nameOf($ref)].properties;
    // The gateway's own errors have no `type`, and nothing in them is used.
    if (type) {
      want(nameOf(result?.$ref ?? $ref));
    }
  }
  const guarded = [...wanted].filter((name) => isGuarded(definitions[name])).sort();
  return [HELPERS, ...guarded.map((name) => guard(name, definitions))].join("\n");
}

/** The keyring reads these replies itself. Their guards would be in the bundle of each app without encryption. */
const OF_KEYRING = ["publish_keys", "claim_keys", "remove_keys", "commit", "group_info"];

/** The reply of each action that the client reads, by the action's name: the type, and its guard. */
export function results({ definitions }) {
  const replies = definitions.ServerFrame.oneOf.map(({ $ref }) => definitions[nameOf($ref)].properties);
  const isRead = ({ action, result }) => result && !OF_KEYRING.includes(action.const);
  const of = replies.filter(isRead).map(({ action, result }) => [action.const, nameOf(result.$ref)]);
  const types = of.map(([action, name]) => `  ${action}: ${name};\n`);
  // An alias has the guard of its target.
  const guardOf = (name) => check({ $ref: `#/definitions/${name}` }, "value", definitions).replace("(value)", "");
  const guarded = of.map(([action, name]) => `  ${action}: ${guardOf(name)},\n`);
  return `/** What each action replies with. */
export interface Results {\n${types.join("")}}

export const isResult: { [A in keyof Results]: (value: unknown) => value is Results[A] } = {\n${guarded.join("")}};
`;
}

function isGuarded(definition) {
  return definition.type === "object" || tagOf(definition) !== undefined || isChoice(definition);
}

/** Whether it is one of several named objects. */
function isChoice({ type, anyOf = [] }) {
  return type === undefined && anyOf.length > 0 && anyOf.every(({ $ref }) => $ref);
}

/** The field by which the alternatives of a choice between objects differ. */
function tagOf({ type, anyOf = [] }) {
  const isTag = (name) => anyOf.every(({ properties }) => properties?.[name]?.const !== undefined);
  return type === undefined && anyOf.length > 0 ? Object.keys(anyOf[0].properties ?? {}).find(isTag) : undefined;
}

function nameOf(reference) {
  return reference.replace("#/definitions/", "");
}

/** The definitions that this one names. */
function references(schema) {
  if (typeof schema !== "object" || schema === null) {
    return [];
  }
  const inside = Object.values(schema).flatMap(references);
  return schema.$ref ? [nameOf(schema.$ref), ...inside] : inside;
}

function guard(name, definitions) {
  if (isChoice(definitions[name])) {
    const each = definitions[name].anyOf.map(({ $ref }) => `is${nameOf($ref)}(value)`).join(" || ");
    return `export function is${name}(value: unknown): value is ${name} {\n  return ${each};\n}\n`;
  }
  const all = ["return isObject(value)", ...conditions(definitions[name], definitions)].join(" &&\n    ");
  return `export function is${name}(value: unknown): value is ${name} {\n  ${all};\n}\n`;
}

/** Returns the conditions on an object's fields. */
function conditions(definition, definitions) {
  const { properties = {}, required = [], anyOf = [] } = definition;
  const byGuard = new Map();
  const others = [];
  for (const [name, schema] of Object.entries(properties)) {
    const isRequired = required.includes(name);
    const guard = guardOf(schema, definitions);
    if (guard) {
      const call = `${isRequired ? "has" : "mayHave"}(value, ${guard}`;
      byGuard.set(call, [...(byGuard.get(call) ?? []), JSON.stringify(name)]);
    } else {
      const condition = check(schema, `value.${name}`, definitions);
      others.push(isRequired ? condition : `(value.${name} === undefined || ${condition})`);
    }
  }
  const fields = [...[...byGuard].map(([call, names]) => `${call}, ${names.join(", ")})`), ...others];
  const tag = tagOf(definition);
  // A change of a group: a guard accepts unknown events of a later server.
  if (tag) {
    const each = anyOf.map(({ properties: { [tag]: only, ...properties }, required }) => {
      const all = conditions({ properties, required }, definitions);
      return all.length > 0 && `(value.${tag} !== ${JSON.stringify(only.const)} || (${all.join(" && ")}))`;
    });
    return [`typeof value.${tag} === "string"`, ...each.filter(Boolean)];
  }
  const alternatives = anyOf.map((one) => `(${conditions(one, definitions).join(" && ")})`);
  return alternatives.length > 0 ? [...fields, `(${alternatives.join(" || ")})`] : fields;
}

/** Returns the function that checks a value of this schema; `undefined` if only an expression does. */
function guardOf(schema, definitions) {
  if (schema.allOf?.length === 1) {
    return guardOf(schema.allOf[0], definitions);
  }
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return isGuarded(definitions[name]) ? `is${name}` : guardOf(definitions[name], definitions);
  }
  if (schema.const !== undefined || schema.oneOf || schema.anyOf) {
    return undefined;
  }
  switch (schema.type) {
    case "string":
      return schema.format === "date-time" ? "isTimestamp" : "isText";
    case "boolean":
      return "isFlag";
    case "integer":
      return "isInteger";
    // A map of texts.
    case "object":
      return "isObject";
    case "array":
      return `listOf(${guardOf(schema.items, definitions)})`;
    default:
      return undefined;
  }
}

/** Returns an expression that checks a value against its schema. */
function check(schema, value, definitions) {
  if (schema.allOf?.length === 1) {
    return check(schema.allOf[0], value, definitions);
  }
  const guard = guardOf(schema, definitions);
  if (guard) {
    return `${guard}(${value})`;
  }
  if (schema.$ref) {
    return check(definitions[nameOf(schema.$ref)], value, definitions);
  }
  if (schema.const !== undefined) {
    return `${value} === ${JSON.stringify(schema.const)}`;
  }
  const alternatives =
    schema.oneOf ??
    schema.anyOf ??
    (Array.isArray(schema.type) ? schema.type.map((type) => ({ ...schema, type })) : []);
  if (alternatives.length > 0) {
    const each = alternatives.map((one) => check(one, value, definitions));
    return each.length === 1 ? each[0] : `(${each.join(" || ")})`;
  }
  if (schema.type === "null") {
    return `${value} === null`;
  }
  throw new Error(`no guard for ${value}: ${JSON.stringify(schema)}`);
}
