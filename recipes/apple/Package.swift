// swift-tools-version: 6.0

import PackageDescription

// `build.sh` puts this file next to what it names.
let package = Package(
    name: "Pigeonhole",
    platforms: [.iOS(.v17), .macOS(.v14)],
    products: [.library(name: "PigeonholeKit", targets: ["PigeonholeKit"])],
    targets: [
        .binaryTarget(name: "PigeonholeCore", path: "PigeonholeCore.xcframework"),
        .target(
            name: "PigeonholeFFI", dependencies: ["PigeonholeCore"], swiftSettings: [.swiftLanguageMode(.v5)]),
        .target(name: "PigeonholeKit", dependencies: ["PigeonholeFFI"]),
    ]
)
