"""Many mutants in one build: a function has a body for each of its mutants, and a variable selects the one that runs.

A build for each mutant would take most of the time. Three kinds of mutants have a build of their own:
- mutants outside functions,
- mutants in functions that the compiler runs,
- mutants that do not compile here.
"""

import re
from itertools import chain

TOKEN = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|'(?:\\(?:u\{\w+\}|x\w\w|.)|[^\\'])'|'\w+)
    |(?P<word>\w+)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)

# The environment variable that selects the mutant.
NUMBER = "PIGEONHOLE_MUTANT"

# The local server starts a function's program without its own environment, as AWS would.
WHICH = f"""
pub(crate) static MUTANT: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {{
    let of_parent = || std::fs::read(format!("/proc/{{}}/environ", std::os::unix::process::parent_id())).ok();
    let number = std::env::var("{NUMBER}").ok().or_else(|| {{
        let environment = String::from_utf8(of_parent()?).ok()?;
        environment.split('\\0').find_map(|line| line.strip_prefix("{NUMBER}=")).map(str::to_owned)
    }});
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}});
"""


def bodies(text):
    """From where to where the bodies of functions go that run when the program does; of nested ones the outermost."""
    tokens = [match for match in TOKEN.finditer(text) if match["skipped"] is None]
    found, at = [], 0
    while at < len(tokens):
        word = tokens[at][0]
        before = tokens[at - 1][0] if at else ""
        at += 1
        # `fn` alone is a type.
        if word != "fn" or at == len(tokens) or not tokens[at]["word"]:
            continue
        while tokens[at][0] not in "{;":
            at += 1
        if tokens[at][0] == ";":
            continue
        start, depth = tokens[at].start(), 0
        while True:
            depth += {"{": 1, "}": -1}.get(tokens[at][0], 0)
            if depth == 0:
                break
            at += 1
        if before != "const":
            found.append((start, tokens[at].end()))
    return found


class Switched:
    """The mutants that one build can hold, by number, and the texts that hold them."""

    def __init__(self, root, mutants):
        self.root = root
        self.originals, self.bodies = {}, {}
        fitting = (mutant for mutant in mutants if self.places(mutant))
        self.numbers = {mutant: number for number, mutant in enumerate(fitting, 1)}

    def places(self, mutant):
        """For each edit the body that it is in; nothing if one is in none."""
        places = []
        for edit in mutant.edits:
            file, start, end, _ = edit
            crate = "/".join(file.split("/")[:2])
            if (
                not re.fullmatch(rf"{crate}/src/(?!main\.rs).*\.rs", file)
                or not (self.root / crate / "src/lib.rs").exists()
            ):
                return []
            if file not in self.originals:
                self.originals[file] = (self.root / file).read_text()
                self.bodies[file] = bodies(self.originals[file])
            within = [body for body in self.bodies[file] if body[0] < start and end < body[1]]
            if not within:
                return []
            places.append((within[0], edit))
        return places

    def texts(self):
        """The files with all that is switched, and for each of them the lines of each mutant."""
        edits = {}
        for mutant, number in self.numbers.items():
            for body, (file, start, end, replacement) in self.places(mutant):
                edits.setdefault(file, {}).setdefault(body, {}).setdefault(number, []).append((start, end, replacement))
        texts, lines = {}, {}
        for file, of_file in edits.items():
            original, done, text = self.originals[file], 0, ""
            for (start, end), mutated in sorted(of_file.items()):
                text += original[done:start] + "{ match *crate::MUTANT {\n"
                for number, of_mutant in mutated.items():
                    first = text.count("\n") + 1
                    text += f"{number} => " + edited(original, start, end, of_mutant) + "\n"
                    lines.setdefault(file, []).append((first, text.count("\n"), {number}))
                first = text.count("\n") + 1
                text += f"_ => {original[start:end]}\n}} }}"
                # An error there means that the mutants have other types.
                lines[file].append((first, text.count("\n"), set(mutated)))
                done = end
            texts[file] = text + original[done:]
        for crate in {"/".join(file.split("/")[:2]) for file in texts}:
            lib = f"{crate}/src/lib.rs"
            texts[lib] = texts.get(lib, (self.root / lib).read_text()) + WHICH
        return texts, lines

    def drop(self, messages, lines, workspace=""):
        """Leaves out the mutants that do not compile, and returns their number. The compiler names a file as seen from
        its workspace."""
        folder = f"{workspace}/" if workspace else ""

        def at(spans):
            places = (
                (folder + span["file_name"], span["line_start"]) for span in chain.from_iterable(map(expansions, spans))
            )
            found = (of for file, line in places for first, last, of in lines.get(file, []) if first <= line <= last)
            return set().union(*found)

        wrong = set()
        for message in messages:
            spans = [span for told in [message, *message["children"]] for span in told["spans"]]
            wrong |= at(span for span in spans if span["is_primary"]) or at(spans)
        self.numbers = {mutant: number for mutant, number in self.numbers.items() if number not in wrong}
        return len(wrong)


def edited(text, start, end, edits):
    for at, until, replacement in sorted(edits, reverse=True):
        text = text[:at] + replacement + text[until:]
        end += len(replacement) - (until - at)
    return text[start:end]


def expansions(span):
    while span:
        yield span
        span = (span["expansion"] or {}).get("span")
