"""Builds the package for AWS as `just package` does, from a toolchain that has nothing to add: for machines that reach
Debian's packages and not rustup's. Unoptimised: it is not deployed.

Debian's security updates bring a Rust of this year (`rustc-web`) with its library for arm64. The script unpacks them
into .venv, and installs nothing on the machine.
"""

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / ".venv/debian"
BUILT = ROOT / ".aws-sam/build"
# The compiler, Cargo, and the library of the architecture that the functions run on.
PACKAGES = ["rustc-web", "cargo-web", "libstd-rust-web-dev:arm64"]
# In the header of an ELF file, e_machine of AArch64.
AARCH64 = (183).to_bytes(2, "little")


def main():
    if not (DEBIAN / "usr/bin/cargo").exists():
        unpack(PACKAGES)
    shutil.rmtree(BUILT, ignore_errors=True)
    subprocess.run(["sam", "build"], cwd=ROOT, env=environment(), check=True)
    functions = sorted(BUILT.glob("*Function"))
    if not functions:
        sys.exit("`sam build` has built no function")
    for function in functions:
        header = (function / "bootstrap").read_bytes()[:20]
        if header[:4] != b"\x7fELF" or header[18:20] != AARCH64:
            sys.exit(f"{function.name} is no program for arm64")
        print(f"{function.name:18} is built for arm64")


def unpack(packages):
    """Downloads and unpacks the packages, with those of their dependencies that are not installed here."""
    if missing := [tool for tool in ["apt-get", "dpkg"] if not shutil.which(tool)]:
        sys.exit(f"This takes Debian's packages or rustup, and there is no {' or '.join(missing)} here")
    print("Unpacking Debian's Rust into .venv", flush=True)
    lists, cache = DEBIAN / "lists", DEBIAN / "cache"
    for folder in [lists / "partial", cache / "archives/partial"]:
        folder.mkdir(parents=True, exist_ok=True)
    options = [
        "APT::Architectures::=amd64",
        "APT::Architectures::=arm64",
        f"Dir::State::lists={lists}",
        f"Dir::Cache={cache}",
        # Else root's apt works as the user `_apt`, who in some containers can open neither .venv nor /dev/null.
        "APT::Sandbox::User=root",
    ]
    apt = ["apt-get", "-qq", *(word for option in options for word in ["-o", option])]
    subprocess.run([*apt, "update"], check=True)
    wanted = [*apt, "install", "--print-uris", "--no-install-recommends", *packages]
    for line in subprocess.run(wanted, check=True, capture_output=True, text=True).stdout.splitlines():
        url, name = line.split()[:2]
        # The arm64 packages link into the functions: only the standard library does.
        if name.endswith("_amd64.deb") or name.startswith(("libstd-rust", "rust-web-src")):
            package = cache / name
            urllib.request.urlretrieve(url.strip("'"), package)
            subprocess.run(["dpkg", "--extract", package, DEBIAN], check=True)
            package.unlink()


def environment():
    libraries = DEBIAN / "usr/lib/x86_64-linux-gnu"
    programs = [DEBIAN / "usr/bin", ROOT / ".venv/bin", "/usr/local/bin", "/usr/bin", "/bin"]
    # Where there is one already, none was installed.
    programs += [Path(found).parent for found in [shutil.which("cargo-lambda")] if found]
    return {
        **os.environ,
        # Without rustup's programs, which would take their own toolchain.
        "PATH": os.pathsep.join(map(str, programs)),
        "LD_LIBRARY_PATH": str(libraries),
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    }


if __name__ == "__main__":
    main()
