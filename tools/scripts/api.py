"""Writes docs/api.md: the public names of each client, by concept. With `--check`, fails where the page is not current.

Fails too where a client has no method for an action of the registry, and `OF_CORE` has no reason.

The names are those of the sources. A concept is a name in camelCase, and `SAME` has those that differ by language.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/api.md"
RUST, KOTLIN = "clients/rust/src", "clients/kotlin/src/main/kotlin/dev/pigeonhole"
SWIFT, TYPESCRIPT = "clients/swift/Sources/PigeonholeKit", "clients/web/src"
# By part and language: the types, each with its file.
PARTS = {
    "Client and conversation": {
        "Rust": [("Client", f"{RUST}/client.rs"), ("Client", f"{RUST}/chat.rs"), ("Chat", f"{RUST}/chat.rs")],
        "Kotlin": [("Pigeonhole", f"{KOTLIN}/Pigeonhole.kt"), ("Conversation", f"{KOTLIN}/Conversation.kt")],
        "Swift": [("Pigeonhole", f"{SWIFT}/Pigeonhole.swift"), ("Conversation", f"{SWIFT}/Conversation.swift")],
        "TypeScript": [
            ("Pigeonhole", f"{TYPESCRIPT}/pigeonhole.ts"),
            ("Chat", f"{TYPESCRIPT}/chat.ts"),
            ("Client", f"{TYPESCRIPT}/client.ts"),
            ("Actions", f"{TYPESCRIPT}/actions.ts"),
        ],
    },
    "Views": {
        "Rust": [("View", f"{RUST}/chat.rs")],
        "Kotlin": [(name, f"{KOTLIN}/Views.kt") for name in ["View", "ChatList", "MessagesView", "RosterView"]],
        "Swift": [(name, f"{SWIFT}/Views.swift") for name in ["ChatList", "MessagesView", "RosterView"]],
        "TypeScript": [(name, f"{TYPESCRIPT}/view.ts") for name in ["View", "ChatList", "MessagesView", "Roster"]],
    },
    "A request in the outbox": {
        "Rust": [("Sent", f"{RUST}/client.rs")],
        "Kotlin": [("Sent", f"{KOTLIN}/Pigeonhole.kt")],
        "Swift": [("Sent", f"{SWIFT}/Conversation.swift")],
        "TypeScript": [("Sent", f"{TYPESCRIPT}/actions.ts")],
    },
}
# Other names of a concept.
SAME = {
    "connection": "state",
    "createChannel": "create",
    "createGroup": "create",
    "getSnapshot": "shown",
    "inbox": "chats",
    "jumpTo": "jump",
    "loadNewer": "newer",
    "loadOlder": "older",
    "newGroup": "create",
    "onEvent": "events",
    "sendMedia": "sendFile",
    "sendOwn": "send",
    "subscribe": "changed",
}
# The actions whose methods have other names, and those without one: when the core sends them.
REGISTRY = "crates/wire/src/actions.rs"
METHODS = {
    "device": ["registerDevice"],
    "inbox": ["chats"],
    "settings": ["settings", "mute"],
    "profile": ["setProfile"],
}
OF_CORE = {
    "ack": "a message is saved",
    "drain": "a connection opened",
    "ping": "a connection was silent",
    "upload": "a file is in the outbox",
    "uploaded": "a file is complete",
}
# The actions of encryption, which no client has yet.
OF_NO_CLIENT = {"publish_keys", "claim_keys", "list_keys", "remove_keys", "commit", "group_info"}
# The class of the app from which a type inherits its names.
SHOWN = {"Actions": "Client"}
# The beginning of a type, and a public name in it, by the ending of the file.
GRAMMAR = {
    ".rs": (r"impl(?:<.*?>)? {}\b.*{{", r"    pub (?:async |const )*fn (\w+)"),
    ".kt": (r"public .*(?:class|interface) {}\b.*", r"    public (?:suspend |open |abstract )*(?:fun|val) (\w+)"),
    ".swift": (r"public .*(?:class|struct) {}\b.*{{", r"    public (?:private\(set\) )?(?:func|var|let) (\w+)"),
    ".ts": (
        r"export (?:abstract )?(?:class|interface) {}\b.*{{",
        r"  (?:readonly |async |get |static )*([a-z]\w*)\??(?:[(:<]| =)",
    ),
}


def main():
    text = page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not current: `just api` writes it")


def page():
    lines = [
        "# The clients' names",
        "",
        "`just api` writes this page from the sources of the clients. An empty cell: the client lacks the name.",
    ]
    for part, languages in PARTS.items():
        rows = defaultdict(dict)
        for language, types in languages.items():
            for kind, file in types:
                for name in names(kind, file):
                    rows[concept(name)].setdefault(language, {})[f"`{SHOWN.get(kind, kind)}.{name}`"] = None
        if part == "Client and conversation":
            check_actions(rows, languages)
        lines += ["", f"## {part}", "", f"| concept | {' | '.join(languages)} |", f"|---|{'---|' * len(languages)}"]
        for row, cells in sorted(rows.items()):
            lines.append(f"| {row} | {' | '.join(', '.join(cells.get(language, [])) for language in languages)} |")
    return "\n".join(lines) + "\n"


def check_actions(rows, languages):
    """Fails where a client has no method for an action, or where the actions are others than named here."""
    actions = re.findall(r'(?m)^    "(\w+)": \w+\(\w+\).*, in "', (ROOT / REGISTRY).read_text())
    if not actions or not {*METHODS, *OF_CORE, *OF_NO_CLIENT} <= {*actions}:
        sys.exit(f"{REGISTRY} lacks an action that tools/scripts/api.py names")
    for action in actions:
        methods = METHODS.get(action, [action])
        lacking = [language for language in languages if not any(language in rows.get(name, []) for name in methods)]
        if action not in OF_CORE and action not in OF_NO_CLIENT and lacking:
            sys.exit(
                f"no method of {', '.join(lacking)} sends `{action}`: add one, or a reason in tools/scripts/api.py"
            )


def names(kind, file):
    """Returns the public names of a type, which a file declares at its top level."""
    begin, member = GRAMMAR[Path(file).suffix]
    public = re.sub(r"  /\*\* @internal \*/\n.*\n", "", (ROOT / file).read_text())
    bodies = re.findall(rf"(?m)^{begin.format(kind)}$(?s:.*?)^\}}", public)
    found = [name for body in bodies for name in re.findall(rf"(?m)^{member}", body) if name != "constructor"]
    if not found:
        sys.exit(f"{file} has no public name of {kind}: correct tools/scripts/api.py")
    return found


def concept(name):
    """Returns the name in camelCase, with `Id` for Swift's `ID`."""
    first, *rest = name.split("_")
    name = (first + "".join(word.capitalize() for word in rest)).replace("ID", "Id")
    return SAME.get(name, name)


if __name__ == "__main__":
    main()
