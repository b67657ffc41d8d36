"""Follows the quickstart of pages in an empty folder, as a reader does: `quickstart.py PAGE…`.

The script takes the blocks of the section "Quickstart" in their order. A block of `sh` is run. Any other block is
written to the file that the line above it names last. The packages are those of `just pack`. The server is the one that
`cargo run` starts, or one that runs already. Maven begins with an empty repository, as on a new machine.

The script prints each command with its output and its time, and fails above 5 minutes.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
from http import HTTPStatus
from pathlib import Path

from local_server import OPENER, URL

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "target/debug/pigeonhole"
SECONDS_MAX = 5 * 60
SECTION = re.compile(r"(?ms)^## Quickstart$(.*?)(?=^## |\Z)")
BLOCK = re.compile(r"(?ms)^([^\n]*)\n\n```(\w+)\n(.*?)^```$")
NAME = re.compile(r"`([^`]+)`:$")


def main():
    with served():
        for page in sys.argv[1:] or sys.exit("name pages that have a section `Quickstart`"):
            print(f"== {page}", flush=True)
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as repository:
                follow(page, Path(folder), environment(repository))


@contextlib.contextmanager
def served():
    """Starts the server if none runs, and ends what it started."""
    server = None
    try:
        while not is_serving():
            if not SERVER.exists():
                sys.exit(f"{SERVER.relative_to(ROOT)} is missing: `cargo build --bin pigeonhole` builds it")
            server = server or subprocess.Popen([SERVER], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if server.poll() is not None:
                sys.exit(f"{SERVER.relative_to(ROOT)} has ended before it served {URL}: run it to see why")
            time.sleep(0.1)
        yield
    finally:
        if server:
            server.terminate()
            server.wait()


def is_serving():
    try:
        with OPENER.open(f"{URL}/local", timeout=10) as page:
            return page.status == HTTPStatus.OK
    except urllib.error.URLError:
        return False


def environment(repository):
    return {**os.environ, "PIGEONHOLE": str(ROOT), "MAVEN_OPTS": f"-Dmaven.repo.local={repository}"}


def follow(page, folder, environment):
    """Runs the blocks of the page, and returns what its commands printed."""
    start = time.monotonic()
    printed = ""
    for above, language, text in BLOCK.findall(SECTION.search((ROOT / page).read_text())[1]):
        if language != "sh":
            name = NAME.search(above)[1]
            print(f"{name}: {len(text.splitlines())} lines")
            (folder / name).write_text(text)
            continue
        print(f"$ {text.strip()}", flush=True)
        options = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "text": True}
        left = SECONDS_MAX - (time.monotonic() - start)
        output = subprocess.run(["bash", "-e", "-c", text], check=True, timeout=left, **options).stdout
        # Maven resets the colours, also without a terminal.
        output = output.replace("\x1b[0m", "")
        print(f"{output}({time.monotonic() - start:.0f} s)", flush=True)
        printed += output
    return printed


if __name__ == "__main__":
    main()
