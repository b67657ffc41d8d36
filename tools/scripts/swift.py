"""Builds the Swift client with its library and bindings.

`test` runs its tests, `chat ME PEER` its terminal chat, and `quickstart` follows the quickstart in an empty folder.

The script uses the machine's Swift. Without one, it makes a Debian with Swift in target/swift/root: 2.5 GB, in some
minutes, as root on Debian. On other machines it prints that it skipped the client.
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

import quickstart

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients/swift"
GENERATED = PACKAGE / "Generated"
BUILD = ROOT / "target/swift"
# The oldest Debian with Swift 6.
RELEASE = "trixie"
DEBIAN = BUILD / "root"
PACKAGES = ["swiftlang", "libc6-dev", "libsqlite3-0", "ca-certificates"]
# The library of Observation in Swift 6.0 lacks a symbol: github.com/swiftlang/swift/issues/75670.
LINKER = ["-Xlinker", "--allow-shlib-undefined"] if platform.system() == "Linux" else []
OPTIONS = ["--package-path", PACKAGE, "--scratch-path", BUILD / "build", *LINKER]
LIBRARY = "libpigeonhole_ffi" + (".dylib" if platform.system() == "Darwin" else ".so")


def main():
    prefix = compiler()
    if prefix is None:
        print("skipped Swift: no `swift` on the PATH, and only root can make a Debian that has one", file=sys.stderr)
        return
    cargo("build", "--package", "pigeonhole-ffi", "--features", "bindgen")
    cargo("build", "--bin", "pigeonhole")
    bind()
    scripts()
    what, *arguments = sys.argv[1:]
    if what == "quickstart":
        follow(prefix)
        return
    if what == "chat":
        sys.exit(run([*prefix, "swift", "run", *OPTIONS, "chat", *arguments]))
    # Needs a module of Apple's.
    failed = run([*prefix, "swiftc", "-parse", PACKAGE / "Examples/NotificationService.swift"])
    failed = failed or run([*prefix, "swift", "build", *OPTIONS, "--build-tests"])
    failed = failed or run([*prefix, "swift", "test", *OPTIONS])
    lossy = [sys.executable, "tools/scripts/lossy.py", "--", *prefix, BUILD / "build/debug/drive"]
    sys.exit(failed or run(lossy))


def follow(prefix):
    """Follows the quickstart with a `swift` in front of the PATH that runs this machine's, or the Debian's."""
    path = os.environ["PATH"]
    command = shlex.join([*map(str, prefix), "env", f"PATH={path}"])
    with tempfile.TemporaryDirectory() as tools, tempfile.TemporaryDirectory() as folder:
        swift = Path(tools) / "swift"
        swift.write_text(
            f'#!/bin/sh\nexec {command} sh -c \'cd "$0" && swift "$@"\' "$PWD" "$@" {shlex.join(LINKER)}\n'
        )
        swift.chmod(0o755)
        variables = {**os.environ, "PIGEONHOLE": str(ROOT), "PATH": f"{tools}:{path}"}
        printed = quickstart.follow("clients/swift/README.md", Path(folder), variables)
    if not printed.endswith("alice: hi\n"):
        sys.exit("bob has not printed the message of alice")


def run(command):
    paths = {name: str(GENERATED / "lib") for name in ("LIBRARY_PATH", "LD_LIBRARY_PATH")}
    return subprocess.run(command, cwd=ROOT, env=os.environ | paths, check=False).returncode


def compiler():
    """Returns what to put before `swift`, or `None` if there is no way to have one."""
    if shutil.which("swift"):
        return []
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    if not DEBIAN.exists():
        make_debian()
    here = DEBIAN / ROOT.relative_to("/")
    here.mkdir(parents=True, exist_ok=True)
    # The mounts end with the process.
    script = 'mount --bind "$1" "$2" && mount --bind /tmp "$3/tmp" && mount -t proc proc "$3/proc" && shift 2 && '
    script += 'root=$1 && shift && exec chroot "$root" env HOME=/root "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", ROOT, here, DEBIAN]


def make_debian():
    if not shutil.which("mmdebstrap"):
        subprocess.run(["apt-get", "update"], check=True)
        install = ["apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap", "debian-archive-keyring"]
        subprocess.run(install, check=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    unfinished = DEBIAN.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = ["--variant=apt", "--include=" + ",".join(PACKAGES), "--dpkgopt=force-unsafe-io"]
    options += ["--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*"]
    options += ['--aptopt=APT::Install-Recommends "false"', "--keyring=/usr/share/keyrings"]
    mirror = f"deb http://deb.debian.org/debian {RELEASE} main"
    subprocess.run(["mmdebstrap", *options, RELEASE, unfinished, mirror], check=True)
    unfinished.rename(DEBIAN)


def cargo(*arguments):
    subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, check=True)


def bind():
    """Writes the library and its bindings into the package."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    library = ROOT / "target/debug" / LIBRARY
    bindings, header, libraries = (GENERATED / name for name in ("PigeonholeFFI", "include", "lib"))
    options = ["--language", "swift", "--no-format", "--config", "clients/ffi/uniffi.toml", "--out-dir", bindings]
    subprocess.run([ROOT / "target/debug/bindgen", "generate", library, *options], cwd=ROOT, check=True)
    header.mkdir()
    (bindings / "PigeonholeCore.h").rename(header / "PigeonholeCore.h")
    libraries.mkdir()
    shutil.copy(library, libraries)


def scripts():
    """Writes the conformance scripts as JSON, which needs no library of YAML."""
    folder = GENERATED / "conformance"
    folder.mkdir()
    for script in (ROOT / "conformance").glob("*.yaml"):
        (folder / f"{script.stem}.json").write_text(json.dumps(yaml.safe_load(script.read_text())))


if __name__ == "__main__":
    main()
