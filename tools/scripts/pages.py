"""Checks that a device with memory pages of 16 KB can load a library: each of its segments is aligned to that.

`pages.py FILE…` takes libraries for Linux and Android, and archives that contain them, such as a .jar, .aar or .apk.
Android requires the alignment of 64-bit libraries: https://developer.android.com/guide/practices/page-sizes.
"""

import struct
import sys
import zipfile
from pathlib import Path

PAGE_BYTES = 16 * 1024
ELF = b"\x7fELF"
CLASS_64_BIT = 2
LITTLE_ENDIAN = 1
LOAD = 1


def main():
    paths = [Path(argument) for argument in sys.argv[1:]] or sys.exit("name a library or an archive")
    wrong = [line for path in paths for line in unaligned(path)]
    if wrong:
        sys.exit("\n".join(wrong))


def unaligned(path):
    """Prints each 64-bit library of a file, and yields a line for each that is aligned to less."""
    libraries = list(libraries_of(path))
    if not libraries:
        yield f"{path} contains no library for Linux or Android"
    for name, content in libraries:
        alignment = alignment_of(content)
        print(f"{alignment // 1024:4} KB  {name}" if alignment else f"32-bit   {name}")
        if alignment and alignment < PAGE_BYTES:
            yield f"{name} is aligned to {alignment} bytes, and a page can have {PAGE_BYTES}"


def libraries_of(path):
    if not zipfile.is_zipfile(path):
        content = path.read_bytes()
        return [(path.name, content)] if content[:4] == ELF else []
    with zipfile.ZipFile(path) as archive:
        contents = ((name, archive.read(name)) for name in archive.namelist() if name.endswith(".so"))
        return [(f"{path.name}: {name}", content) for name, content in contents if content[:4] == ELF]


def alignment_of(content):
    """Returns the smallest alignment of a segment that is loaded, or none of a 32-bit library."""
    if content[4] != CLASS_64_BIT:
        return None
    order = "<" if content[5] == LITTLE_ENDIAN else ">"
    # The fields e_phoff, e_phentsize and e_phnum of the header; p_type and p_align of a segment.
    (table,) = struct.unpack_from(f"{order}Q", content, 32)
    size, count = struct.unpack_from(f"{order}HH", content, 54)
    segments = [table + number * size for number in range(count)]
    loaded = [segment for segment in segments if struct.unpack_from(f"{order}I", content, segment)[0] == LOAD]
    return min(struct.unpack_from(f"{order}Q", content, segment + 48)[0] for segment in loaded)


if __name__ == "__main__":
    main()
