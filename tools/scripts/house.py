"""Counts what keeps the tree readable, and holds it to the ceilings of tools/house.toml.

Without an argument: prints the counts. `--list PATH…` prints each violation of the voice in these files or folders,
with its line and its rule. `--check` fails if a count is above its ceiling.

A check is narrow where a wide one would report correct English. Text in quotation marks or in code style is not read.
"This", "One" and "Both" count only without a noun behind them.
"""

import argparse
import ast
import functools
import io
import itertools
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

from circles import circles

ROOT = Path(__file__).resolve().parents[2]
CEILINGS = ROOT / "tools/house.toml"
# Files that a tool writes, and versions that tools resolve.
GENERATED = re.compile(
    r"clients/web/src/frames\.ts|clients/server-(node|python)/src/(pigeonhole_server/)?types\.(ts|py)|template\.yaml"
    r"|docs/(contract|images)/.*|docs/api\.md|docs/.*\.csv|events/.*\.json"
    r"|(.*/)?(Cargo\.lock|package-lock\.json)|tools/\w+/[\w-]+\.txt"
)
TESTS = re.compile(
    r"(conformance|tests)/.*|.*/(tests?|browser|conformance)/.*|.*/tests\.rs|.*/timeline/folding\.rs|.*[./]test\.\w+"
)
# The template that a person reads: CloudFormation takes template.yaml, which is written from the files of stack/.
TEMPLATE = re.compile(r"stack/.*\.yaml")
# Its texts for the reader of AWS's console.
TEXT = re.compile(r"^([ -]*)(?:Description|ConstraintDescription|says|output|title|label): (.*)$")
TEXT_IN_BRACES = re.compile(r"\b(?:default|label): \"?([^\",}]+)")
# A question about the kind of a conversation, in what is deployed and in the Rust client. A request finds its kind in
# `actions/src/lib.rs`, which is not counted. Each other place is a step that depends on the kind.
KIND = re.compile(
    r"\.(?:is_direct|is_group|is_channel|has_members)\(\)"
    r"|\b(?:conversation|conversation_id|group|channel|head|id)\.kind\(\)(?: [!=]= ConversationKind::)?"
    r"|[!=]= ConversationKind::"
)
KIND_IN = re.compile(r"(?!crates/actions/src/lib\.rs)(crates|functions|clients/core|clients/rust)/.*/?src/.*\.rs")
# An action that only asks and one that is stored, by the names that code has for them. An action like it takes a change
# of each file that names it: of the product, and of what describes and measures it.
QUESTION = re.compile(
    r"\bReceipts(?:Request|Result|Reply)?\b|[\"'`]receipts[\"'`]|\b(?:mod|fn) receipts\b|^  receipts\(", re.M
)
STORED = re.compile(
    r"\bReact(?:Request|Result|Reply)?\b(?! Native)|[\"'`]react[\"'`]|\b(?:mod|fn) react\b|^  react\(", re.M
)
NAMED_IN = re.compile(r"(crates|functions|clients|tools|stack)/.*|docs/(protocol|clients)\.md|events/.*|template\.yaml")
NOT_NAMED_IN = re.compile(r"tools/scripts/house\.py|.*/examples/.*|.*README\.md|clients/react/.*")

COLUMNS_MAX = 120
CELL_CHARACTERS_MAX = 80
SENTENCE_WORDS_MAX = 25

# The subject of each rule, by its name. The first word of a sentence is matched with its capital letter.
RULES = {
    "subject": "a sentence opens with Who, Whoever, What, Whatever, Whose or Of",
    "long": f"a sentence has more than {SENTENCE_WORDS_MAX} words",
    "passive": "is/are/was/were/be told, asked, rung, answered, taken, brought, passed, … without `by`",
    "opener": "a sentence opens with It, They, or with This, That, These, Those, Both, One, The same without a noun",
    "but-for": "`but for`",
    "vague": "`so many`, `so long`, `so much`, `so often`, `at once`",
    "body": "somebody, anybody, everybody, nobody, one's, oneself",
    "cell": f"a cell of a table has more than {CELL_CHARACTERS_MAX} characters",
    "columns": f"a line of prose has more than {COLUMNS_MAX} columns",
}
BUDGETS = {
    "documents_words": "words of all documents",
    "readme_lines": "lines of README.md",
    "architecture_lines": "lines of ARCHITECTURE.md",
    "template_lines": "lines of the template that a person reads",
    "wide_lines": f"lines of prose over {COLUMNS_MAX} columns",
    "kind_places": "places beside the dispatch that ask for the kind of a conversation",
    "circles": "circles of files",
    "mutation_lines": "lines of tests/mutations.toml",
    "question_files": "files by hand that name a question (`receipts`)",
    "stored_files": "files by hand that name a stored action (`react`)",
    "voice_documents": "violations of the voice in documents",
    "voice_comments": "violations of the voice in comments, and in the texts of the template",
}
LEXICAL = {
    "passive": re.compile(
        r"\b(?:is|are|was|were|be|been|being)"
        r"(?: (?:not|never|then|also|only|already|still|always|again|just|either))?"
        r" (?:told|asked|rung|answered|taken|brought|passed|handed|given|said|heard|spared|thrown|mended)\b"
        r"(?![^.;:]*\bby\b)",
        re.I,
    ),
    "but-for": re.compile(r"\bbut for\b", re.I),
    "vague": re.compile(r"\bso (?:many|long|much|often)\b|\bat once\b", re.I),
    "body": re.compile(r"\b(?:one's|oneself|(?:some|any|every|no)body)\b", re.I),
}
SUBJECT = re.compile(r"(?:Who|Whoever|Whom|Whose|What|Whatever|Of) [a-z]")
PRONOUN = re.compile(r"(?:It|They) [a-z]|It's |They're ")
DETERMINER = re.compile(r"(This|That|These|Those|One|Both|The same) ([a-z]+)")
# Words that can't be the noun of "This …".
NOT_A_NOUN = re.compile(
    r"""a | again | all | also | always | an | and | are | as | at | be | because | before | behind | both | but | by |
    came | can | can't | cannot | comes | costs | could | did | didn't | do | does | doesn't | during | ends | for |
    from | gave | goes | had | hadn't | has | hasn't | have | haven't | here | holds | if | in | into | is | isn't |
    it | just | keep | keeps | left | made | makes | may | means | might | must | needs | never | not | of | on | only
    | or | out | says | so | still | stood | than | that | the | their | them | then | there | they | to | too | took
    | under | was | wasn't | we | went | were | weren't | when | where | which | while | who | whose | why | will |
    with | without | won't | would | you""",
    re.VERBOSE,
)
NOUN_WITH_S = re.compile(r"access|address|alias|analysis|bus|class|process|progress|series|status|success")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|approx|resp|No|Dr|St|p|pp|ca)\.$")
SENTENCE_END = re.compile(r"""(?<=[.!?])["')\]]*\s+(?=["'(\[]*[A-Z0-9])""")
DIRECTIVE = re.compile(r"(?:noqa|type: ignore|ruff:|biome-ignore|@ts-|eslint|prettier|sourceMappingURL|<reference)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", nargs="+", metavar="PATH", help="print each violation in these files or folders")
    parser.add_argument("--check", action="store_true", help="fail if a count is above its ceiling")
    arguments = parser.parse_args()
    if arguments.list:
        return listed(arguments.list)
    counts = voice()
    found = budgets(counts)
    ceilings = tomllib.loads(CEILINGS.read_text())
    if arguments.check:
        return checked(found, ceilings)
    print_voice(counts)
    print_rooms()
    print_circles()
    print("\nBudgets, and their ceilings of tools/house.toml:")
    for name, what in BUDGETS.items():
        print(f"  {found[name]:6,} of {ceilings[name]:6,}  {what}")
    return None


def listed(paths):
    wanted = [str(Path(path).resolve().relative_to(ROOT)) for path in paths]
    for file in tracked():
        if any(path in {file, "."} or file.startswith(f"{path}/") for path in wanted):
            for line, rule, text in sorted(violations(file)):
                print(f"{file}:{line}: {rule}: {text}")


def checked(found, ceilings):
    wrong = [
        f"{found[name]:,} {what}, and the ceiling is {ceilings[name]:,}"
        for name, what in BUDGETS.items()
        if found[name] > ceilings[name]
    ]
    if wrong:
        remedy = "`just house` counts by file, and `python3 tools/scripts/house.py --list PATH` shows each violation."
        sys.exit("\n".join([*wrong, remedy, "A commit that raises a ceiling of tools/house.toml says why."]))


def print_voice(counts):
    for kind, files in counts.items():
        rules = sum(files.values(), Counter())
        print(f"\n{kind}: {rules.total()} violations of the voice")
        for rule, what in RULES.items():
            if rules[rule]:
                print(f"  {rules[rule]:5}  {rule:8} {what}")
        for file, found in sorted(files.items(), key=lambda item: -item[1].total()):
            if found:
                details = ", ".join(f"{rule} {count}" for rule, count in found.most_common())
                print(f"  {found.total():5}  {file}: {details}")


def print_rooms():
    columns = ["product", "tests", "generated", "docs"]
    rooms = {}
    for file in tracked():
        room = file.partition("/")[0] if "/" in file else "(root)"
        rooms.setdefault(room, Counter())[column_of(file)] += lines_of(file)
    rooms["all"] = sum(rooms.values(), Counter())
    print(f"\n{'lines by room':13}" + "".join(f"{column:>11}" for column in columns))
    for room, lines in rooms.items():
        print(f"{room:13}" + "".join(f"{lines[column]:11,}" for column in columns))


def column_of(file):
    if GENERATED.fullmatch(file):
        return "generated"
    if file.endswith(".md"):
        return "docs"
    return "tests" if TESTS.fullmatch(file) else "product"


def print_circles():
    print("\nCircles of files:")
    for circle in circles(tracked(), read):
        folder = os.path.commonpath(circle)
        print(f"  {len(circle):2}  {folder}: {', '.join(os.path.relpath(file, folder) for file in circle)}")


def budgets(counts):
    documents = [file for file in tracked() if file.endswith(".md") and not GENERATED.fullmatch(file)]
    totals = {kind: sum(files.values(), Counter()) for kind, files in counts.items()}
    template = [file for file in tracked() if TEMPLATE.fullmatch(file)] or ["template.yaml"]
    return {
        "documents_words": sum(len(read(file).split()) for file in documents),
        "readme_lines": lines_of("README.md"),
        "architecture_lines": lines_of("ARCHITECTURE.md"),
        "template_lines": sum(lines_of(file) for file in template),
        "wide_lines": totals["documents"]["columns"],
        "kind_places": sum(len(KIND.findall(code(file))) for file in tracked() if KIND_IN.fullmatch(file)),
        "circles": len(circles(tracked(), read)),
        "mutation_lines": lines_of("tests/mutations.toml"),
        "question_files": named_by_hand(QUESTION),
        "stored_files": named_by_hand(STORED),
        "voice_documents": totals["documents"].total(),
        "voice_comments": totals["comments"].total(),
    }


def named_by_hand(action):
    """Tests are not counted: how many an action needs is its own affair."""
    files = [file for file in tracked() if NAMED_IN.fullmatch(file) and not NOT_NAMED_IN.fullmatch(file)]
    return sum(column_of(file) in {"product", "docs"} and bool(action.search(code(file))) for file in files)


def code(file):
    """The text without comments and, of Rust, without the tests in it."""
    text = read(file)
    if not file.endswith((".rs", ".ts")):
        return text
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", re.sub(r"//[^\n]*", "", text))[0]


def voice():
    """The violations of each rule, by kind of text and file."""
    counts = {"documents": {}, "comments": {}}
    for file in tracked():
        if kind := kind_of(file):
            counts[kind][file] = Counter(rule for _, rule, _ in violations(file))
    return counts


def kind_of(file):
    if file.endswith(".md"):
        return "documents"
    return "comments" if reader_of(file) and not GENERATED.fullmatch(file) else None


def violations(file):
    """Line, rule and text of each."""
    kind = kind_of(file)
    if kind is None:
        return
    text = read(file)
    if kind == "documents":
        yield from of_markdown([(number, line) for number, line in enumerate(text.splitlines(), 1)], is_page=True)
    else:
        for block in blocks(reader_of(file)(text)):
            yield from of_markdown(block, is_page=False)
    if TEMPLATE.fullmatch(file):
        for block in texts_of_template(text):
            yield from of_markdown(block, is_page=False)


# Markdown


def of_markdown(lines, is_page):
    """Violations of a page or of a comment, given as lines with their numbers."""
    paragraph = []
    fence = None
    is_in_list = False
    for number, line in [*lines, (0, "")]:
        bare = re.sub(r"^[ \t>]*", "", line).rstrip()
        marker = re.match(r"(```+|~~~+)", bare)
        if fence or marker:
            if marker and (fence is None or (bare.startswith(fence) and bare.strip("`~") == "")):
                fence = None if fence else marker[1]
            yield from of_paragraph(paragraph)
            paragraph = []
            continue
        item = re.match(r"(?:[-*+]|\d+[.)])\s+", bare)
        is_in_list = bool(item) or (is_in_list and line[:1] in {" ", ""})
        if is_page and line.startswith("    ") and not paragraph and not is_in_list:
            continue
        is_row, is_heading = bare.startswith("|"), bare.startswith("#") and is_page
        if not bare or item or is_row or is_heading or bare.startswith(("<", "![")):
            yield from of_paragraph(paragraph)
            paragraph = []
        if is_row:
            yield from of_row(number, bare)
        elif bare and not is_heading:
            paragraph.append((number, bare[item.end() :] if item else bare))
        if is_page and len(line) > COLUMNS_MAX and not is_row and " " in bare[: COLUMNS_MAX - 20]:
            yield number, "columns", f"{len(line)} columns"


def of_row(number, row):
    if re.fullmatch(r"[|\s:-]+", row):
        return
    for cell in re.split(r"(?<!\\)\|", row.strip("|")):
        shown = without_links(cell).strip()
        if len(shown) > CELL_CHARACTERS_MAX:
            yield number, "cell", f"{len(shown)} characters: {shown[:60]}…"
        yield from of_sentences([(number, cell.strip())], with_length=False)


def of_paragraph(paragraph):
    yield from of_sentences(paragraph, with_length=True)


def of_sentences(lines, with_length):
    if not lines:
        return
    text, starts = "", []
    for number, line in lines:
        starts.append((len(text), number))
        text += line + " "
    # Same length, so that a place in the text is one in the lines.
    for start, sentence in sentences(blanked(text)):
        number = next(number for place, number in reversed(starts) if place <= start)
        shown = " ".join(text[start : start + len(sentence)].split())
        if SUBJECT.match(sentence) and not sentence.rstrip(" *)").endswith("?"):
            yield number, "subject", shown[:90]
        if opens_without_noun(sentence):
            yield number, "opener", shown[:90]
        if with_length and (count := words(sentence)) > SENTENCE_WORDS_MAX:
            yield number, "long", f"{count} words: {shown[:90]}"
        for rule, pattern in LEXICAL.items():
            for match in pattern.finditer(re.sub(r"\s", " ", sentence)):
                place = start + match.start()
                line = next(number for begin, number in reversed(starts) if begin <= place)
                yield line, rule, text[max(0, place - 30) : place + len(match[0]) + 30].strip()


def sentences(text):
    """Each sentence with the place where it begins."""
    start = 0
    for end in [*SENTENCE_END.finditer(text), None]:
        stop = end.start() if end else len(text)
        if end and ABBREVIATION.search(text[:stop]):
            continue
        sentence = text[start:stop]
        indent = len(sentence) - len(sentence.lstrip(" \"'(["))
        if sentence.strip():
            yield start + indent, sentence[indent:]
        start = end.end() if end else stop


def blanked(text):
    """The text with code, quotations, targets of links and emphasis made neutral, at the same length."""
    text = re.sub(r"(`+)(?:(?!\1).)+?\1", lambda code: "X" + "x" * (len(code[0]) - 1), text)
    text = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", lambda link: padded(link[1], link[0]), text)
    text = re.sub(r"<?https?://[^\s>)]+>?", lambda url: "X" + "x" * (len(url[0]) - 1), text)
    text = re.sub(r'"[^"]{1,200}"|“[^”]{1,200}”', lambda quote: re.sub(r"[A-Za-z]", "x", quote[0]), text)
    text = re.sub(r"<[^>\s][^>]*>", lambda tag: " " * len(tag[0]), text)
    return re.sub(r"\*+|(?<!\w)_|_(?!\w)", lambda marks: " " * len(marks[0]), text)


def padded(inner, whole):
    return " " + inner + " " * (len(whole) - len(inner) - 1)


def without_links(text):
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def opens_without_noun(sentence):
    if PRONOUN.match(sentence):
        return True
    match = DETERMINER.match(sentence)
    if not match:
        return False
    first, second = match.groups()
    if NOT_A_NOUN.fullmatch(second) or second.endswith("ed"):
        return True
    singular = first in {"This", "That", "One"}
    is_verb = second.endswith("s") and not second.endswith("ss") and not NOUN_WITH_S.fullmatch(second)
    return singular and is_verb


def words(sentence):
    # Names in a row, "`a`, `b` and `c`", are read as one word; so is each part of a list behind a colon.
    sentence = re.sub(r"\bXx+\b(?:(?:, | and | or |, and |, or |/)Xx+\b)+", "X", sentence)
    head, _, tail = sentence.partition(":")
    parts = [head, *tail.split(";")] if ";" in tail else [sentence]
    return max(len(re.findall(r"[\w'.,/-]*\w[\w'/-]*", part)) for part in parts)


# Comments


def reader_of(file):
    ending = file.rsplit(".", 1)[-1]
    if ending in {"rs", "ts", "js", "mjs", "kt", "swift", "dart"}:
        return slash_comments
    if ending == "py":
        return python_comments
    return hash_comments if ending in {"yaml", "toml"} or file == "justfile" else None


def slash_comments(text):
    """Line, column, style and text of each line of a comment."""
    string = r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|\'(?:\\.[^\'\n]*|[^\'\\\n]*)\''
    # A lifetime of Rust is no string, and a regular expression of TypeScript can hold quotation marks.
    character = r"(?<![\w)])/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/[a-z]*|'[a-z_]\w*(?!')"
    for match in re.finditer(rf"(?s){character}|{string}|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)", text):
        number = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        if match["line"]:
            style = re.match(r"//[/!]?", match["line"])[0]
            yield number, column, style, match["line"][len(style) :]
        elif match["block"]:
            for offset, line in enumerate(match["block"][2:-2].splitlines()):
                yield number + offset, column, f"/*{match.start()}", re.sub(r"^\s*\*+", "", line)


def hash_comments(text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"(\s*)(?:@?#+)(?!!)(.*)", line):
            yield number, len(match[1]), "#", match[2]


def texts_of_template(text):
    """Each text as a list of lines with their numbers. A line that is indented further continues it."""
    lines = list(enumerate(text.splitlines(), 1))
    for index, (number, line) in enumerate(lines):
        if match := TEXT.match(line):
            deeper = " " * (len(match[1]) + 1)
            rest = itertools.takewhile(lambda line, deeper=deeper: line[1].startswith(deeper), lines[index + 1 :])
            yield [(number, match[2].strip('"')), *rest]
        elif match := TEXT_IN_BRACES.search(line):
            yield [(number, match[1])]


def python_comments(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield *token.start, "#", token.string.lstrip("#")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            first = node.body[0].value
            for offset, line in enumerate(first.value.splitlines()):
                yield first.lineno + offset, 0, f"doc{first.lineno}", line


def blocks(comments):
    """Comments as lists of lines with their numbers: what is written below each other, in one style, is one text."""
    block, last = [], None
    for number, column, style, line in sorted(comments, key=lambda comment: (comment[2], comment[0])):
        if block and (number, column, style) != (last[0] + 1, *last[1:]):
            yield block
            block = []
        last = (number, column, style)
        block.append((number, "" if DIRECTIVE.search(line) else line))
    if block:
        yield block


@functools.cache
def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [file for file in listed.splitlines() if (ROOT / file).is_file()]


@functools.cache
def read(file):
    return (ROOT / file).read_text(errors="replace")


def lines_of(file):
    return len(read(file).splitlines())


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
