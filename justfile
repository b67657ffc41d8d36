export PATH := justfile_directory() / ".venv/bin:" + env("PATH")
# `sam validate` needs any Region, and calls no service.
export AWS_DEFAULT_REGION := env("AWS_DEFAULT_REGION", "us-east-1")
export SAM_CLI_TELEMETRY := "0"
pip := ".venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes"
# A package's install script would run with your rights, and none that is needed has one.
npm_ci := "npm ci --ignore-scripts --no-audit --no-fund"
# Scripts that query a stack need less than the tools, so they have an environment of their own.
asks_aws := "python3 tools/scripts/install.py aws && .venv/aws/bin/python"
# Runs a program of the Kotlin client's tests.
kotlin_run := "mvn -q -B -f clients/kotlin/pom.xml test-compile org.codehaus.mojo:exec-maven-plugin:3.6.2:java -Dexec.classpathScope=test"

[private]
default:
    @just --list --unsorted

# Install the pinned versions of the tools that the checks run, into .venv
tools:
    @python3 tools/scripts/install.py

# Before each commit: what changes usually break. Two minutes after a build
quick: format lints clippy
    @# All but the package `tests`, whose tests take minutes: a minute of processor time. With the features of the workspace.
    cargo test --locked --workspace --exclude tests --quiet

# Everything that must hold, without the tests. From nothing eight minutes of processor time, seven of them Clippy's
check: format lints clippy static rustdoc

[private]
static: tools docs
    cfn-lint template.yaml
    sam validate --lint
    cargo deny --locked --config .cargo/deny.toml check bans licenses sources
    python tools/scripts/advisories.py cargo
    @# The packages as they would be published, without a build of them: a release builds them. The encryption is published
    @# between the first and the others.
    cd clients/sealing && cargo publish --quiet --dry-run --no-verify --allow-dirty --locked --config 'patch.crates-io.pigeonhole-wire.path="../../crates/wire"' --package pigeonhole-sealing
    cargo publish --quiet --dry-run --no-verify --allow-dirty --locked --config 'patch.crates-io.pigeonhole-sealing.path="clients/sealing"' --package pigeonhole-wire --package pigeonhole-core --package pigeonhole-store --package pigeonhole-client

# The documentation of the crates: every link in it has a target
rustdoc:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
    cd clients/sealing && RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

# The end-to-end encryption, which is a workspace of its own: format, licences, lints and tests
sealing: tools
    cd clients/sealing && cargo fmt --check
    cd clients/sealing && cargo deny --locked --config ../../.cargo/deny.toml check --allow license-not-encountered --allow license-exception-not-encountered bans licenses sources
    @# Clippy compiles the crate, as in the gate, so that Cargo compiles the dependencies once.
    cd clients/sealing && RUSTC_WORKSPACE_WRAPPER="$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS=-Dwarnings cargo test --locked --quiet

# OpenMLS, which another team wrote, as a member of random conversations: both implementations must agree. For a night: WALKS=1000
openmls:
    cd tests/openmls && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- -D warnings
    cd tests/openmls && cargo test --locked --quiet -- --nocapture

# Change bytes and frames of the server at random, and give them to a device: inputs of each kind, from this seed on
mangled inputs="100000" seed="0":
    cd clients/sealing && PIGEONHOLE_INPUTS={{inputs}} PIGEONHOLE_SEED={{seed}} cargo test --locked --quiet --test mangled

# Build the encryption as WebAssembly for the web client, and test it, also in the demo. Needs rustup, or Debian's packages
wasm: node chromium
    python tools/scripts/wasm.py
    cargo build --locked --quiet --bin pigeonhole
    cargo build --locked --quiet --example chat --example authenticators
    cd clients/sealing && cargo build --locked --quiet --example carry
    cd clients/web && npx vitest run --dir sealed --testTimeout 300000
    cd apps/demo && npm run build && npx vitest run --dir browser sealed

# Web, Rust and Kotlin clients in one encrypted chat, which devices join and leave at random: `just interop 1000 7`. After `just wasm`
interop steps="1000" seed="1": kotlin-programs
    cargo build --locked --quiet --bin pigeonhole
    cargo build --locked --quiet --example chat --example authenticators
    cd clients/web && PIGEONHOLE_KOTLIN=1 PIGEONHOLE_STEPS={{steps}} PIGEONHOLE_SEED={{seed}} npx vitest run --dir sealed --testTimeout 300000 interop

# The reference of the web client, into target/reference/typescript. Rust's is `just rustdoc`, Kotlin's is in `just pack`
reference: tools
    npm --version >/dev/null 2>&1 || {{pip}} --requirement tools/scripts/node.txt
    cd clients/web/reference && {{npm_ci}} && npm run build

# Write docs/api.md, the names of the clients in one table, from their sources
api:
    python3 tools/scripts/api.py

# Pin the newest versions of the Python tools, with their hashes: after a change of an .in file
pins: tools
    {{pip}} --requirement tools/scripts/pins.txt
    for pins in scripts/requirements scripts/cargo-lambda scripts/node scripts/python scripts/samples scripts/aws scripts/docs scripts/pins ministack/requirements; do \
        .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
            --custom-compile-command "just pins" tools/$pins.in --output-file tools/$pins.txt || exit 1; \
    done

[private]
format: tools
    cargo fmt --all --check
    ruff format --check tools clients/server-python
    typos

[private]
lints: tools
    ruff check tools clients/server-python
    python tools/scripts/server_types.py --check
    python tools/scripts/mutants.py --check
    python tools/scripts/rooms.py
    python tools/scripts/alarms.py --check
    python tools/scripts/api.py --check
    python tools/scripts/house.py --check
    cargo shear --locked --check-test-targets --deny-warnings

[private]
clippy:
    @# Not --all-targets, which checks every library twice, also those that have no tests.
    cargo clippy --locked --workspace --lib --bins --tests --test hostile --test soak_clients --test soak_sealed --examples -- -D warnings

# Write the types of the server SDKs, from docs/contract/
server-types:
    python3 tools/scripts/server_types.py

# Count what keeps the tree readable, beside the ceilings of tools/house.toml
house:
    @python3 tools/scripts/house.py

# Build the documentation site into target/docs/site; a broken link or anchor fails
docs:
    python3 tools/scripts/install.py docs
    python3 tools/scripts/docs.py

# Write docs/contract/, events/ and template.yaml, from the types, the registry of actions and stack/
contract:
    cargo run --bin contract

# All tests: the ones of e2e, the explorer and the soak of 3,000 messages take minutes each
test:
    cargo test --workspace

# Build the page that `cargo run` serves: two people chat in the browser. Needs Node 20.19 or later
demo:
    cd apps/demo && {{npm_ci}} && npm run build

# The contract by AsyncAPI's validation, checks and tests of the web client, the React hooks, the server SDKs and the demo
web-check: node
    python tools/scripts/advisories.py npm clients/web clients/react clients/server-node apps/demo
    cd clients/web && npm run contract && npm run check && npm test && npm run pack-check
    cd clients/react && npm run check && npm test
    cd clients/server-node && npm run check && npm test
    cd clients/server-python && PYTHONPATH=src ../../.venv/bin/python -m unittest discover --quiet --start-directory tests
    cd apps/demo && npm run check && npm test && npm run build

# Play random scripts of the Rust core's chat model in TypeScript, which must show the same: `just twins 2000 7`
twins scripts="200" seed="1": node
    cargo run --quiet --locked --package pigeonhole-core --example turns -- {{scripts}} {{seed}} >target/turns.json
    cd clients/web && PIGEONHOLE_TURNS={{justfile_directory()}}/target/turns.json npx vitest run --dir twins

# The demo in a browser, against the local server
browser: node chromium
    cd apps/demo && npm run build
    @# The browser's tests start these programs, and don't wait for a build.
    cargo build --workspace --bins
    cd apps/demo && npm run browser

# Tabs of a browser that are closed, reloaded and killed at random: `just tabs 1000`
tabs ROUNDS="1000": node chromium
    cargo build --bin pigeonhole
    cd apps/demo && TABS_ROUNDS={{ROUNDS}} npx vitest run --dir browser tabs

# The sample in Dart: parsed. Installs a parser
samples-check: tools
    python tools/scripts/samples.py

# Build the Kotlin client with its library and bindings, and run its tests. Needs Maven and JDK 17
kotlin: kotlin-library
    cargo build --locked --bin pigeonhole
    mvn -q -B -f clients/kotlin/pom.xml test
    python3 tools/scripts/lossy.py -- sh -c '{{kotlin_run}} -Dexec.mainClass=dev.pigeonhole.DriveKt -Dexec.args="$0"'

# A chat in the terminal by the Kotlin client, beside `cargo run`: `just kotlin-chat alice bob`
kotlin-chat *ARGS: kotlin-library
    {{kotlin_run}} -Dexec.mainClass=dev.pigeonhole.ChatKt -Dexec.args={{quote(ARGS)}}

# The library for the JVM of this machine, and the bindings that belong to it
[private]
kotlin-library:
    cargo build --locked --package pigeonhole-ffi --features bindgen
    rm -rf target/kotlin/bindings
    target/debug/bindgen generate target/debug/libpigeonhole_ffi.so --language kotlin --no-format \
        --out-dir target/kotlin/bindings --config clients/ffi/uniffi.toml
    install -D target/debug/libpigeonhole_ffi.so \
        target/kotlin/resources/linux-{{ if arch() == "x86_64" { "x86-64" } else { arch() } }}/libpigeonhole_ffi.so

# The programs of the Kotlin client's tests, and the paths of the libraries that they need
[private]
kotlin-programs: kotlin-library
    mvn -q -B -f clients/kotlin/pom.xml test-compile org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath \
        -Dmdep.outputFile={{justfile_directory()}}/target/kotlin/classpath

# Build the packages as their registries take them, into target/packages, and publish nothing. Needs Maven and JDK 17
pack: pack-npm pack-python
    python3 tools/scripts/pack.py

# Build the packages for npm alone: the web client, the React hooks, the server SDK, and the local server for this machine
pack-npm: node
    python tools/scripts/wasm.py
    python3 tools/scripts/npm.py

# Build the package for PyPI alone: the server SDK
pack-python: tools
    {{pip}} --requirement tools/scripts/python.txt
    rm -rf target/packages/python
    .venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --wheel-dir target/packages/python clients/server-python

# Build the Swift client with its library and bindings, and run its tests. Without Swift, makes a Debian with it, as root
swift: tools
    python tools/scripts/swift.py test

# A chat in the terminal by the Swift client, beside `cargo run`: `just swift-chat alice bob`
swift-chat *ARGS: tools
    python tools/scripts/swift.py chat {{ARGS}}

# Follow the quickstarts in empty folders, from what `just pack` built
quickstarts: tools
    python3 tools/scripts/quickstart.py clients/web/README.md clients/kotlin/README.md clients/server-node/README.md clients/server-python/README.md
    python tools/scripts/swift.py quickstart

# Shrink and rename the app of the Kotlin quickstart with ProGuard, by the rules in the jars, and run it
shrink:
    python3 tools/scripts/shrink.py

# Install what the web client, the React hooks and the demo are built with
[private]
node: tools
    @# Here and not among the tools, because nothing else needs it.
    npm --version >/dev/null 2>&1 || {{pip}} --requirement tools/scripts/node.txt
    cd clients/web && {{npm_ci}}
    cd clients/react && {{npm_ci}}
    cd clients/server-node && {{npm_ci}}
    cd apps/demo && {{npm_ci}}

# Install Debian's Chromium, unless CHROMIUM names another browser like it
[private]
chromium:
    @# Inter, so that screenshots look the same everywhere.
    [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || { apt-get update && apt-get install -y --no-install-recommends chromium fonts-inter; } || \
        { echo "The browser test needs Chromium: install it as root, or set CHROMIUM to its path." >&2; exit 1; }

# Measure costs and latencies, and write docs/bench/: all, or --only units,path,cold,load,uploads,ring,growth,groups,channels,ingest,money,storm,attack
bench *ARGS:
    @# All of the workspace, so that its functions have the features that the measured ones have, and nothing is built twice.
    cargo build --release --workspace --bins
    target/release/bench {{ARGS}}

# Measure the message store of a client with 100,000 messages, and write docs/bench/store.csv: fails at three times a budget
bench-store:
    cargo run --package pigeonhole-store --example budgets

# Measure the demo's page with 100,000 messages in its store, and write docs/bench/page.csv: fails at three times a budget
page-speed: node chromium
    cd apps/demo && npm run build
    cargo build --workspace --bins
    cd apps/demo && npx vitest run --dir speed

# Kill a process that writes a client's message store, and cut its journal at each byte and its turns at each step. An hour
kills kills="10000":
    PIGEONHOLE_KILLS={{kills}} PIGEONHOLE_CUT_BYTES=1 PIGEONHOLE_STEPS=1 cargo test --package pigeonhole-store --lib kills -- --nocapture

# Attack after attack: how much slower other chats get, and what each attack costs: all, or --attack NAME. Half an hour
attack *ARGS:
    @# Two ends of each of 2,000 sockets are open files.
    ulimit -Sn 8192 && cargo run --profile optimised --bin bench -- --only attack {{ARGS}}

# Run every order of the functions' calls, with one fault at any of them: more than an hour, of which the tests run a minute
explore:
    PIGEONHOLE_RUNS_MAX=0 cargo test --profile optimised --workspace --test explorer -- --nocapture

# Run clients that chat over a server with every kind of fault, and check the outcome of each message; with --events, and of each event
soak messages="10000" seed="1" events="":
    PIGEONHOLE_MESSAGES={{messages}} PIGEONHOLE_SEED={{seed}} PIGEONHOLE_EVENTS={{events}} cargo test --profile optimised --workspace --test soak -- --nocapture

# Run encrypted chats over such a server: devices come, restart and are lost, and each reads all since it joined
soak-sealed messages="10000" seed="1":
    PIGEONHOLE_MESSAGES={{messages}} PIGEONHOLE_SEED={{seed}} cargo test --profile optimised --workspace --test soak_sealed -- --nocapture

# Run users of the Rust, Kotlin and web clients over such a server, kill them, and check what they show. Needs Maven and JDK 17
soak-clients messages="10000" seed="1": kotlin-programs node
    cd clients/web && npm run build
    PIGEONHOLE_MESSAGES={{messages}} PIGEONHOLE_SEED={{seed}} cargo test --profile optimised --workspace --test soak_clients -- --nocapture

# Let AWS fail for one user, row or object in each stream, and measure the other users: minutes
hostile users="200":
    PIGEONHOLE_USERS={{users}} cargo test --workspace --test hostile -- --nocapture

# Break each rule of the code once, and see which test fails (target/mutants/report.md): all, or those with PATTERN in their names
mutants *PATTERN: tools
    @# Here and not among the tools, because nothing else needs it. Compiled without optimisation: it runs for a second.
    command -v cargo-mutants || CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --debug --no-track --root .venv cargo-mutants@27.1.0
    python tools/scripts/mutants.py "{{PATTERN}}"

# Fail where a dependency has a known vulnerability, and where the databases of them are unreachable
advisories: tools
    python tools/scripts/advisories.py --strict cargo
    python tools/scripts/advisories.py --strict npm clients/web clients/web/reference clients/react clients/server-node apps/demo docs/examples

# Every check that takes too long for the gate, each night with another seed. A part that fails ends no other part: hours
nightly:
    #!/usr/bin/env bash
    set -u
    failed=()
    for part in advisories rustdoc reference package-check samples-check kotlin openmls wasm "interop 200 $(date +%Y%m%d)" pack quickstarts shrink swift "mangled 20000 $(date +%Y%m%d)00000" "deploy-check --all" hostile kills attack "soak 50000 $(date +%Y%m%d)" "soak-clients 10000 $(date +%Y%m%d)" "soak-sealed 10000 $(date +%Y%m%d)" explore mutants; do
        echo "== $part"
        just $part || failed+=("$part")
    done
    [ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }

# Format the code
fmt: tools
    cargo fmt --all
    ruff format tools clients/server-python

# Build the functions for AWS, and show the size of each function's zip
package: tools
    @# Here and not among the tools, because it brings a cross compiler along, which nothing else needs.
    command -v cargo-lambda || {{pip}} --requirement tools/scripts/cargo-lambda.txt
    @# cargo-lambda would do it too, but goes on where it fails. A toolchain without rustup has the target or has not.
    ! command -v rustup >/dev/null || rustup target add aarch64-unknown-linux-gnu
    sam build
    python tools/scripts/sizes.py

# The package for AWS, unoptimised, from Debian's Rust: for machines that can't add a target to rustup's
package-check: tools
    command -v cargo-lambda || {{pip}} --requirement tools/scripts/cargo-lambda.txt
    .venv/bin/python tools/scripts/package_check.py

# Build for AWS and deploy, asking for what it needs to know
deploy: package
    sam deploy --guided

# Build and upload this commit, and keep under releases/ what it takes to deploy exactly that again. --region, if none is set
release *ARGS: package
    python tools/scripts/release.py {{ARGS}}

# Every file of events/ through Lambda's Runtime Interface Emulator
invoke-check: tools
    cargo test --workspace --test invoke -- --include-ignored

# Cause each alarm on this machine: the alarm fires, the repair of its runbook is run, and the alarm ends
drills: tools
    cargo test --workspace --test e2e -- --ignored drills

# Deploy to MiniStack, an AWS on this machine, test each route, update, delete. With --all, test end to end
deploy-check *ARGS: tools
    .venv/bin/python tools/ministack/check.py {{ARGS}}

# Deploy to MiniStack and leave it running, to be tried out
deploy-local port="4566": tools
    .venv/bin/python tools/ministack/serve.py --port {{port}}

# Test a deployed stack end to end. `TOKENS NAME SECONDS` prints a token for a user whom the stack has not seen yet
smoke url tokens="cargo run --quiet --bin issuer -- token":
    PIGEONHOLE_URL={{quote(url)}} PIGEONHOLE_TOKENS={{quote(tokens)}} cargo test --workspace --test e2e --features tests/aws

# Call the function for operators, of the local server or of a stack (see docs/operating.md): `just admin '{"op":"kick","user_id":"bob"}'`
admin request function="":
    #!/usr/bin/env bash
    set -euo pipefail
    if [ -n "{{function}}" ]; then
        aws lambda invoke --function-name {{quote(function)}} --cli-binary-format raw-in-base64-out --payload {{quote(request)}} /dev/stdout --query FunctionError
    else
        python3 tools/scripts/admin.py {{quote(request)}}
    fi

# Send a message of a service to a user of the local server (see docs/backend.md): `just publish bob "Your parcel is on its way"`
publish user text service="@shop":
    python3 tools/scripts/publish.py {{quote(user)}} {{quote(text)}} {{quote(service)}}

# The SDKs of docs/examples, which a test runs against the local server
examples: tools node
    cd clients/server-node && npm run build
    cd docs/examples && {{npm_ci}}

# Trace a message by its log lines, of the local server or of a stack (see docs/operating.md): `just trace dm_… 42 STACK`
trace conversation seq *STACK:
    {{ if STACK == "" { "python3" } else { asks_aws } }} tools/scripts/message_trace.py {{quote(conversation)}} {{quote(seq)}} {{STACK}}

# Bring the inbox rows of members up to date, in one group or in all groups (see docs/operating.md): `just repair gr_… --stack STACK`
repair *ARGS:
    {{ if ARGS =~ "--stack" { asks_aws } else { "python3" } }} tools/scripts/repair.py {{ARGS}}

# Retry the pushes of `notify`, or the removals of `media`, that failed after all retries (see docs/operating.md): `just replay notify --stack STACK`
replay *ARGS:
    {{asks_aws}} tools/scripts/replay.py {{ARGS}}

# Fuzz a parser for some seconds: frame, event or token. Needs `cargo install cargo-fuzz`
fuzz target seconds="60":
    cd tools/fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run {{target}} -- -max_total_time={{seconds}} -max_len=40000
