"""Shows how large each function's zip is, as it is uploaded, and fails if one is too large: a cold start begins with
fetching it."""

import io
import sys
import zipfile
from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / ".aws-sam/build"
BYTES_MAX = 3 * 1024 * 1024


def zips():
    """Each function's zip, by the function's name: of the same binary, always the same bytes."""
    functions = sorted(BUILT.glob("*Function"))
    if not functions:
        sys.exit(f"{BUILT} holds no functions: run `sam build` first")
    return {function.name: zipped((function / "bootstrap").read_bytes()) for function in functions}


def zipped(binary):
    entry = zipfile.ZipInfo("bootstrap", (1980, 1, 1, 0, 0, 0))
    entry.external_attr = 0o100755 << 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(entry, binary, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def main():
    sizes = {name: len(packed) for name, packed in zips().items()}
    for name, size in sizes.items():
        print(f"{name:18} {size:9} bytes")
    if large := [name for name, size in sizes.items() if size > BYTES_MAX]:
        sys.exit(f"larger than {BYTES_MAX} bytes: {', '.join(large)}")


if __name__ == "__main__":
    main()
