"""Proves that the tests bite: breaks one rule of the code at a time, and sees which test fails.

    mutants.py [PATTERN]   runs every mutant, or those whose name or file contains PATTERN, and writes docs/mutants.md
    mutants.py --check     only looks whether every mutation of tests/mutations.toml still fits the code

The mutants are those of tests/mutations.toml, and those that `cargo mutants` makes of the store and the functions. They
are built in a copy of the tree with a target folder of its own, most of them together (switched.py), and each ends at
the first test that fails. All of them take hours, so docs/mutants.json keeps what became of each until the mutated file
changes: stop it when you like, start it again, here or on another machine, and it goes on from there. Without that file
it begins anew.
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
from pathlib import Path

from switched import NUMBER, Switched

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/mutations.toml"
REPORT = ROOT / "docs/mutants.md"
RECORD = ROOT / "docs/mutants.json"
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
    "notify",
    "group",
    "fanout",
    "ingest",
    "queue",
    "media",
    "objects",
    "push",
    "admin",
    "authorize",
]

# Those whose rules have unit tests, by their folders.
UNITS = {
    "domain": "crates/domain/",
    "pigeonhole-wire": "crates/wire/",
    "actions": "crates/actions/",
    "lambda": "crates/lambda/",
}

# The tests of the functions and of what they are made of, and those that need several of them.
HANDLERS = ["handlers", *(path.stem for room in ("crates", "functions") for path in ROOT.glob(f"{room}/*/tests/*.rs"))]
HANDLERS = sorted(set(HANDLERS) - {"authorize"})


def handlers(tests):
    # Those that are left out build the functions' binaries, to see that each is in the template and how it starts.
    skipped = ["--skip=every_function_is_deployed", "--skip=starting::"]
    return ["--workspace", *(f"--test={test}" for test in tests)], skipped, 100


# By name: what Cargo is to build, the arguments of the tests, and after how many seconds they are taken to hang. All
# with the features of the whole workspace, so that nothing is built twice.
SUITES = {
    "units": ([*(f"--package={name}" for name in UNITS), "--lib"], [], 100),
    "authorize": (["--workspace", "--test", "authorize"], [], 200),
    "handlers": handlers(HANDLERS),
    "explorer": (["--workspace", "--test", "explorer"], ["--nocapture"], 300),
    "e2e": (["--workspace", "--test", "e2e"], [], 300),
}
# Those that take a minute and more.
SLOW = ["explorer", "e2e"]
# A part of what `cargo test` goes through, from its beginning: what this catches, that catches.
RUNS_MAX = "10"
STACK = 64 * 1024 * 1024


def suites_of(files):
    """Those that know the files, the quickest first."""
    if any(file.startswith("functions/authorize/") for file in files):
        return ["authorize"]
    # Which only reads: no order of its calls makes a difference.
    if any(file.startswith("functions/inbox/") for file in files):
        return ["handlers", "e2e"]
    units = ["units"] if any(file.startswith(tuple(UNITS.values())) for file in files) else []
    return [*units, "handlers", "explorer", "e2e"]


class Mutant:
    """A name, what it breaks if it was made by hand, its edits, each a file, from where to where, and what is there
    instead; and, for one that no test can catch, why not."""

    def __init__(self, name, breaks, edits, equivalent):
        self.name, self.breaks, self.edits, self.equivalent = name, breaks, edits, equivalent
        self.texts = {}
        for file, start, end, replacement in sorted(edits, reverse=True):
            text = self.texts.get(file) or source(file)
            self.texts[file] = text[:start] + replacement + text[end:]
        self.key = hashlib.sha256(json.dumps([name, self.texts], sort_keys=True).encode()).hexdigest()[:16]

    @property
    def by_hand(self):
        return bool(self.breaks)

    def matches(self, pattern):
        return any(pattern.lower() in text.lower() for text in [self.name, *self.texts])


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
    """What `cargo mutants` would do, without line numbers, so that a sentence about one survives an edit above it."""
    packages = [f"--package={name}" for name in PACKAGES]
    command = ["cargo", "mutants", "--list", "--json", "--exclude", "main.rs", *packages]
    entries = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    entries.sort(key=lambda entry: PACKAGES.index(entry["package"]))
    sentences = {entry["name"]: entry["equivalent"] for entry in listed.get("generated", [])}
    mutants = []
    for entry in entries:
        file, span = entry["file"], entry["span"]
        start, end = (offset(source(file), span[end]) for end in ("start", "end"))
        name = f"{file}: {entry['name'].split(': ', 1)[1]}"
        mutants.append(Mutant(name, "", [(file, start, end, entry["replacement"])], sentences.pop(name, None)))
    if sentences:
        fail(f"{LIST.relative_to(ROOT)} explains mutants that are no longer made:\n" + "\n".join(sentences))
    return mutants


def offset(text, at):
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: at["line"] - 1])) + at["column"] - 1


class Copy:
    """The tree, where it may be broken."""

    def __init__(self):
        metadata = subprocess.run(
            ["cargo", "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, check=True, capture_output=True
        )
        self.work = Path(json.loads(metadata.stdout)["target_directory"]) / "mutants"
        self.tree = self.work / "tree"
        self.commit = commit()
        self.env = dict(
            os.environ,
            CARGO_TARGET_DIR=str(self.work / "build"),
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
            if not file.endswith(".md") and ROOT / file != RECORD:
                self.state.update(file.encode() + b"\0" + content)
            self.write(file, content)

    def write(self, file, content):
        path = self.tree / file
        # What is as it was keeps its time, by which Cargo knows that it need not be built again.
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def restore(self, files):
        for file in files:
            self.write(file, (ROOT / file).read_bytes())

    def near(self, files):
        """Of the functions' tests those that caught the last mutants of the files, and those of the files' crates: most
        often they are enough."""
        caught = [test for file in files for test in self.caught.get(file, [])]
        of_crates = [path.stem for file in files for path in ROOT.glob("/".join(file.split("/")[:2]) + "/tests/*.rs")]
        return list(dict.fromkeys(test for test in [*caught, *of_crates] if test in HANDLERS))

    def note(self, mutant, outcome, started):
        if test := outcome.pop("of", None):
            for file in mutant.texts:
                self.caught[file] = [test, *(other for other in self.caught.get(file, []) if other != test)]
        return {**outcome, "seconds": round(time.monotonic() - started)}

    def run(self, mutant):
        """What came of it: caught by which test, or survived, or did not compile. Few tests first: few are built."""
        suites = [(name, SUITES[name]) for name in suites_of(mutant.texts)]
        if near := self.near(mutant.texts):
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

    def caught_by(self, suite, tests, number=0):
        _, arguments, patience = SUITES[suite]
        env = {**self.env, NUMBER: str(number)}
        for test, executable, folder in tests:
            if failed := first_failed(suite, [executable, *arguments], folder, env, patience):
                return {"outcome": "caught", "suite": suite, "by": failed, "of": test}
        return None

    def build(self, targets):
        """The tests' names, their executables, and the folder that each runs in; and what the compiler's errors are."""
        said, errors = self.compile(["test", "--no-run", *targets])
        tests = [
            (artifact["target"]["name"], artifact["executable"], Path(artifact["manifest_path"]).parent)
            for artifact in said
            if artifact.get("executable") and artifact["profile"]["test"]
        ]
        return tests if tests or errors else fail(f"cargo test {' '.join(targets)} builds no tests"), errors

    def compile(self, arguments):
        """What Cargo says, and which of that are the compiler's errors."""
        command = ["cargo", arguments[0], "--locked", "--message-format=json", *arguments[1:]]
        built = subprocess.run(command, cwd=self.tree, env=self.env, capture_output=True, text=True, check=False)
        said = [json.loads(line) for line in built.stdout.splitlines()]
        errors = [line["message"] for line in said if line.get("message", {}).get("level") == "error"]
        # A compiler that was killed says nothing about the mutant.
        if built.returncode != 0 and (not errors or "(signal: " in built.stderr):
            fail(built.stderr)
        return said, errors


class Together:
    """The mutants that fit into one build, and the tests of that."""

    def __init__(self, copy, mutants):
        self.copy = copy
        self.switched = Switched(ROOT, mutants)
        self.files, self.tests = set(), {}

    @property
    def mutants(self):
        return self.switched.numbers

    def build(self):
        """What does not compile is left out, crate by crate."""
        while True:
            texts, lines = self.switched.texts()
            self.copy.restore(self.files - set(texts))
            self.files |= set(texts)
            for file, text in texts.items():
                self.copy.write(file, text.encode())
            print(f"{len(self.mutants)} mutants in one build …", flush=True)
            # Which takes a part of the time of a build.
            _, errors = self.copy.compile(["check", "--workspace", "--lib", "--keep-going"])
            if not errors:
                break
            if not self.switched.drop(errors, lines):
                fail("\n".join(error["rendered"] for error in errors))
        for name, (targets, _, _) in SUITES.items():
            self.tests[name], errors = self.copy.build(targets)
            if errors:
                fail("\n".join(error["rendered"] for error in errors))

    def check(self):
        """The tests pass without any of them."""
        sound = self.copy.work / "sound"
        if (sound.read_text() if sound.exists() else "") == self.copy.state.hexdigest():
            return
        print("First, the tests as they are, which must pass …", flush=True)
        as_it_is = self.first_failure([], SUITES, 0)
        if as_it_is["outcome"] != "survived":
            fail(f"the tests fail without any mutation: {as_it_is}")
        sound.write_text(self.copy.state.hexdigest())

    def restore(self):
        self.copy.restore(self.files)

    def run_quick(self, mutant):
        return self.run(mutant, [name for name in suites_of(mutant.texts) if name not in SLOW])

    def run_slow(self, mutant):
        return self.run(mutant, [name for name in suites_of(mutant.texts) if name in SLOW])

    def run(self, mutant, names):
        started = time.monotonic()
        return self.copy.note(mutant, self.first_failure(mutant.texts, names, self.mutants[mutant]), started)

    def first_failure(self, files, names, number):
        near = self.copy.near(files)
        for name in names:
            tests = sorted(self.tests[name], key=lambda test: near.index(test[0]) if test[0] in near else len(near))
            if caught := self.copy.caught_by(name, tests, number):
                return caught
        return {"outcome": "survived"}


def first_failed(suite, command, folder, env, patience):
    """Runs tests until the first that fails, and says which."""
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    tests = subprocess.Popen(command, cwd=folder, env=env, start_new_session=True, **said)
    hung = threading.Timer(patience, lambda: os.killpg(tests.pid, signal.SIGKILL))
    hung.start()
    try:
        said = iter(tests.stdout)
        for line in said:
            if failed := re.match(r"test (\S+) \.\.\. FAILED", line):
                return f"`{failed[1]}`"
            # What runs in no test's own time. The explorer's all in one does.
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
    """The explorer's panic: the schedule, its story, and what does not hold."""
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
    }
    lines = [
        "# Mutants",
        "",
        "Made by `just mutants`: do not edit. Each mutant is the code with one rule broken. The suites run one after",
        "the other, and a mutant ends at the first test that fails; others might have caught it too.",
        f"What was run stays run until the mutated file changes; these are of commits {', '.join(commits)}.",
        "",
        f"**{len(counted)} mutants: {len(counted) - len(survivors)} caught, {len(survivors)} survive**, "
        + (f"of which {len(unexplained)} unexplained." if unexplained else "each with the reason why below."),
        f"{len(hand)} were made by hand, for the conditions of the store's writes and the functions' rules of order",
        f"(`tests/mutations.toml`), {len(counted) - len(hand)} by `cargo mutants` on",
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
        "## By `cargo mutants`",
    ]
    for file in sorted({next(iter(mutant.texts)) for mutant in counted if not mutant.by_hand}):
        lines += ["", f"### {file}", "", "| mutation | caught by | seconds |", "|---|---|---|"]
        of_file = [mutant for mutant in counted if not mutant.by_hand and file in mutant.texts]
        lines += [f"| {code(m.name.split(': ', 1)[1])} | {caught(m)} | {results[m.key]['seconds']} |" for m in of_file]
    REPORT.write_text("\n".join(lines) + "\n")
    return unexplained


def run(mutants, due, copy, results):
    """First those of one build, several at once, since tests wait more than they compute: all of them with what is
    quick, which takes seconds, then what is left with the rest, which takes minutes. Then one after another. By hand
    before made."""

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

    together = Together(copy, due)
    together.build()
    together.check()
    left = []
    for mutant, result in of_each(together.mutants, together.run_quick, os.cpu_count()):
        if result["outcome"] == "survived":
            left.append(mutant)
        else:
            keep(mutant, result)
    for mutant, result in of_each(left, together.run_slow, os.cpu_count()):
        keep(mutant, result)
    together.restore()
    for mutant, result in of_each([mutant for mutant in due if mutant not in together.mutants], copy.run, 1):
        keep(mutant, result)


def main():
    listed = tomllib.loads(LIST.read_text())
    hand = by_hand(listed)
    if sys.argv[1:] == ["--check"]:
        return
    mutants = hand + made(listed)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    # Ended by whatever means, it writes the report.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pattern = " ".join(sys.argv[1:])
    copy = Copy()
    results = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    # What survives unexplained runs again: there may be a test for it by now.
    settled = {m.key for m in mutants if m.key in results and (m.equivalent or results[m.key]["outcome"] != "survived")}
    due = [m for m in mutants if (m.matches(pattern) if pattern else m.key not in settled)]
    print(f"{len(due)} mutants to run, {len(mutants) - len(due)} besides.", flush=True)
    try:
        if due:
            run(mutants, due, copy, results)
    except KeyboardInterrupt:
        print("\nStopped. What was run is kept: run it again to go on.")

    unexplained = report(mutants, results)
    print(f"{REPORT.relative_to(ROOT)} is written.")
    refuted = [m.name for m in mutants if m.equivalent and results.get(m.key, {}).get("outcome") == "caught"]
    if unexplained or refuted:
        listing = [f"survives, and needs a test or a sentence why: {m.name}" for m in unexplained]
        fail("\n".join([*listing, *(f"is said to survive, and does not: {name}" for name in refuted)]))


if __name__ == "__main__":
    main()
