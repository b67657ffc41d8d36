"""Parses the sample in Dart, whose compiler no package registry has.

Installs the parser into .venv.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "clients" / "samples" / "dart" / "pigeonhole.dart"
# `just pins` writes this file, with the hash of every package.
PARSERS = ROOT / "tools" / "scripts" / "samples.txt"

PARSE = """
import sys, tree_sitter, tree_sitter_dart
parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_dart.language()))
waiting, wrong = [parser.parse(open(sys.argv[1], "rb").read()).root_node], []
while waiting:
    node = waiting.pop()
    waiting.extend(node.children)
    if node.is_error or node.is_missing:
        wrong.append(f"{sys.argv[1]}:{node.start_point.row + 1}: unexpected {node.type}")
sys.exit("\\n".join(sorted(wrong)) or None)
"""


def main():
    folder = ROOT / ".venv" / "parsers"
    if not (folder / "bin" / "pip").exists():
        venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", PARSERS], check=True)
    if subprocess.run([python, "-c", PARSE, SAMPLE], check=False).returncode:
        sys.exit("The sample in Dart is no Dart")
    print("ok Dart: parsed. Not compiled: no package registry has a compiler")


if __name__ == "__main__":
    main()
