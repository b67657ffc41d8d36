"""The licences of everything that is linked into a program or a library, which its package must contain.

The gate checks that they are allowed (.cargo/deny.toml).
"""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def notices(package, others=(), workspace=ROOT, target=()):
    """Returns the text for a package of the workspace. `others`: name, version, licence and source of libraries that
    are not Rust's. `target`: Cargo's words for another platform than this machine's."""
    tree = ["tree", "--locked", "--package", package, "--edges", "normal,no-proc-macro", "--prefix", "none", *target]
    linked = {tuple(line.split()[:2]) for line in cargo(workspace, *tree, "--format", "{p}").splitlines()}
    texts = []
    packages = json.loads(cargo(workspace, "metadata", "--locked", "--format-version", "1"))["packages"]
    for crate in sorted(packages, key=lambda crate: crate["name"]):
        name, version = crate["name"], crate["version"]
        if crate["source"] is None or (name, f"v{version}") not in linked:
            continue
        texts.append(notice(f"{name} {version}", crate["license"], f"https://crates.io/crates/{name}/{version}"))
        folder = Path(crate["manifest_path"]).parent
        # Apache's text is our own licence. Mozilla's asks for the place of the source alone.
        files = [file for file in sorted(folder.glob("[CLNU]*")) if re.match(r"COPY|LICEN|NOTICE|UNLIC", file.name)]
        texts += [file.read_text("utf-8") for file in files if file.is_file() and "APACHE" not in file.name.upper()]
    texts.append(notice("The standard library of Rust", "MIT OR Apache-2.0", "https://github.com/rust-lang/rust"))
    if any(name == "libsqlite3-sys" for name, _ in linked):
        texts.append("SQLite\nPublic domain\nSource: https://sqlite.org\n")
    texts += [notice(f"{name} {version}", licence, source) for name, version, licence, source in others]
    return f"\n{'-' * 80}\n".join(texts)


def notice(what, licence, source):
    return f"{what}\nLicence: {licence}\nSource: {source}\n"


def cargo(workspace, *words):
    return subprocess.run(["cargo", *words], cwd=workspace, check=True, text=True, stdout=subprocess.PIPE).stdout
