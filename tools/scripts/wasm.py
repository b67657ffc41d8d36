"""Builds the end-to-end encryption for the web client: WebAssembly and the JavaScript around it, into
clients/web/src/wasm.

The standard library is built too, without texts of panics: a page downloads both. The build needs the source of the
library, which rustup adds to a toolchain. Without rustup, the script unpacks Debian's Rust into .venv.
"""

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

from licences import notices
from package_check import DEBIAN, environment, unpack

ROOT = Path(__file__).resolve().parents[2]
SEALING = ROOT / "clients/sealing"
INTO = ROOT / "clients/web/src/wasm"
TARGET = "wasm32-unknown-unknown"
# A page with encryption downloads this much more, packed as servers pack it. 200 before the keyring, whose rows,
# requests and entries are JSON. 393 before only the requests of a keyring were in it.
GZIPPED_KB_MAX = 384
DEBIANS = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"]
# A panic ends the instance without a text.
FLAGS = "-Zlocation-detail=none -Zfmt-debug=none -Zunstable-options -Cpanic=immediate-abort"
# A digest without unrolled loops.
FLAGS += ' --cfg sha2_backend="soft" --cfg sha2_backend_soft="compact"'


def main():
    built = build()
    run(["cargo", "build", "--locked", "--quiet", "--profile", "bindgen", "--package", "bindgen"], os.environ)
    for old in [path for path in INTO.iterdir() if path.suffix in (".js", ".wasm")]:
        old.unlink()
    run([SEALING / "target/bindgen/bindgen", built, INTO], os.environ)
    (INTO / "sealing_bg.wasm.d.ts").unlink()
    texts = notices("pigeonhole-sealing-wasm", workspace=SEALING, target=["--target", TARGET])
    (INTO / "THIRD-PARTY.txt").write_text(texts, "utf-8")
    module = (INTO / "sealing_bg.wasm").read_bytes()
    kilobytes = len(gzip.compress(module, 9)) / 1000
    print(f"sealing_bg.wasm: {len(module) / 1000:.0f} KB, gzipped {kilobytes:.1f} KB of {GZIPPED_KB_MAX} KB")
    if kilobytes > GZIPPED_KB_MAX:
        sys.exit("The WebAssembly is larger than a page may load")


def build():
    """Returns the path of the module, which still needs its JavaScript."""
    variables = {**(os.environ if has_source() else debians()), "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": FLAGS}
    # The gate's Clippy compiles for this machine.
    variables.pop("RUSTC_WORKSPACE_WRAPPER", None)
    standard = ["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"]
    package = ["--package", "pigeonhole-sealing-wasm", "--target", TARGET, "--target-dir", "target/web"]
    run(["cargo", "build", "--locked", "--quiet", "--profile", "wasm", *standard, *package], variables)
    return SEALING / "target/web" / TARGET / "wasm/pigeonhole_sealing_wasm.wasm"


def has_source():
    """Returns whether the toolchain has the source of its standard library. Adds the source where rustup can."""
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    if (Path(sysroot.strip()) / "lib/rustlib/src/rust/library").exists():
        return True
    add = ["rustup", "component", "add", "rust-src"]
    return bool(shutil.which("rustup")) and subprocess.run(add, check=False, cwd=ROOT).returncode == 0


def debians():
    if not (DEBIAN / "usr/bin/wasm-ld-22").exists():
        unpack(DEBIANS)
    return {**environment(), "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER": "wasm-ld-22"}


def run(command, variables):
    subprocess.run(command, cwd=SEALING, env=variables, check=True)


if __name__ == "__main__":
    main()
