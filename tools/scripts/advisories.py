"""Known vulnerabilities of what we depend on: `cargo`, or `npm` and the folders to look at. Fails on one; where the
database can't be had, it only says so, since a change must be possible without the network."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DENY = ["cargo", "deny", "--locked", "--config", ".cargo/deny.toml"]


def main():
    match sys.argv[1:]:
        case ["cargo"]:
            cargo()
        case ["npm", *folders]:
            for folder in folders:
                npm(folder)
        case _:
            sys.exit(f"usage: {sys.argv[0]} cargo | npm FOLDER...")


def cargo():
    fetched = run([*DENY, "fetch", "db"])
    if fetched.returncode:
        warn("RustSec's database", fetched.stderr)
    elif subprocess.run([*DENY, "--offline", "check", "advisories"], cwd=ROOT, check=False).returncode:
        sys.exit("Update the crate, or say in .cargo/deny.toml why its advisory does not concern us.")


def npm(folder):
    # Of the lock file alone, so that nothing is installed.
    audited = run(["npm", "audit", "--package-lock-only", "--json"], ROOT / folder)
    try:
        report = json.loads(audited.stdout)
    except ValueError:
        report = {"message": audited.stderr}
    # Only a report has a version; anything else says why there is none.
    if "auditReportVersion" not in report:
        warn(f"npm's database, for {folder}", str(report.get("message")))
    elif found := report["vulnerabilities"]:
        sys.exit(f"{folder} depends on {', '.join(found)}, with advisories: run `npm audit` there")


def run(command, folder=ROOT):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def warn(database, why):
    last = why.strip().splitlines()[-1:]
    print(f"WARNING: advisories are not checked, for want of {database}: {' '.join(last)}", flush=True)


if __name__ == "__main__":
    main()
