"""Looks for known vulnerabilities in our dependencies: `cargo`, or `npm` and the folders to check. Fails on each one.

An unreachable database is a warning, because a change must be possible without the network. With --strict it is a
failure: the nightly run passes no advisory check that did not take place.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DENY = ["cargo", "deny", "--locked", "--config", ".cargo/deny.toml"]


def main():
    arguments = sys.argv[1:]
    missing = sys.exit if "--strict" in arguments else warn
    match [argument for argument in arguments if argument != "--strict"]:
        case ["cargo"]:
            cargo(missing)
        case ["npm", *folders]:
            for folder in folders:
                npm(folder, missing)
        case _:
            sys.exit(f"usage: {sys.argv[0]} [--strict] cargo | npm FOLDER...")


def cargo(missing):
    fetched = run([*DENY, "fetch", "db"])
    if fetched.returncode:
        missing(not_checked("RustSec's database", fetched.stderr))
        return
    for manifest in ["Cargo.toml", "clients/sealing/Cargo.toml"]:
        check = [*DENY, "--manifest-path", manifest, "--offline", "check", "advisories"]
        if subprocess.run(check, cwd=ROOT, check=False).returncode:
            sys.exit("Update the crate, or say in .cargo/deny.toml why its advisory does not concern us.")


def npm(folder, missing):
    # `npm audit` reads the lock file alone, so nothing is installed.
    audited = run(["npm", "audit", "--package-lock-only", "--json"], ROOT / folder)
    try:
        report = json.loads(audited.stdout)
    except ValueError:
        report = {"message": audited.stderr}
    # Only a report has a version; another output explains why npm made no report.
    if "auditReportVersion" not in report:
        missing(not_checked(f"npm's database, for {folder}", str(report.get("message"))))
    elif found := report["vulnerabilities"]:
        sys.exit(f"{folder} depends on {', '.join(found)}, with advisories: run `npm audit` there")


def run(command, folder=ROOT):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def not_checked(database, why):
    last = why.strip().splitlines()[-1:]
    return f"advisories are not checked, because {database} is unreachable: {' '.join(last)}"


def warn(problem):
    print(f"WARNING: {problem}", flush=True)


if __name__ == "__main__":
    main()
