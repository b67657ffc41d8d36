"""Holds the folders to their direction: nothing that is deployed knows a tool, an app or a test, and no client does.

Reads the dependencies that Cargo.toml and package.json name, and the imports of TypeScript and JavaScript.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The kit that tests are written with has a name of its own among the tests.
KIT = "tests/kit"
# By room: the rooms that it may depend on, or single folders of them.
MAY = {
    "crates": {"crates"},
    "functions": {"crates"},
    "clients": {"crates/wire", "clients/core", "clients/sealing", "clients/store", "clients/web"},
    "apps": {"clients"},
    "docs": {"clients"},
    "tools": {"crates", "functions", "clients", "tools", KIT},
    "tests": {"crates", "functions", "clients", "apps", "tools", "tests", KIT},
    KIT: {"crates", "functions", "clients", "tools"},
}
# Every room may depend on these for its tests. Tests hold a client's frames against the contract.
MAY_FOR_TESTS = {KIT, "tools/contract"}
WORKSPACES = ["Cargo.toml", "tools/fuzz/Cargo.toml", "clients/sealing/Cargo.toml", "tests/openmls/Cargo.toml"]
IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""")


def main():
    packages = npm_packages()
    wrong = {
        complaint
        for depends in [*crates(), *packages_of_npm(packages), *imports(packages)]
        if (complaint := judged(*depends))
    }
    if wrong:
        sys.exit("\n".join(sorted(wrong)))


def judged(who, whom, for_tests):
    """Returns a complaint about this dependency of one folder on another, or `None`."""
    room, other = room_of(who), room_of(whom)
    if room is None:
        return f"{who} is in none of the rooms {', '.join(MAY)}"
    if who == whom or {other, whom} & MAY[room] or (for_tests and whom in MAY_FOR_TESTS):
        return None
    how = " for its tests" if for_tests else ""
    allowed = MAY[room] | (MAY_FOR_TESTS if for_tests else set())
    return f"{who} depends on {whom}{how}; what is in {room}/ may depend only on {', '.join(sorted(allowed))}"


def room_of(folder):
    if folder == KIT:
        return KIT
    room = folder.split("/")[0]
    return room if room in MAY else None


def crates():
    for manifest in WORKSPACES:
        command = ["cargo", "metadata", "--no-deps", "--format-version=1", "--manifest-path", manifest]
        metadata = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        for package in json.loads(metadata)["packages"]:
            for dependency in package["dependencies"]:
                if path := dependency.get("path"):
                    yield relative(Path(package["manifest_path"]).parent), relative(path), dependency["kind"] == "dev"


def npm_packages():
    """The folder of each, by the package's name."""
    return {
        json.loads((ROOT / file).read_text())["name"]: relative(ROOT / file / "..") for file in files("package.json")
    }


def packages_of_npm(packages):
    for folder in packages.values():
        package = json.loads((ROOT / folder / "package.json").read_text())
        for kind in ["dependencies", "peerDependencies", "optionalDependencies", "devDependencies"]:
            for name, version in package.get(kind, {}).items():
                local = re.match(r"(?:file|link):(.+)", version)
                if local or name in packages:
                    whom = relative(ROOT / folder / local[1]) if local else packages[name]
                    yield folder, whom, kind == "devDependencies"


def imports(packages):
    for file in files(".ts", ".js"):
        who = package_of(file, packages)
        for name in IMPORT.findall((ROOT / file).read_text()):
            if name.startswith("."):
                whom = package_of(relative(ROOT / file / ".." / name), packages)
            else:
                whom = packages.get("/".join(name.split("/")[: 2 if name.startswith("@") else 1]))
            # Every room may use files of no package, such as the generated contract.
            if who and whom:
                yield who, whom, False


def package_of(file, packages):
    return next((folder for folder in packages.values() if file.startswith(f"{folder}/")), None)


def files(*endings):
    """Returns the files of the working tree that Git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [file for file in found if file.endswith(endings) and (ROOT / file).is_file()]


def relative(path):
    return str(Path(path).resolve().relative_to(ROOT))


if __name__ == "__main__":
    main()
