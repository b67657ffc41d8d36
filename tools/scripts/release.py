"""Uploads what `sam build` made, and keeps under releases/ what it takes to deploy exactly that again. A release has
the template with the zips' places in S3, the zips, and their digests. Arguments go to `sam package`, such as
--region."""

import hashlib
import subprocess
import sys
from pathlib import Path

from samcli.yamlhelper import yaml_dump, yaml_parse

from sizes import BUILT, zips

ROOT = Path(__file__).resolve().parents[2]


def main():
    # `sam deploy --guided` saves your choices in samconfig.toml, so that file may differ.
    if git("status", "--porcelain", "--", ".", ":!samconfig.toml"):
        sys.exit("A release is of a commit: commit what is changed, build again, and repeat this")
    revision = git("describe", "--tags", "--always", "--abbrev=12")
    release = ROOT / "releases" / revision
    release.mkdir(parents=True, exist_ok=True)
    template = yaml_parse((BUILT / "template.yaml").read_text())
    digests = []
    for name, packed in zips().items():
        file = release / f"{name}.zip"
        file.write_bytes(packed)
        template["Resources"][name]["Properties"]["CodeUri"] = str(file)
        digests.append(f"{hashlib.sha256(packed).hexdigest()}  {file.name}\n")
    (release / "SHA256SUMS").write_text("".join(digests))
    built, packaged = release / "built.yaml", release / "packaged.yaml"
    built.write_text(yaml_dump(template))
    files = ["--template-file", built, "--output-template-file", packaged]
    subprocess.run(["sam", "package", "--resolve-s3", "--no-progressbar", *files, *sys.argv[1:]], cwd=ROOT, check=True)
    built.unlink()
    # Without --config-file, SAM would look for samconfig.toml in the template's folder.
    print(f'To deploy it: sam deploy --config-file "$PWD/samconfig.toml" --template-file {packaged.relative_to(ROOT)}')


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
