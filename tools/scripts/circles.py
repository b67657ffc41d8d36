"""Finds circles of files: sets of files in which each one uses each other one, directly or through others.

Reads the paths of Rust within each crate, and the imports of TypeScript. A module and the modules below it are one
thing to Rust, so no edge between them counts; nor does a test.
"""

import re
from pathlib import PurePosixPath

MODULE = re.compile(r"(?P<root>.*/src)/(?P<path>.+)\.rs")
PATH = re.compile(r"\b(?:crate|super|self|[a-z_]+)(?:::\w+)+")
USE = re.compile(r"(pub(?:\([^)]*\))? )?use ([^;]+);")
COMMENT = re.compile(r"(?s)/\*.*?\*/|//[^\n]*")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub )?mod \w+ \{")
IMPORT = re.compile(r"""(?m)^(?:import|export)\b[^;'"]*?\bfrom\s+["'](\.[^"']+)["']""")


def circles(files, read):
    """Each circle as a sorted list of files. `read` returns the text of a file."""
    graphs = [*rust(files, read), typescript(files, read)]
    return sorted((sorted(circle) for graph in graphs for circle in components(graph)), key=lambda found: -len(found))


def typescript(files, read):
    sources = {file for file in files if file.endswith(".ts") and "/src/" in file}
    return {
        file: {found for name in IMPORT.findall(read(file)) if (found := beside(file, name)) in sources}
        for file in sources
    }


def beside(file, name):
    parts = list(PurePosixPath(file).parent.parts)
    for part in PurePosixPath(name).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return re.sub(r"\.js$", ".ts", "/".join(parts))


def rust(files, read):
    crates = {}
    for file in files:
        if (match := MODULE.fullmatch(file)) and "/bin/" not in file:
            crates.setdefault(match["root"], {})[match["path"]] = file
    for modules in crates.values():
        yield Crate(modules, read).graph()


class Crate:
    def __init__(self, modules, read):
        self.files = {}
        for path, file in modules.items():
            module = () if path in {"lib", "main"} else tuple(path.removesuffix("/mod").split("/"))
            # A crate's program uses the crate's library from outside.
            if module[-1:] not in {("tests",), ("test",)} and not (path == "main" and "lib" in modules):
                self.files[module] = file
        self.texts = {module: TESTS.split(COMMENT.sub("", read(file)))[0] for module, file in self.files.items()}
        self.uses = {module: list(uses(text)) for module, text in self.texts.items()}
        self.exports = {module: {name: path for _, path, name in found} for module, found in self.uses.items()}

    def graph(self):
        graph = {}
        for module, text in self.texts.items():
            paths = [path for is_public, path, _ in self.uses[module] if not is_public]
            paths += [path.split("::") for path in PATH.findall(USE.sub("", text))]
            found = {self.module_of(module, path) for path in paths} - {None}
            graph[self.files[module]] = {self.files[other] for other in found if not is_above_or_below(module, other)}
        return graph

    def module_of(self, module, path, seen=()):
        """The module in which a path that `module` writes ends, through re-exports."""
        base, rest = list(module), list(path)
        if rest[0] in {"crate", "self", "super"}:
            while rest and rest[0] in {"crate", "self", "super"}:
                step = rest.pop(0)
                base = [] if step == "crate" else base[:-1] if step == "super" else base
        elif (*base, rest[0]) not in self.files:
            return None
        while rest and (*base, rest[0]) in self.files:
            base.append(rest.pop(0))
        found = tuple(base)
        if rest and rest[0] in self.exports.get(found, {}) and (found, rest[0]) not in seen:
            behind = self.module_of(found, self.exports[found][rest[0]], (*seen, (found, rest[0])))
            return found if behind is None else behind
        return found if found in self.files else None


def is_above_or_below(module, other):
    shorter = min(len(module), len(other))
    return module[:shorter] == other[:shorter]


def uses(text):
    """Whether it is public, the path, and the name under which it is known."""
    for public, tree in USE.findall(text):
        for path in branches(" ".join(tree.split())):
            original, _, alias = path[-1].partition(" as ")
            whole = [*path[:-1], original] if original != "self" else path[:-1]
            yield bool(public), whole, alias or whole[-1]


def branches(tree):
    """The paths of `a::{b, c::{d, e}}`."""
    head, brace, inner = tree.strip().partition("{")
    names = [name.strip() for name in head.split("::") if name.strip()]
    if not brace:
        yield names
        return
    depth, part = 0, ""
    for character in inner.rstrip()[:-1] + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if part.strip():
                yield from ([*names, *branch] for branch in branches(part))
            part = ""
        else:
            part += character


def components(graph):
    """The strongly connected sets of more than one (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            place = stack.index(node)
            circle = stack[place:]
            del stack[place:]
            if len(circle) > 1:
                found.append(circle)

    for node in graph:
        if node not in order:
            visit(node)
    return found
