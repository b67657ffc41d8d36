"""Shows how large each function's zip is, as `sam deploy` uploads it, and fails if one is too large: a cold start
begins with fetching it."""

import io
import sys
import zipfile
from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / ".aws-sam/build"
BYTES_MAX = 3 * 1024 * 1024


def zipped_bytes(function):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(function / "bootstrap", "bootstrap")
    return len(packed.getvalue())


def main():
    sizes = {function.name: zipped_bytes(function) for function in sorted(BUILT.glob("*Function"))}
    if not sizes:
        sys.exit(f"{BUILT} holds no functions: run `sam build` first")
    for name, size in sizes.items():
        print(f"{name:18} {size:9} bytes")
    if large := [name for name, size in sizes.items() if size > BYTES_MAX]:
        sys.exit(f"larger than {BYTES_MAX} bytes: {', '.join(large)}")


if __name__ == "__main__":
    main()
