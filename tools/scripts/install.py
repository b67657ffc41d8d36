"""Installs the pinned tools that the checks need into .venv, which takes about a minute.

With `aws` or `docs`, installs only the tools that query a stack, or that build the documentation, in seconds. Tools
that are installed already are left alone.
"""

import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
# MiniStack needs another botocore than aws-sam-cli does, so it has an environment of its own. `just pins` writes each
# file from the `.in` file of the same name, with the hash of every package.
TOOLS = {VENV: "tools/scripts/requirements.txt", VENV / "ministack": "tools/ministack/requirements.txt"}
# Each has an environment of its own, and few users.
SEPARATE = {"aws": "tools/scripts/aws.txt", "docs": "tools/scripts/docs.txt"}


def main():
    name = next(iter(sys.argv[1:]), None)
    environments = {VENV / name: SEPARATE[name]} if name else TOOLS
    # The installed tools: the requirements as they were at the end of the last run.
    stamp = VENV / (f".installed-{name}" if name else ".installed")
    wanted = "".join((ROOT / file).read_text() for file in environments.values())
    if stamp.exists() and stamp.read_text() == wanted:
        return
    needed = needs() if name else needs() | needs_to_build()
    if missing := [what for what, found in needed.items() if not found]:
        sys.exit(f"To install the tools, first install {', '.join(missing)}.")
    print(f"Installing tools into .venv/{name}" if name else "Installing the tools into .venv", flush=True)
    stamp.unlink(missing_ok=True)
    for folder, requirements in environments.items():
        if not (folder / "bin/pip").exists():
            venv.create(folder, clear=True, with_pip=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # All that is needed is in the file. Looking for it again, pip would not know a package with extras.
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", ROOT / requirements], check=True)
    stamp.write_text(wanted)


def needs():
    """Each prerequisite, and whether it is there."""
    return {
        "Python 3.11 or later": sys.version_info >= (3, 11),
        # Debian has it in a package of its own.
        "Python's venv (on Debian: python3-venv)": importlib.util.find_spec("ensurepip"),
    }


def needs_to_build():
    return {
        "the Rust toolchain (https://rustup.rs)": shutil.which("cargo"),
        "a C compiler": shutil.which("cc"),
    }


if __name__ == "__main__":
    main()
