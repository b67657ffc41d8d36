"""Puts the pinned tools that the checks need into .venv: about a minute. Does nothing where they are there already."""

import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
# MiniStack wants another botocore than aws-sam-cli does, so it has an environment of its own. `just pins` makes each
# file of the one beside it that ends in `.in`, with the hash of every package.
ENVIRONMENTS = {VENV: "tools/scripts/requirements.txt", VENV / "ministack": "tools/ministack/requirements.txt"}
# What is installed: the requirements as they were at the end of the last run.
STAMP = VENV / ".installed"


def main():
    wanted = "".join((ROOT / file).read_text() for file in ENVIRONMENTS.values())
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    if missing := [what for what, found in needs().items() if not found]:
        sys.exit(f"To install the tools, first install {', '.join(missing)}.")
    print("Installing the tools into .venv", flush=True)
    STAMP.unlink(missing_ok=True)
    for folder, requirements in ENVIRONMENTS.items():
        if not (folder / "bin/pip").exists():
            venv.create(folder, clear=True, with_pip=True)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # All that is needed is in the file. Looking for it again, pip would not know a package with extras.
        subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", ROOT / requirements], check=True)
    STAMP.write_text(wanted)


def needs():
    """What must be there before, and whether it is."""
    return {
        "Python 3.11 or later": sys.version_info >= (3, 11),
        # Debian has it in a package of its own.
        "Python's venv (on Debian: python3-venv)": importlib.util.find_spec("ensurepip"),
        "the Rust toolchain (https://rustup.rs)": shutil.which("cargo"),
        "a C compiler": shutil.which("cc"),
    }


if __name__ == "__main__":
    main()
