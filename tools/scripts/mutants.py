"""Checks the tests: breaks one rule of the code at a time, and expects that a test fails.

    mutants.py [PATTERN]   runs every mutant, or those with PATTERN in their name or file. `clients/` runs those of the
                           clients, in minutes.

    mutants.py --check     only checks that every mutation of tests/mutations.toml still fits the code.

Some mutants are listed in tests/mutations.toml; `cargo mutants` makes others of the store and the functions. Each
`ensure` of the encryption has a mutant that continues when the check fails. Another mutant drops each clause of each
condition that the tests write with. The embedded database then takes the write as if the clause held
(tests/kit/src/conditions.rs). If no test writes with a condition, `cargo mutants` finds the function that no test runs.

All are built in a copy of the tree with its own target folder, most of them together (switched.py). Each ends at the
first test that fails. A full run takes hours. target/mutants/results.json keeps each result until the mutated file
changes, so a run continues where the last one stopped. The report is target/mutants/report.md.
"""

import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path

from switched import NUMBER, Switched

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/mutations.toml"
# Made by each run, and not part of the tree.
WORK = ROOT / "target/mutants"
REPORT = WORK / "report.md"
RECORD = WORK / "results.json"
# Each condition that the tests write with, as the unbroken run records them.
CONDITIONS = WORK / "conditions.txt"
PACKAGES = [
    "store",
    "send",
    "drain",
    "read",
    "actions",
    "deliver",
    "connect",
    "inbox",
    "device",
    "keys",
    "jobs",
    "notify",
    "publish",
    "group",
    "fanout",
    "ingest",
    "queue",
    "media",
    "objects",
    "push",
    "admin",
    "authorize",
    "backend",
]

# The packages whose rules have unit tests, by their folders.
UNITS = {
    "domain": "crates/domain/",
    "pigeonhole-wire": "crates/wire/",
    "actions": "crates/actions/",
    "deliver": "crates/deliver/",
    "lambda": "crates/lambda/",
}

# The tests of the functions and of what they are made of, and those that need several of them.
HANDLERS = ["handlers", *(path.stem for room in ("crates", "functions") for path in ROOT.glob(f"{room}/*/tests/*.rs"))]
HANDLERS = sorted(set(HANDLERS) - {"authorize"})


def handlers(tests):
    # The skipped tests build the functions' binaries, and check that the template has each and how it starts.
    skipped = ["--skip=every_function_is_deployed", "--skip=starting::"]
    return ["--workspace", *(f"--test={test}" for test in tests)], skipped, 100


# By name: Cargo's targets, the arguments of the tests, and the seconds after which the tests count as hanging. All have
# the features of the whole workspace, so that Cargo builds nothing twice.
SUITES = {
    "units": ([*(f"--package={name}" for name in UNITS), "--lib"], [], 100),
    "authorize": (["--workspace", "--test", "authorize"], [], 200),
    "handlers": handlers(HANDLERS),
    "explorer": (["--workspace", "--test", "explorer"], ["--nocapture"], 300),
    "e2e": (["--workspace", "--test", "e2e"], [], 300),
    "core": (["--package", "pigeonhole-core", "--lib", "--test", "sealed"], [], 300),
    "sealing": (["--package", "pigeonhole-sealing", "--lib", "--tests"], [], 300),
}
# The encryption is a workspace of its own, with its own build.
SEALING = "clients/sealing"
# By the folder of the workspace: what a build checks, and its suites.
WORKSPACES = {
    "": ("--workspace", [name for name in SUITES if name != "sealing"]),
    SEALING: ("--package=pigeonhole-sealing", ["sealing"]),
}
# Suites of a minute and more.
SLOW = ["explorer", "e2e"]
# A part of what `cargo test` goes through, from its beginning: what this catches, that catches.
RUNS_MAX = "10"
STACK = 64 * 1024 * 1024


def suites_of(files):
    """Returns the suites that can notice a change of the files, the quickest first."""
    if any(file.startswith("functions/authorize/") for file in files):
        return ["authorize"]
    # Which only reads: no order of its calls makes a difference.
    if any(file.startswith("functions/inbox/") for file in files):
        return ["handlers", "e2e"]
    if any(file.startswith("clients/") for file in files):
        return ["sealing" if workspace_of(files) else "core"]
    units = ["units"] if any(file.startswith(tuple(UNITS.values())) for file in files) else []
    return [*units, "handlers", "explorer", "e2e"]


def workspace_of(files):
    return SEALING if any(file.startswith(f"{SEALING}/") for file in files) else ""


class Mutant:
    """A change of the code that a test must notice.

    `breaks` is the broken rule of a mutant by hand. An edit is a file, its start and end, and the new text.
    `equivalent` explains why no test can notice the mutant. `replaced` is the condition of a dropped clause, and its
    replacement.
    """

    def __init__(self, name, breaks, edits, equivalent, replaced=None):
        self.name, self.breaks, self.edits, self.equivalent = name, breaks, edits, equivalent
        self.replaced = replaced
        self.texts = {}
        for file, start, end, replacement in sorted(edits, reverse=True):
            text = self.texts.get(file) or source(file)
            self.texts[file] = text[:start] + replacement + text[end:]
        seen = self.texts or sources_of_store()
        self.key = hashlib.sha256(json.dumps([name, seen], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def by_hand(self):
        return bool(self.breaks)

    @property
    def is_of_clients(self):
        return any(file.startswith("clients/") for file in self.texts)

    @property
    def suites(self):
        # The functions of the end-to-end tests have a database of another process.
        return ["handlers", "explorer"] if self.replaced else suites_of(self.texts)

    def matches(self, pattern):
        return any(pattern.lower() in text.lower() for text in [self.name, *self.texts])


@cache
def sources_of_store():
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.glob("crates/store/src/*.rs"))}


def source(file):
    path = ROOT / file
    return path.read_text() if path.exists() else ""


def fail(text):
    sys.exit(f"{Path(__file__).name}: {text}")


def by_hand(listed):
    mutants, wrong = [], []
    for entry in listed["mutation"]:
        edits = []
        for edit in entry.get("edit", [entry]):
            file, text = edit["file"], source(edit["file"])
            start, found = text.find(edit["find"]), text.count(edit["find"])
            if found != 1:
                wrong.append(f'"{entry["name"]}": found {found} times in {file}, not once:\n{edit["find"]}')
            edits.append((file, start, start + len(edit["find"]), edit["replace"]))
        mutants.append(Mutant(entry["name"], entry["breaks"], edits, entry.get("equivalent")))
    if wrong:
        fail(f"{LIST.relative_to(ROOT)} no longer fits the code. Mend its patterns.\n\n" + "\n\n".join(wrong))
    return mutants


def made(listed):
    """Returns the mutants of `cargo mutants`, named without line numbers, so that an edit above one keeps its name."""
    packages = [f"--package={name}" for name in PACKAGES]
    command = ["cargo", "mutants", "--list", "--json", "--exclude", "main.rs", *packages]
    entries = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    entries.sort(key=lambda entry: PACKAGES.index(entry["package"]))
    sentences = sentences_of_made(listed, of_clients=False)
    mutants = []
    for entry in entries:
        file, span = entry["file"], entry["span"]
        start, end = (offset(source(file), span[end]) for end in ("start", "end"))
        name = f"{file}: {entry['name'].split(': ', 1)[1]}"
        mutants.append(Mutant(name, "", [(file, start, end, entry["replacement"])], sentences.pop(name, None)))
    fail_for(sentences)
    return mutants


def unchecked(listed):
    """Returns a mutant for each check of the encryption: a call of `ensure` whose outcome counts for nothing."""
    sentences = sentences_of_made(listed, of_clients=True)
    mutants = []
    for path in sorted((ROOT / SEALING / "src").rglob("*.rs")):
        file, text = str(path.relative_to(ROOT)), path.read_text().partition("#[cfg(test)]")[0]
        for match in re.finditer(r"(?<!\w)(?<!fn )ensure\(", text):
            end = closing(text, match.end())
            check = re.sub(r"\s+", " ", text[match.end() : end - 1]).removesuffix(",")
            mutated = text[match.start() : end]
            if text[end] == "?":
                edit = (file, match.start(), end + 1, f"let _ = {mutated}")
            else:
                edit = (file, match.start(), end, f"{mutated}.or(Ok(()))")
            name = f"{file}: without {check}"
            mutants.append(Mutant(name, "", [edit], sentences.pop(name, None)))
    fail_for(sentences)
    return mutants


def closing(text, at):
    """Returns the place behind the bracket that closes the one before this place."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def sentences_of_made(listed, of_clients):
    entries = listed.get("generated", [])
    return {
        entry["name"]: entry["equivalent"] for entry in entries if entry["name"].startswith("clients/") == of_clients
    }


def fail_for(sentences):
    if sentences:
        fail(f"{LIST.relative_to(ROOT)} explains mutants that are no longer made:\n" + "\n".join(sentences))


def dropped(listed):
    """A mutant for each clause of each recorded condition."""
    lines = sorted(set(CONDITIONS.read_text().splitlines())) if CONDITIONS.exists() else []
    sentences = sentences_of_dropped(listed)
    mutants = []
    for line in lines:
        parts = clauses(line.split(": ", 1)[1])
        for at, part in enumerate(parts):
            name = f"{line}, without {part}"
            # The request must use each of its values.
            always = f"({part} OR attribute_not_exists(no_attribute))"
            replacement = " AND ".join([*parts[:at], always, *parts[at + 1 :]])
            mutants.append(Mutant(name, "", [], sentences.get(name), f"{line}\t{replacement}"))
    return mutants


def sentences_of_dropped(listed):
    return {name: entry["equivalent"] for entry in listed["dropped"] for name in entry["names"]}


def clauses(condition):
    """The parts of a condition that AND joins; with an OR outside of brackets it is one part."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[()]| (AND|OR) ", condition):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0 and match[1] == "OR":
            return [condition]
        if depth == 0 and match[1] == "AND":
            parts.append(condition[start : match.start()])
            start = match.end()
    return [*parts, condition[start:]]


def offset(text, at):
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: at["line"] - 1])) + at["column"] - 1


class Copy:
    """A copy of the tree, for the mutants."""

    def __init__(self):
        self.tree = WORK / "tree"
        # The folder of the workspace whose mutants run now.
        self.workspace = ""
        self.commit = commit()
        self.env = dict(
            os.environ,
            CARGO_TARGET_DIR=str(WORK / "build"),
            PIGEONHOLE_RUNS_MAX=RUNS_MAX,
            INSTA_UPDATE="no",
            PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
            RUST_BACKTRACE="0",
            # Which takes most of the time of linking.
            CARGO_PROFILE_DEV_DEBUG="0",
            # Built once, the tests run a thousand times.
            CARGO_PROFILE_DEV_OPT_LEVEL="1",
            # A function with a body for each of its mutants has the locals of all of them.
            RUST_MIN_STACK=str(STACK),
        )
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        files = {file for file in files if file and (ROOT / file).is_file()}
        for there in self.tree.rglob("*"):
            if there.is_file() and str(there.relative_to(self.tree)) not in files:
                there.unlink()
        # By file, what caught its mutants, the last one first.
        self.caught = {}
        self.state = hashlib.sha256()
        for file in sorted(files):
            content = (ROOT / file).read_bytes()
            if not file.endswith(".md"):
                self.state.update(file.encode() + b"\0" + content)
            self.write(file, content)

    def write(self, file, content):
        path = self.tree / file
        # An unchanged file keeps its time, so that Cargo does not build it again.
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def restore(self, files):
        for file in files:
            self.write(file, (ROOT / file).read_bytes())

    def near(self, files):
        """Returns the tests that caught the last mutants of the files, and the tests of the files' crates. Most often,
        these are enough."""
        caught = [test for file in files for test in self.caught.get(file, [])]
        of_crates = [path.stem for file in files for path in ROOT.glob("/".join(file.split("/")[:2]) + "/tests/*.rs")]
        return list(dict.fromkeys(test for test in [*caught, *of_crates] if test in HANDLERS))

    def note(self, mutant, outcome, started):
        if test := outcome.pop("of", None):
            for file in mutant.texts:
                self.caught[file] = [test, *(other for other in self.caught.get(file, []) if other != test)]
        return {**outcome, "seconds": round(time.monotonic() - started)}

    def run(self, mutant):
        """Returns the outcome: the test that caught it, survived, or unviable. Few tests run first: few are built."""
        suites = [(name, SUITES[name]) for name in mutant.suites]
        if (near := self.near(mutant.texts)) and "handlers" in mutant.suites:
            at = [name for name, _ in suites].index("handlers")
            suites.insert(at, ("handlers", handlers(near[:3])))
        for file, text in mutant.texts.items():
            self.write(file, text.encode())
        started = time.monotonic()
        try:
            return self.note(mutant, self.first_failure(suites), started)
        finally:
            self.restore(mutant.texts)

    def first_failure(self, suites):
        for name, (targets, _, _) in suites:
            tests, errors = self.build(targets)
            if errors:
                return {"outcome": "unviable"}
            if caught := self.caught_by(name, tests):
                return caught
        return {"outcome": "survived"}

    def caught_by(self, suite, tests, more=None):
        _, arguments, patience = SUITES[suite]
        env = {**self.env, **(more or {})}
        for test, executable, folder in tests:
            if failed := first_failed(suite, [executable, *arguments], folder, env, patience):
                return {"outcome": "caught", "suite": suite, "by": failed, "of": test}
        return None

    def build(self, targets):
        """Returns the name, executable and folder of each test, and the compiler's errors."""
        said, errors = self.compile(["test", "--no-run", *targets])
        tests = [
            (artifact["target"]["name"], artifact["executable"], Path(artifact["manifest_path"]).parent)
            for artifact in said
            if artifact.get("executable") and artifact["profile"]["test"]
        ]
        return tests if tests or errors else fail(f"cargo test {' '.join(targets)} builds no tests"), errors

    def compile(self, arguments):
        """Returns Cargo's messages, and the compiler's errors among them."""
        command = ["cargo", arguments[0], "--locked", "--message-format=json", *arguments[1:]]
        folder = self.tree / self.workspace
        built = subprocess.run(command, cwd=folder, env=self.env, capture_output=True, text=True, check=False)
        said = [json.loads(line) for line in built.stdout.splitlines()]
        errors = [line["message"] for line in said if line.get("message", {}).get("level") == "error"]
        # A killed compiler is no result for the mutant.
        if built.returncode != 0 and (not errors or "(signal: " in built.stderr):
            fail(built.stderr)
        return said, errors


class Together:
    """The mutants of one common build of a workspace, and its tests."""

    def __init__(self, copy, due):
        self.copy, self.due = copy, due
        self.checked, names = WORKSPACES[copy.workspace]
        # Clauses are dropped where the server's tests write.
        self.has_conditions = copy.workspace == "" and any(not mutant.is_of_clients for mutant in due)
        self.names = [name for name in names if self.has_conditions or any(name in mutant.suites for mutant in due)]
        self.switched = Switched(ROOT, due)
        self.files, self.tests = set(), {}

    @property
    def mutants(self):
        # A dropped clause needs no body of its own.
        return [*self.switched.numbers, *(mutant for mutant in self.due if mutant.replaced)]

    def env_of(self, mutant):
        if mutant.replaced:
            return {"PIGEONHOLE_REPLACED_CONDITION": mutant.replaced}
        return {NUMBER: str(self.switched.numbers[mutant])}

    def build(self):
        """Builds the mutants together, and drops those that do not compile, crate by crate."""
        while True:
            texts, lines = self.switched.texts()
            self.copy.restore(self.files - set(texts))
            self.files |= set(texts)
            for file, text in texts.items():
                self.copy.write(file, text.encode())
            print(f"{len(self.mutants)} mutants in one build …", flush=True)
            # Which takes a part of the time of a build.
            _, errors = self.copy.compile(["check", self.checked, "--lib", "--keep-going"])
            if not errors:
                break
            if not self.switched.drop(errors, lines, self.copy.workspace):
                fail("\n".join(error["rendered"] for error in errors))
        for name in self.names:
            self.tests[name], errors = self.copy.build(SUITES[name][0])
            if errors:
                fail("\n".join(error["rendered"] for error in errors))

    def check(self):
        """Checks that the tests pass without a mutant, and records the conditions."""
        sound = WORK / f"sound {' '.join(self.names)}"
        is_sound = sound.exists() and sound.read_text() == self.copy.state.hexdigest()
        if is_sound and (CONDITIONS.exists() or not self.has_conditions):
            return
        print(f"First, {' and '.join(self.names)} as they are, which must pass …", flush=True)
        if self.has_conditions:
            CONDITIONS.unlink(missing_ok=True)
        as_it_is = self.first_failure([], self.names, {"PIGEONHOLE_CONDITIONS": str(CONDITIONS)})
        if as_it_is["outcome"] != "survived":
            fail(f"the tests fail without any mutation: {as_it_is}")
        sound.write_text(self.copy.state.hexdigest())

    def restore(self):
        self.copy.restore(self.files)

    def run_quick(self, mutant):
        return self.run(mutant, [name for name in mutant.suites if name not in SLOW])

    def run_slow(self, mutant):
        return self.run(mutant, [name for name in mutant.suites if name in SLOW])

    def run(self, mutant, names):
        started = time.monotonic()
        return self.copy.note(mutant, self.first_failure(mutant.texts, names, self.env_of(mutant)), started)

    def first_failure(self, files, names, env):
        near = self.copy.near(files)
        for name in names:
            tests = sorted(self.tests[name], key=lambda test: near.index(test[0]) if test[0] in near else len(near))
            if caught := self.copy.caught_by(name, tests, env):
                return caught
        return {"outcome": "survived"}


def first_failed(suite, command, folder, env, patience):
    """Runs tests until the first failure, and returns its name."""
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    tests = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **said)
    hung = threading.Timer(patience, lambda: os.killpg(tests.pid, signal.SIGKILL))
    hung.start()
    try:
        said = iter(tests.stdout)
        for line in said:
            if failed := re.match(r"test (\S+) \.\.\. FAILED", line):
                return f"`{failed[1]}`"
            # No test runs that long, except the explorer's single one.
            if suite == "handlers" and (slow := re.match(r"test (\S+) has been running for over 60 seconds", line)):
                return f"`{slow[1]}`, which does not end"
            if suite == "explorer" and " panicked at " in line:
                return counterexample(said)
        if tests.wait() == 0:
            return None
        return "which does not end" if tests.returncode == -signal.SIGKILL else "a crash of the tests"
    finally:
        hung.cancel()
        if tests.poll() is None:
            os.killpg(tests.pid, signal.SIGKILL)
        tests.wait()


def counterexample(said):
    """Returns the schedule of the explorer's panic, and the broken invariant."""
    schedule = next(said, "").strip()
    for line in said:
        if not re.match(r"  \d+\. ", line):
            # The row itself is no news.
            broken = re.split(r": (?=[{\[])", line.strip())[0][:120]
            break
    scenario = re.match(r"([a-z-]+):[\d,.a-z!-]*$", schedule)
    return f"`{scenario[1]}`: {broken}" if scenario else schedule[:120]


def commit():
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def report(mutants, results):
    def cell(text):
        return text.replace("|", "\\|").replace("\n", " ")

    def code(text):
        return f"`{cell(text)}`"

    def caught(mutant):
        result = results[mutant.key]
        if result["outcome"] == "survived":
            return "**survives**"
        return cell(f"{result['suite']}: {result['by']}")

    left = [mutant for mutant in mutants if mutant.key not in results]
    mutants = [mutant for mutant in mutants if mutant.key in results]
    counted = [mutant for mutant in mutants if results[mutant.key]["outcome"] != "unviable"]
    survivors = [mutant for mutant in counted if results[mutant.key]["outcome"] == "survived"]
    by_suite = {}
    for mutant in counted:
        if suite := results[mutant.key].get("suite"):
            by_suite[suite] = by_suite.get(suite, 0) + 1
    hand = [mutant for mutant in counted if mutant.by_hand]
    of_conditions = [mutant for mutant in counted if mutant.replaced]
    of_checks = [mutant for mutant in counted if mutant.is_of_clients and not mutant.by_hand]
    unexplained = [mutant for mutant in survivors if not mutant.equivalent]
    commits = list(dict.fromkeys(results[mutant.key]["commit"] for mutant in mutants))
    left_by_hand = sum(mutant.by_hand for mutant in left)
    files_left = ", ".join(sorted({file for mutant in left for file in mutant.texts}))
    what = {
        "handlers": "the functions on a workbench (`functions/*/tests`, `crates/*/tests`, `tests/handlers`)",
        "explorer": f"the explorer, with {RUNS_MAX} runs of each kind (`tests/explorer`)",
        "e2e": "end to end (`tests/e2e`)",
        "units": "the unit tests of `domain`, `wire` and `actions`",
        "authorize": "the authorizer's own tests",
        "core": "the tests of the Rust core",
        "sealing": "the tests of the encryption (`clients/sealing`)",
    }
    lines = [
        "# Mutants",
        "",
        "`just mutants` writes this report. Each mutant is the code with one rule broken. The suites run one after",
        "the other, and a mutant ends at the first test that fails; others might have caught it too.",
        f"What was run stays run until the mutated file changes; these are of commits {', '.join(commits)}.",
        "",
        f"**{len(counted)} mutants: {len(counted) - len(survivors)} caught, {len(survivors)} survive**, "
        + (f"of which {len(unexplained)} unexplained." if unexplained else "each with the reason why below."),
        f"{len(hand)} were made by hand, for the conditions of the store's writes and the functions' rules of order",
        f"(`tests/mutations.toml`), {len(of_conditions)} each drop a clause of a condition,",
        f"{len(of_checks)} each drop a check of the encryption, and",
        f"{len(counted) - len(hand) - len(of_conditions) - len(of_checks)} were made by `cargo mutants` on",
        f"{', '.join(PACKAGES[:-1])} and {PACKAGES[-1]}.",
        f"Another {len(mutants) - len(counted)} of the latter do not compile, and do not count.",
        *([f"**{len(left)} were not run**, {left_by_hand} of them by hand, in {files_left}."] if left else []),
        "",
        "| caught by | mutants |",
        "|---|---|",
        *(f"| {what[suite]} | {by_suite[suite]} |" for suite in what if suite in by_suite),
        "",
        "## Survivors",
        "",
        *(f"- {m.name if m.by_hand else code(m.name)}: {m.equivalent or '**unexplained**'}" for m in survivors),
        "",
        "## By hand",
        "",
        "| mutation | what it breaks | caught by | seconds |",
        "|---|---|---|---|",
        *(f"| {cell(m.name)} | {cell(m.breaks)} | {caught(m)} | {results[m.key]['seconds']} |" for m in hand),
        "",
        "## Dropped clauses",
        "",
        "| condition, and its dropped clause | caught by | seconds |",
        "|---|---|---|",
        *(f"| {code(m.name)} | {caught(m)} | {results[m.key]['seconds']} |" for m in of_conditions),
        "",
        "## Dropped checks, and those by `cargo mutants`",
    ]
    for file in sorted({next(iter(mutant.texts)) for mutant in counted if mutant.texts and not mutant.by_hand}):
        lines += ["", f"### {file}", "", "| mutation | caught by | seconds |", "|---|---|---|"]
        of_file = [mutant for mutant in counted if not mutant.by_hand and file in mutant.texts]
        lines += [f"| {code(m.name.split(': ', 1)[1])} | {caught(m)} | {results[m.key]['seconds']} |" for m in of_file]
    REPORT.write_text("\n".join(lines) + "\n")
    return unexplained


def run(listed, mutants, is_due, copy, results):
    """Runs the mutants of the common build concurrently, since tests wait more than they compute. All run the quick
    suites first, then the survivors run the slow ones. The other mutants run one after another."""

    def of_each(of_mutants, result_of, at_once):
        began = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            runs = {pool.submit(result_of, mutant): mutant for mutant in of_mutants}
            try:
                for n, ended in enumerate(as_completed(runs), 1):
                    mutant, result = runs[ended], ended.result()
                    left = (time.monotonic() - began) / n * (len(runs) - n) / 60
                    expected = " (as explained)" if mutant.equivalent and result["outcome"] == "survived" else ""
                    by = f" by {result['suite']}: {result['by']}" if "by" in result else ""
                    became = f"{result['outcome']}{by}{expected}, {result['seconds']} s"
                    print(f"[{n}/{len(runs)}, {left:.0f} min left] {mutant.name} … {became}", flush=True)
                    yield mutant, result
            finally:
                pool.shutdown(cancel_futures=True)

    def keep(mutant, result):
        results[mutant.key] = {**result, "commit": copy.commit}
        of_now = {mutant.key: results[mutant.key] for mutant in mutants if mutant.key in results}
        RECORD.write_text(json.dumps(of_now, indent=1) + "\n")

    due = [mutant for mutant in mutants if is_due(mutant) and workspace_of(mutant.texts) == copy.workspace]
    together = Together(copy, due)
    together.build()
    together.check()
    known = {mutant.key for mutant in mutants}
    recorded = [mutant for mutant in dropped(listed) if mutant.key not in known] if together.has_conditions else []
    mutants += recorded
    due += [mutant for mutant in recorded if is_due(mutant)]
    left = []
    for mutant, result in of_each(together.mutants, together.run_quick, os.cpu_count()):
        if result["outcome"] == "survived":
            left.append(mutant)
        else:
            keep(mutant, result)
    for mutant, result in of_each(left, together.run_slow, os.cpu_count()):
        keep(mutant, result)
    together.restore()
    done = set(together.mutants)
    for mutant, result in of_each([mutant for mutant in due if mutant not in done], copy.run, 1):
        keep(mutant, result)


def main():
    listed = tomllib.loads(LIST.read_text())
    hand = by_hand(listed)
    if sys.argv[1:] == ["--check"]:
        unchecked(listed)
        return
    pattern = " ".join(sys.argv[1:])
    # `cargo mutants` makes none of the clients.
    only_clients = pattern.startswith("clients/")
    mutants = hand + unchecked(listed) + ([] if only_clients else made(listed) + dropped(listed))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    # Ended by whatever means, it writes the report.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    copy = Copy()
    results = json.loads(RECORD.read_text()) if RECORD.exists() else {}

    def is_due(mutant):
        if pattern:
            return mutant.matches(pattern)
        result = results.get(mutant.key)
        # An unexplained survivor runs again: a new test may catch it.
        return not result or (result["outcome"] == "survived" and not mutant.equivalent)

    due = sum(map(is_due, mutants))
    print(f"{due} mutants to run, {len(mutants) - due} besides.", flush=True)
    try:
        for workspace in WORKSPACES:
            is_here = any(is_due(mutant) and workspace_of(mutant.texts) == workspace for mutant in mutants)
            if is_here or (workspace == "" and not pattern and not CONDITIONS.exists()):
                copy.workspace = workspace
                run(listed, mutants, is_due, copy, results)
    except KeyboardInterrupt:
        print("\nStopped. What was run is kept: run it again to go on.")

    unexplained = report(mutants, results)
    print(f"{REPORT.relative_to(ROOT)} is written.")
    refuted = [m.name for m in mutants if m.equivalent and results.get(m.key, {}).get("outcome") == "caught"]
    stale = set() if only_clients else sentences_of_dropped(listed).keys() - {mutant.name for mutant in mutants}
    if unexplained or refuted or stale:
        listing = [f"survives, and needs a test or a sentence why: {m.name}" for m in unexplained]
        listing += [f"is said to survive, and does not: {name}" for name in refuted]
        fail("\n".join([*listing, *(f"is explained, and no test writes with it: {name}" for name in sorted(stale))]))


if __name__ == "__main__":
    main()
