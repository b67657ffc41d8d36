"""Follows the quickstart of pages in an empty folder, as a reader does: `quickstart.py PAGE…`.

The script takes the blocks of the section "Quickstart" in their order. A block of `sh` is run; the one that starts the
server runs until the end of the page. Any other block is written to the file that the line above it names last. The
packages are those of `just pack`. Maven begins with an empty repository, as on a new machine.

The script prints each command with its output and its time, and fails above 5 minutes.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = "npx @pigeonhole/local\n"
SECONDS_MAX = 5 * 60
SECTION = re.compile(r"(?ms)^## Quickstart$(.*?)(?=^## |\Z)")
BLOCK = re.compile(r"(?ms)^([^\n]*)\n\n```(\w+)\n(.*?)^```$")
NAME = re.compile(r"`([^`]+)`:$")


def main():
    for page in sys.argv[1:] or sys.exit("name pages that have a section `Quickstart`"):
        print(f"== {page}", flush=True)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as repository:
            follow(page, Path(folder), environment(repository))


@contextlib.contextmanager
def served(folder, *options):
    """Starts the server that is installed in a folder, yields its URL, and ends it."""
    command = [*SERVER.split(), *options]
    # A process group of its own, which ends as by Ctrl-C.
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        if server.stdout.readline() != "Pigeonhole is ready.\n":
            sys.exit("the installed server does not start")
        url = re.search(r"http://\S+(?=/ )", server.stdout.readline())[0]
        # The server would wait for a reader of its log.
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield url
    finally:
        os.killpg(server.pid, signal.SIGINT)
        server.wait()


def environment(repository):
    return {**os.environ, "PIGEONHOLE": str(ROOT), "MAVEN_OPTS": f"-Dmaven.repo.local={repository}"}


def follow(page, folder, environment):
    """Runs the blocks of the page, and returns what the last command printed."""
    start = time.monotonic()
    printed = ""
    with contextlib.ExitStack() as servers:
        for above, language, text in BLOCK.findall(SECTION.search((ROOT / page).read_text())[1]):
            if language != "sh":
                name = NAME.search(above)[1]
                print(f"{name}: {len(text.splitlines())} lines")
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)
                continue
            print(f"$ {text.strip()}", flush=True)
            if text == SERVER:
                servers.enter_context(served(folder))
                continue
            options = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "text": True}
            left = SECONDS_MAX - (time.monotonic() - start)
            output = subprocess.run(["bash", "-e", "-c", text], check=True, timeout=left, **options).stdout
            # Maven resets the colours, also without a terminal.
            output = output.replace("\x1b[0m", "")
            print(f"{output}({time.monotonic() - start:.0f} s)", flush=True)
            printed = output
    return printed


if __name__ == "__main__":
    main()
