"""Checks the samples of clients/samples, and prints which checks it skipped.

The script compiles the Kotlin sample and runs apps on it. The apps talk to a small model of the server, over
connections that lose, double, delay and cut frames. Other devices of the same users acknowledge messages too. At the
end the faults stop. Each app must then have shown each message once, in order, and acknowledged it.

The Swift and Dart samples are only parsed, since no package registry has their compilers.

--install installs missing tools: Debian's packages as root, the others into .venv. Without --install, the script skips
a check whose tools are missing.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from lossy import run

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "clients" / "samples"
VENV = ROOT / ".venv"
# The lock file in this folder pins the compiler by its hash.
KOTLIN = ROOT / "tools" / "scripts" / "kotlin"
JARS = [Path("/usr/share/java") / name for name in ("okhttp.jar", "okio.jar", "json-android.jar")]
DEBIAN = ["default-jre-headless", "libokhttp-java", "libokio-java", "libandroid-json-org-java"]
# `just pins` writes this file, with the hash of every package.
PARSERS = ROOT / "tools" / "scripts" / "samples.txt"


def check_kotlin(install, seed):
    if install:
        install_debian()
        install_kotlin()
    absent = [str(path) for path in (*JARS, kotlinc()) if not path.exists()]
    absent += [] if shutil.which("java") else ["java"]
    if absent:
        return f"skipped Kotlin: {', '.join(absent)} is missing; --install gets it"
    classpath = ":".join(map(str, JARS))
    out = VENV / "kotlin" / "samples.jar"
    sources = sorted((SAMPLES / "kotlin").glob("*.kt"))
    subprocess.run(["bash", kotlinc(), "-Werror", "-no-reflect", "-cp", classpath, "-d", out, *sources], check=True)
    stdlib = kotlinc().parents[1] / "lib" / "kotlin-stdlib.jar"
    driver = ["java", "-cp", f"{out}:{stdlib}:{classpath}", "DriveKt"]
    shown, problems = asyncio.run(run(driver, seed, users=16, seconds=15))
    if problems or not shown:
        sys.exit("\n".join(["The Kotlin sample is wrong:", *problems, f"once more: {sys.argv[0]} --seed {seed}"]))
    return (
        f"ok Kotlin: compiled, and {shown} messages shown once, in order, by 16 apps over bad connections (seed {seed})"
    )


def kotlinc():
    return VENV / "kotlin" / "node_modules" / "kotlin-compiler" / "bin" / "kotlinc"


def install_kotlin():
    folder, lock = VENV / "kotlin", "package-lock.json"
    if kotlinc().exists() and (folder / lock).exists() and same(folder / lock, KOTLIN / lock):
        return
    folder.mkdir(exist_ok=True)
    for file in ("package.json", lock):
        shutil.copy(KOTLIN / file, folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)


def same(one, other):
    return one.read_bytes() == other.read_bytes()


def install_debian():
    if all(jar.exists() for jar in JARS) and shutil.which("java"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *DEBIAN], check=True, stdout=subprocess.DEVNULL
    )


PARSE = """
import sys, tree_sitter, importlib
language, path = sys.argv[1:]
parser = tree_sitter.Parser(tree_sitter.Language(importlib.import_module(f"tree_sitter_{language}").language()))
waiting, wrong = [parser.parse(open(path, "rb").read()).root_node], []
while waiting:
    node = waiting.pop()
    waiting.extend(node.children)
    if node.is_error or node.is_missing:
        wrong.append(f"{path}:{node.start_point.row + 1}: unexpected {node.type}")
sys.exit("\\n".join(sorted(wrong)) or None)
"""


def install_parsers():
    folder = VENV / "parsers"
    if not (folder / "bin" / "pip").exists():
        venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "--requirement", PARSERS], check=True)


def check_syntax(language, path):
    python = VENV / "parsers" / "bin" / "python"
    if not python.exists():
        return f"skipped {language}: no parser; --install gets it"
    if subprocess.run([python, "-c", PARSE, language.lower(), path], check=False).returncode:
        sys.exit(f"The {language} sample is no {language}")
    return f"ok {language}: parsed. Not compiled: no package registry has a compiler"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install what is missing")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another run")
    options = parser.parse_args()
    if options.install:
        install_parsers()
    for file in sorted((SAMPLES / "swift").glob("*.swift")):
        print(check_syntax("Swift", file))
    print(check_syntax("Dart", SAMPLES / "dart" / "pigeonhole.dart"))
    print(check_kotlin(options.install, options.seed))


if __name__ == "__main__":
    main()
