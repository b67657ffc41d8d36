// swift-tools-version: 6.0

import PackageDescription

// `just swift` writes the folder Generated: the library for this machine, and the bindings that belong to it.
let package = Package(
    name: "Pigeonhole",
    platforms: [.iOS(.v17), .macOS(.v14)],
    products: [.library(name: "PigeonholeKit", targets: ["PigeonholeKit"])],
    targets: [
        .systemLibrary(name: "PigeonholeCore"),
        .target(
            name: "PigeonholeFFI", dependencies: ["PigeonholeCore"], path: "Generated/PigeonholeFFI",
            swiftSettings: [.swiftLanguageMode(.v5)]),
        .target(name: "PigeonholeKit", dependencies: ["PigeonholeFFI"]),
        .executableTarget(name: "chat", dependencies: ["PigeonholeKit"], path: "Examples/chat"),
        .target(name: "ChatApp", dependencies: ["PigeonholeKit"], path: "Examples/ChatApp"),
        .executableTarget(name: "drive", dependencies: ["PigeonholeKit"], path: "Tests/Drive"),
        .testTarget(name: "PigeonholeKitTests", dependencies: ["PigeonholeKit", "PigeonholeFFI", "ChatApp"]),
    ]
)
