"""Builds the packages as their registries take them, into target/packages, and publishes nothing.

- `maven/`: a Maven repository with the Kotlin client for the JVM of this machine: jar, sources, documentation, POM.
- `crates/`: the crates of the Rust client.

The script prints what the bytes of the library are spent on, and fails above a budget. A licence that is not allowed
fails too, and a library that a device with pages of 16 KB can't load. The conformance scripts run on the library.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pages
from licences import notices

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "target/packages"
BUILT = PACKAGES / "kotlin"
RESOURCES = BUILT / "resources"
LIBRARY = ROOT / "target/library/libpigeonhole_ffi.so"
LIBRARY_BYTES_MAX = 3_000_000
CRATES = ["pigeonhole-wire", "pigeonhole-core", "pigeonhole-store", "pigeonhole-client"]
# The owner of a symbol, by its first word. All without a row are other libraries.
OWNERS = {
    "frames, their JSON": {"pigeonhole_wire", "serde", "serde_core", "serde_json"},
    "core": {"pigeonhole_core"},
    "store": {"pigeonhole_store", "rusqlite"},
    "calls from other languages": {"pigeonhole_ffi", "uniffi_core"},
    "Rust's libraries, with generics": {"core", "alloc", "std", "hashbrown"},
    "backtrace of a panic": {"gimli", "addr2line", "rustc_demangle", "miniz_oxide"},
}


def main():
    if platform.system() != "Linux":
        sys.exit("the packages are built on Linux: the libraries of other systems need their own tools")
    for folder in [BUILT, PACKAGES / "maven", PACKAGES / "crates"]:
        shutil.rmtree(folder, ignore_errors=True)
    library = packed_library()
    size = show_sizes(library)
    texts = RESOURCES / "META-INF/THIRD-PARTY-LIBRARY.txt"
    texts.parent.mkdir(parents=True)
    texts.write_text(notices("pigeonhole-ffi"))
    pack_crates()
    pack_maven()
    print("\nAlignment of the segments:")
    if wrong := [line for package in [library, jna_for_android()] for line in pages.unaligned(package)]:
        sys.exit("\n".join(wrong))
    print(f"\nThe packages in {PACKAGES.relative_to(ROOT)}:")
    for file in sorted(PACKAGES.glob("crates/*")) + sorted(PACKAGES.glob("maven/**/*.[jp]*")):
        if file.suffix in {".crate", ".jar", ".pom"}:
            print(f"{file.stat().st_size:10,}  {file.relative_to(PACKAGES)}")
    if size > LIBRARY_BYTES_MAX:
        sys.exit(f"the library has {size:,} bytes, and its budget is {LIBRARY_BYTES_MAX:,}")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=True, text=True, **options)


def packed_library():
    """Builds the library, and writes the stripped library and its bindings where the POM takes them from."""
    cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    # The texts of panics contain paths, which are those of the builder's home.
    paths = {cargo_home / "registry/src": "registry", ROOT: "pigeonhole"}
    flags = [f"--remap-path-prefix={path}={name}" for path, name in paths.items()]
    config = ["--config", "clients/ffi/library.toml", "--config", f"target.'cfg(all())'.rustflags={json.dumps(flags)}"]
    run("cargo", *config, "build", "--locked", "--profile", "library", "--package", "pigeonhole-ffi")
    run("cargo", "build", "--locked", "--package", "pigeonhole-ffi", "--features", "bindgen")
    generate = ["generate", LIBRARY, "--language", "kotlin", "--no-format", "--config", "clients/ffi/uniffi.toml"]
    run("target/debug/bindgen", *generate, "--out-dir", BUILT / "bindings")
    # The folder is named as JNA names this machine.
    machine = {"x86_64": "x86-64"}.get(platform.machine(), platform.machine())
    stripped = RESOURCES / f"linux-{machine}" / LIBRARY.name
    stripped.parent.mkdir(parents=True)
    run("strip", "-o", stripped, LIBRARY)
    return stripped


def show_sizes(stripped):
    """Prints what the bytes of the library are spent on, and returns their number."""
    total = stripped.stat().st_size
    sections = {}
    for line in run("size", "-A", stripped, capture_output=True).stdout.splitlines():
        if match := re.match(r"(\.\S+)\s+(\d+)", line):
            sections[match[1]] = int(match[2])
    spent = Counter()
    for line in run("nm", "-S", "-C", LIBRARY, capture_output=True).stdout.splitlines():
        if match := re.match(r"\w+ (\w+) [tTwW] (.*)", line):
            spent[owner_of(match[2])] += int(match[1], 16)
    spent["tables to unwind a panic"] = (
        sections[".eh_frame"] + sections[".eh_frame_hdr"] + sections[".gcc_except_table"]
    )
    spent["texts and tables of constants"] = sections[".rodata"] + sections[".data"] + sections[".data.rel.ro"]
    spent["links, headers, alignment"] = total - spent.total()
    print(f"\n{total:9,} bytes: the library, stripped, for {platform.machine()}")
    for name, size in spent.most_common():
        print(f"{size:9,} {name}")
    needed = re.findall(r"GLIBC_([\d.]+)", run("nm", "-D", stripped, capture_output=True).stdout)
    newest = max(needed, key=lambda version: [int(part) for part in version.split(".")])
    print(f"The library needs glibc {newest}.")
    return total


def owner_of(symbol):
    # A symbol of C is one word. Rust's have a crate as their first word, also behind `<`, `&mut` or `dyn`.
    if "::" not in symbol and not symbol.startswith("<"):
        return "SQLite"
    crate = re.search(r"[a-z_]\w*(?=::)", symbol)
    owners = (name for name, crates in OWNERS.items() if crate and crate[0] in crates)
    return next(owners, "other libraries")


def pack_crates():
    """Packs the crates. `cargo publish` compiles each one from its package, at a release."""
    packages = [word for crate in CRATES for word in ["--package", crate]]
    run("cargo", "package", "--locked", "--allow-dirty", "--no-verify", *packages)
    (PACKAGES / "crates").mkdir()
    for crate in CRATES:
        for file in (ROOT / "target/package").glob(f"{crate}-*.crate"):
            shutil.copy(file, PACKAGES / "crates")


def pack_maven():
    repository = f"packages::{(PACKAGES / 'maven').as_uri()}"
    properties = [f"-Dpigeonhole.built={BUILT}", f"-DaltDeploymentRepository={repository}"]
    # The other tests need a local server, and run in `just kotlin`.
    run("mvn", "-q", "-B", "-f", "clients/kotlin/pom.xml", "-Ppack", *properties, "-Dtest=ConformanceTest", "deploy")


def jna_for_android():
    version = re.search(r"<artifactId>jna</artifactId>\s*<version>(.*)</version>", read("clients/kotlin/pom.xml"))[1]
    copy = ["-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy"]
    run("mvn", *copy, f"-Dartifact=net.java.dev.jna:jna:{version}:aar", f"-DoutputDirectory={BUILT}")
    return BUILT / f"jna-{version}.aar"


def read(file):
    return (ROOT / file).read_text()


if __name__ == "__main__":
    main()
