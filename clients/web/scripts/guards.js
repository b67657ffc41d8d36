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

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem);
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

/** The reply of each action, by the action's name: the type, and its guard. */
export function results({ definitions }) {
  const replies = definitions.ServerFrame.oneOf.map(({ $ref }) => definitions[nameOf($ref)].properties);
  const of = replies.filter(({ result }) => result).map(({ action, result }) => [action.const, nameOf(result.$ref)]);
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
  return definition.type === "object" || tagOf(definition) !== undefined;
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
  const all = ["return isObject(value)", ...conditions(definitions[name], definitions)].join(" &&\n    ");
  return `export function is${name}(value: unknown): value is ${name} {\n  ${all};\n}\n`;
}

/** Returns the conditions on an object's fields. */
function conditions(definition, definitions) {
  const { properties = {}, required = [], anyOf = [] } = definition;
  const fields = Object.entries(properties).map(([name, schema]) => {
    const field = `value.${name}`;
    const condition = check(schema, field, definitions);
    return required.includes(name) ? condition : `(${field} === undefined || ${condition})`;
  });
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

/** Returns an expression that checks a value against its schema. */
function check(schema, value, definitions) {
  if (schema.allOf?.length === 1) {
    return check(schema.allOf[0], value, definitions);
  }
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return isGuarded(definitions[name]) ? `is${name}(${value})` : check(definitions[name], value, definitions);
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
  switch (schema.type) {
    case "null":
      return `${value} === null`;
    case "string":
      return schema.format === "date-time" ? `isTimestamp(${value})` : `typeof ${value} === "string"`;
    case "boolean":
      return `typeof ${value} === "boolean"`;
    case "integer":
      return `Number.isSafeInteger(${value})`;
    // A map of texts.
    case "object":
      return `isObject(${value})`;
    case "array": {
      const name = nameOf(schema.items.$ref);
      return `isListOf(${value}, ${isGuarded(definitions[name]) ? `is${name}` : `(item) => ${check(definitions[name], "item", definitions)}`})`;
    }
    default:
      throw new Error(`no guard for ${value}: ${JSON.stringify(schema)}`);
  }
}
