#!/usr/bin/env bash
# Builds a Swift package with an XCFramework into target/packages/apple, on a Mac: for iPhones, their simulator and Macs.
# The library in it is static. An app that links another static library of Rust too gets each symbol of Rust twice.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=target/packages/apple
headers=$package/headers
slices=(aarch64-apple-ios aarch64-apple-ios-sim x86_64-apple-ios aarch64-apple-darwin x86_64-apple-darwin)
library=(--config clients/ffi/library.toml --locked --profile library --package pigeonhole-ffi)
export IPHONEOS_DEPLOYMENT_TARGET=17.0 MACOSX_DEPLOYMENT_TARGET=14.0

rustup target add "${slices[@]}"
rm -rf "$package"
mkdir -p "$headers" "$package/Sources"

# The bindings, from the library for this Mac.
cargo build "${library[@]}"
cargo run --locked --package pigeonhole-ffi --features bindgen --bin bindgen -- generate \
    target/library/libpigeonhole_ffi.dylib --language swift --no-format --config clients/ffi/uniffi.toml \
    --out-dir "$package/Sources/PigeonholeFFI"
mv "$package/Sources/PigeonholeFFI/PigeonholeCore.h" "$headers"
printf 'module PigeonholeCore {\n    header "PigeonholeCore.h"\n    export *\n}\n' >"$headers/module.modulemap"

for slice in "${slices[@]}"; do
    cargo rustc "${library[@]}" --lib --crate-type staticlib --target "$slice"
done

# Writes one library for both processors.
both() {
    mkdir -p "$(dirname "$1")"
    lipo -create "target/$2/library/libpigeonhole_ffi.a" "target/$3/library/libpigeonhole_ffi.a" -output "$1"
}
both "$package/simulator/libpigeonhole_ffi.a" aarch64-apple-ios-sim x86_64-apple-ios
both "$package/mac/libpigeonhole_ffi.a" aarch64-apple-darwin x86_64-apple-darwin
xcodebuild -create-xcframework \
    -library target/aarch64-apple-ios/library/libpigeonhole_ffi.a -headers "$headers" \
    -library "$package/simulator/libpigeonhole_ffi.a" -headers "$headers" \
    -library "$package/mac/libpigeonhole_ffi.a" -headers "$headers" \
    -output "$package/PigeonholeCore.xcframework"

cp -R clients/swift/Sources/PigeonholeKit "$package/Sources"
cp recipes/apple/Package.swift LICENSE "$package"
rm -rf "$headers" "$package/simulator" "$package/mac"
# An app builds for the simulator; the checksum is for a `binaryTarget` with a URL.
(cd "$package" && zip -qry PigeonholeCore.xcframework.zip PigeonholeCore.xcframework &&
    swift package compute-checksum PigeonholeCore.xcframework.zip &&
    xcodebuild build -scheme PigeonholeKit -destination 'generic/platform=iOS Simulator')
