"""Writes the types of both server SDKs from docs/contract. With `--check`, fails if a file is not current."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/contract/frames.schema.json").read_text())
FILES = {
    "typescript": ROOT / "clients/server-node/src/types.ts",
    "python": ROOT / "clients/server-python/src/pigeonhole_server/types.py",
}
# Each with all types that it names.
TYPES = ["Message", "SendResult", "CreateResult", "AddResult", "ProfileChange", "ProfileResult", "ErrorCode"]
# The fields that a service may use, of the actions of users. `?` marks a field that only a service may leave out.
REQUESTS = {
    "Send": ("SendRequest", ["client_msg_id", "kind?", "body", "data", "mentions", "reply_to"]),
    "CreateGroup": (
        "CreateRequest",
        ["client_msg_id", "title", "members", "kind", "about", "data", "post", "add", "history", "join"],
    ),
    "Update": (
        "UpdateRequest",
        ["conversation_id", "client_msg_id", "title", "about", "data", "post", "add", "history", "join"],
    ),
    "Add": ("AddRequest", ["conversation_id", "client_msg_id", "members"]),
    "Remove": ("RemoveRequest", ["conversation_id", "client_msg_id", "user_id"]),
    "Restrict": ("RestrictRequest", ["conversation_id", "client_msg_id", "user_id", "until"]),
    "Typing": ("TypingEvent", ["text"]),
}
LIMITS = ["BODY_BYTES_MAX", "CLIENT_MSG_ID_CHARS_MAX", "FRAME_BYTES_MAX"]
BANNER = "Generated from docs/contract/frames.schema.json by `just server-types`."
SCALARS = {
    "typescript": {"string": "string", "integer": "number", "boolean": "boolean", "null": "null"},
    "python": {"string": "str", "integer": "int", "boolean": "bool", "null": "None"},
}


def main():
    definitions = SCHEMA["definitions"] | {name: request(name) for name in REQUESTS}
    texts = {language: Writer(language, definitions).write() for language in FILES}
    if sys.argv[1:] != ["--check"]:
        for language, file in FILES.items():
            file.write_text(texts[language])
    elif any(file.read_text() != texts[language] for language, file in FILES.items()):
        sys.exit("the types of the server SDKs are out of date: run `just server-types`")


def request(name):
    """A request as a service makes it."""
    of, fields = REQUESTS[name]
    schema = SCHEMA["definitions"][of]
    names = [field.removesuffix("?") for field in fields]
    properties = {field: schema["properties"][field] for field in names}
    if name in {"Send", "Typing"}:
        properties = {"to": {"$ref": "#/definitions/UserId"}, **properties}
        properties["conversation_id"] = {"$ref": "#/definitions/ConversationId"}
    required = ["text"] if name == "Typing" else [field for field in schema["required"] if field in fields]
    return {"description": schema["description"], "type": "object", "properties": properties, "required": required}


class Writer:
    """Writes types in one language. A type stands behind all types that it names, as Python needs."""

    def __init__(self, language, definitions):
        self.is_python = language == "python"
        self.scalars, self.definitions = SCALARS[language], definitions
        self.texts = {}

    def write(self):
        for name in [*TYPES, *REQUESTS]:
            self.define(name, self.definitions[name])
        limits = [(name, SCHEMA["limits"][name]) for name in LIMITS]
        if self.is_python:
            head = f'"""{BANNER}"""\n\nfrom typing import Any, Literal, NotRequired, TypedDict'
            constants = "\n".join(f"{name} = {value}" for name, value in limits)
            return "\n\n".join([head, constants, *self.texts.values()]).replace("\n\nclass ", "\n\n\nclass ") + "\n"
        constants = "".join(f"  {name}: {value},\n" for name, value in limits)
        constants = f"export const limits = {{\n{constants}}} as const;"
        return "\n\n".join([f"// {BANNER}", constants, *self.texts.values()]) + "\n"

    def define(self, name, schema):
        if name in self.texts:
            return
        if "properties" in schema:
            text = self.object(name, schema)
        else:
            text = self.type(name, schema)
            text = f"{name} = {text}" if self.is_python else f"export type {name} = {text};"
            text = self.comment(schema, "") + text
        self.texts[name] = text

    def object(self, name, schema):
        required = schema.get("required", [])
        indent = "    " if self.is_python else "  "
        lines = [f"class {name}(TypedDict):" if self.is_python else f"export interface {name} {{"]
        for field, of in schema["properties"].items():
            kind = self.type(name + camel(field), of)
            if self.is_python:
                line = f"{field}: {kind if field in required else f'NotRequired[{kind}]'}"
            else:
                line = f"{field}{'' if field in required else '?'}: {kind};"
            lines.append(self.comment(of, indent) + indent + line)
        return self.comment(schema, "") + "\n".join(lines if self.is_python else [*lines, "}"])

    def type(self, name, schema):
        """The type's name. An object without a name of its own gets this one."""
        variants = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if "$ref" in schema:
            found = schema["$ref"].rsplit("/", 1)[1]
            self.define(found, self.definitions[found])
        elif variants:
            names = [f"{name}{variant(of, place) if len(variants) > 1 else ''}" for place, of in enumerate(variants)]
            found = self.union(self.type(*pair) for pair in zip(names, variants, strict=True))
            # A server may be newer than the SDK.
            if name == "ErrorCode":
                found = "str" if self.is_python else f"{found} | (string & {{}})"
        elif "const" in schema or "enum" in schema:
            found = self.union(map(self.literal, schema.get("enum", [schema.get("const")])))
        elif schema["type"] == "array":
            items = self.type(name, schema["items"])
            found = f"list[{items}]" if self.is_python else f"{items if items.isalnum() else f'({items})'}[]"
        elif "properties" in schema:
            self.define(name, schema)
            found = name
        elif schema["type"] == "object":
            found = "dict[str, Any]" if self.is_python else "Record<string, unknown>"
        else:
            found = self.scalars[schema["type"]]
        return found

    def literal(self, value):
        return f"Literal[{json.dumps(value)}]" if self.is_python else json.dumps(value)

    def union(self, names):
        names = list(dict.fromkeys(names))
        literals = [name.removeprefix("Literal[").removesuffix("]") for name in names if name.startswith("Literal[")]
        if len(literals) > 1 and len(literals) == len(names):
            return f"Literal[{', '.join(literals)}]"
        return " | ".join(names)

    def comment(self, schema, indent):
        text = re.sub(r"\s+", " ", schema.get("description", ""))
        if not text:
            return ""
        return f"{indent}# {text}\n" if self.is_python else f"{indent}/** {text} */\n"


def camel(name):
    return "".join(word.capitalize() for word in re.split(r"[^a-z0-9]", name))


def variant(schema, place):
    """Names a variant by its event."""
    event = schema.get("properties", {}).get("event", {}).get("const")
    return camel(event) if event else str(place)


if __name__ == "__main__":
    main()
