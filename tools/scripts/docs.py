"""Builds the documentation site of every Markdown file in the tree, with search, into target/docs/site.

A link to a missing page, heading or file ends the build. Zensical takes pages from one folder, so this script copies
them, and the files that they link to, into target/docs/pages.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rooms import files

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target/docs"
ZENSICAL = ROOT / ".venv/docs/bin/zensical"
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(?ms)^```.*?^```|``.*?``|`[^`\n]*`")
# A browser shows these as they are, and everything else as text.
SHOWN = {".png", ".svg"}


def main():
    shutil.rmtree(BUILT, ignore_errors=True)
    pages = files(".md")
    missing = [complaint for page in pages for complaint in copied(page, set(pages))]
    if missing:
        sys.exit("\n".join(missing))
    shutil.copy(ROOT / "docs/zensical.toml", BUILT)
    if subprocess.run([ZENSICAL, "build", "--strict"], cwd=BUILT, check=False).returncode != 0:
        sys.exit("a link or an anchor is broken, or Zensical failed: see above")
    print(f"The site is {BUILT.relative_to(ROOT)}/site/index.html. `cargo run` serves it at /docs/.")


def copied(page, pages):
    """Copies a page, and yields each link to a file that does not exist."""
    text, missing = (ROOT / page).read_text(), []
    in_code = [range(*match.span()) for match in CODE.finditer(text)]

    def relinked(link):
        label, target, anchor = link[1], link[2], link[3] or ""
        if ":" in target or any(link.start() in code for code in in_code):
            return link[0]
        name = os.path.relpath((ROOT / page).parent / target, ROOT)
        if (ROOT / name).is_dir() and f"{name}/README.md" in pages:
            return f"{label}({target.rstrip('/')}/README.md{anchor})"
        if (ROOT / name).is_dir():
            return label[1:-1]
        if not (ROOT / name).is_file():
            missing.append(f"{page}: {target} does not exist")
        elif name not in pages:
            ending = "" if Path(name).suffix in SHOWN else ".txt"
            placed(BUILT / "pages" / f"{name}{ending}", (ROOT / name).read_bytes())
            return f"{label}({target}{ending})"
        return link[0]

    # Rust's attributes of a code block, "rust,no_run", are no language to Zensical.
    text = re.sub(r"(?m)^```(\w+),\w+$", r"```\1", LINK.sub(relinked, text))
    placed(BUILT / "pages" / page, text.encode())
    return missing


def placed(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


if __name__ == "__main__":
    main()
