"""Builds the npm packages into target/packages/npm, and publishes nothing.

- `@pigeonhole/client`, the client for browsers, React Native and Node, and `@pigeonhole/react`, its hooks
- `@pigeonhole/server`, the SDK for servers
- `@pigeonhole/local`, which starts the local server, and the program for the platform of this machine

The script installs the packages into an empty folder. There a bundler builds the clients, and the server starts. A size
above its budget fails, and so does a slow start. `npm.py program` only builds the package of the program, for the jobs
of other platforms.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

from licences import notices
from quickstart import served

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "target/packages/npm"
BUILT = ROOT / "target/packages/local"
PAGE = ROOT / "apps/demo"
SEALING = ROOT / "clients/web/src/wasm"
LAUNCHER = ROOT / "tools/pigeonhole/npm"
PROGRAM = "pigeonhole.exe" if os.name == "nt" else "pigeonhole"
PROGRAM_PACKED_BYTES_MAX = 30_000_000
# By package: its folder, and the most bytes that its exports have in a bundle, compressed, without its peers.
CLIENTS = {
    "@pigeonhole/client": ("clients/web", 57_000),
    "@pigeonhole/react": ("clients/react", 3_000),
    "@pigeonhole/server": ("clients/server-node", 3_500),
}
# The most bytes that an app with `open` alone loads, compressed. The encryption is not among them, and media are.
OPEN_BYTES_MAX = 53_800
FIRST_LINE_S_MAX = 2
# Windows finds `npm.cmd` by its whole path only.
NPM = shutil.which("npm")


def main():
    only_program = sys.argv[1:] == ["program"]
    for folder in [PACKAGES, BUILT]:
        shutil.rmtree(folder, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    packed = pack_program()
    print(f"{packed.stat().st_size:10,}  {packed.name}", flush=True)
    if packed.stat().st_size > PROGRAM_PACKED_BYTES_MAX:
        sys.exit(f"{packed.name} is above its budget of {PROGRAM_PACKED_BYTES_MAX:,} bytes")
    if only_program:
        return
    for packed in [pack_launcher(), *(pack(ROOT / folder) for folder, _ in CLIENTS.values())]:
        print(f"{packed.stat().st_size:10,}  {packed.name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        use(Path(folder))


def run(*command, folder=ROOT):
    command = [str(word) for word in command]
    return subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


def pack(folder):
    """Packs a package, and returns its archive."""
    # What `prepack` prints comes before the archive's name.
    return PACKAGES / run(NPM, "pack", "--silent", "--pack-destination", PACKAGES, folder=folder).split()[-1]


def pack_program():
    """Packs the program, with the template and the page that it serves."""
    run("cargo", "build", "--locked", "--profile", "optimised", "--package", "pigeonhole", "--bin", "pigeonhole")
    run(NPM, "--prefix", "apps/demo", "run", "build")
    platform, arch = run("node", "-p", "`${process.platform} ${process.arch}`").split()
    folder = BUILT / f"local-{platform}-{arch}"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "target/optimised" / PROGRAM, folder)
    shutil.copytree(PAGE / "dist", folder / "demo")
    for file in ["template.yaml", "LICENSE"]:
        shutil.copy(ROOT / file, folder)
    texts = [notices("pigeonhole", page_libraries())]
    # The page has the encryption, where `just wasm` has built it.
    texts += [file.read_text("utf-8") for file in [SEALING / "THIRD-PARTY.txt"] if file.exists()]
    (folder / "THIRD-PARTY.txt").write_text("\n".join(texts), "utf-8")
    name = f"@pigeonhole/{folder.name}"
    launcher = json.loads((LAUNCHER / "package.json").read_text())
    if launcher["version"] != version() or launcher["optionalDependencies"].get(name) != version():
        sys.exit(f"{LAUNCHER.relative_to(ROOT)}/package.json does not have {name} in version {version()}")
    package = {
        "name": name,
        "version": version(),
        "description": f"The program of @pigeonhole/local for {platform} on {arch}.",
        "license": launcher["license"],
        "os": [platform],
        "cpu": [arch],
        **({"libc": ["glibc"]} if platform == "linux" else {}),
    }
    (folder / "package.json").write_text(json.dumps(package, indent=2))
    return pack(folder)


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def page_libraries():
    """Yields name, version, licence and source of each library that the page contains."""
    imports = re.compile(r"""from "([^."][^"]*)";""")
    modules = {name for file in PAGE.glob("src/**/*.ts") for name in imports.findall(file.read_text())}
    # A package has modules of its own. The client is ours.
    names = {"/".join(name.split("/")[: 2 if name.startswith("@") else 1]) for name in modules}
    for name in sorted(name for name in names if not name.startswith("@pigeonhole/")):
        package = json.loads((PAGE / "node_modules" / name / "package.json").read_text())
        yield name, package["version"], package["license"], f"https://www.npmjs.com/package/{name}"


def pack_launcher():
    folder = BUILT / "local"
    folder.mkdir()
    for file in [*LAUNCHER.iterdir(), ROOT / "LICENSE"]:
        shutil.copy(file, folder)
    return pack(folder)


def use(folder):
    """Installs the packages into an empty folder, and uses them there."""
    run(NPM, "install", "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES.glob("*.tgz"), folder=folder)
    for name, (_, bytes_max) in CLIENTS.items():
        size = bundled(folder, name)
        print(f"{size:10,}  {name} with all its exports, bundled and compressed", flush=True)
        if size > bytes_max:
            sys.exit(f"{name} is above its budget of {bytes_max:,} bytes")
    size = compressed(folder, "@pigeonhole/client", {}, "{ open }")
    print(f"{size:10,}  open of @pigeonhole/client alone", flush=True)
    if size > OPEN_BYTES_MAX:
        sys.exit(f"open is above its budget of {OPEN_BYTES_MAX:,} bytes")
    check_sealed(folder)
    start = time.monotonic()
    with served(folder, "--port", "0") as url:
        seconds = time.monotonic() - start
        print(f"{seconds:10.2f}  seconds until the first line of `npx @pigeonhole/local`")
        if seconds > FIRST_LINE_S_MAX:
            sys.exit(f"the server takes more than {FIRST_LINE_S_MAX} s to start")
        page, token = (read(f"{url}/{path}") for path in ["", "token?user=alice"])
        if "/assets/index-" not in page or "token" not in json.loads(token):
            sys.exit("the installed server does not serve the demo's page and tokens")


def bundled(folder, name):
    """Returns the compressed size of a bundle with everything that a package exports."""
    package = json.loads((folder / "node_modules" / name / "package.json").read_text())
    return compressed(folder, name, package.get("peerDependencies", {}))


def compressed(folder, name, peers, exports="*"):
    library = {"entry": "all.js", "formats": ["cjs"], "fileName": "all"}
    build = {"lib": library, "rollupOptions": {"external": list(peers)}}
    program = next(bundle(folder, name, build, exports)).read_bytes()
    if b"WebAssembly" in program:
        sys.exit(f"{name} has the encryption, which only @pigeonhole/client/sealed loads")
    return len(gzip.compress(program))


def check_sealed(folder):
    """Bundles an app with the encryption: the WebAssembly is a file of its own."""
    build = {"rollupOptions": {"input": "all.js", "preserveEntrySignatures": "strict"}}
    files = bundle(folder, "@pigeonhole/client/sealed", build)
    modules = [file.stat().st_size for file in files if file.suffix == ".wasm"]
    if len(modules) != 1:
        sys.exit("@pigeonhole/client/sealed has no WebAssembly")
    print(f"{modules[0]:10,}  WebAssembly of @pigeonhole/client/sealed, in a file of its own", flush=True)


def bundle(folder, name, build, exports="*"):
    """Yields the files of a bundle with what a module exports."""
    (folder / "all.js").write_text(f'export {exports} from "{name}";')
    (folder / "vite.config.mjs").write_text(f"export default {json.dumps({'build': build})};")
    run("node", PAGE / "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn", folder=folder)
    return (file for file in (folder / "dist").rglob("*") if file.is_file())


def read(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as page:
        return page.read().decode()


if __name__ == "__main__":
    main()
