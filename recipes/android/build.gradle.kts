// The Kotlin client as an AAR: its sources, the bindings, and the library for three architectures.
//
//     gradle -p recipes/android publish

plugins {
    id("com.android.library") version "8.13.0"
    kotlin("android") version "2.4.10"
    kotlin("plugin.serialization") version "2.4.10"
    `maven-publish`
}

group = "dev.pigeonhole"
version = "0.1.0"

val tree: File = rootDir.resolve("../..")
val client: File = tree.resolve("clients/kotlin")
val libraries = layout.buildDirectory.dir("jniLibs")
val bindings = layout.buildDirectory.dir("bindings")

// rustup target add aarch64-linux-android armv7-linux-androideabi x86_64-linux-android
val library = tasks.register<Exec>("library") {
    val targets = listOf("arm64-v8a", "armeabi-v7a", "x86_64").flatMap { listOf("--target", it) }
    val build = "build --config clients/ffi/library.toml --locked --profile library --package pigeonhole-ffi"
    workingDir = tree
    commandLine(
        listOf("cargo", "ndk", "--platform", "26", "--output-dir", libraries.get().asFile.path) + targets + build.split(" ")
    )
    outputs.dir(libraries)
    outputs.upToDateWhen { false } // Cargo knows.
}

// From the library that is not stripped yet: Gradle strips the one in the AAR.
val bind = tasks.register<Exec>("bind") {
    val built = "target/aarch64-linux-android/library/libpigeonhole_ffi.so"
    val run = "cargo run --locked --package pigeonhole-ffi --features bindgen --bin bindgen --"
    val generate = "generate $built --language kotlin --no-format --config clients/ffi/uniffi.toml"
    dependsOn(library)
    workingDir = tree
    commandLine("$run $generate".split(" ") + listOf("--out-dir", bindings.get().asFile.path))
    outputs.dir(bindings)
}

android {
    namespace = "dev.pigeonhole"
    compileSdk = 36
    defaultConfig {
        minSdk = 26 // The first one with java.time.
        consumerProguardFiles(client.resolve("consumer-rules.pro"))
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    sourceSets["main"].apply {
        java.srcDirs(client.resolve("src/main/kotlin"), bindings)
        jniLibs.srcDir(libraries)
    }
    publishing { singleVariant("release") { withSourcesJar() } }
}

kotlin { compilerOptions.jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_11 }

tasks.named("preBuild") { dependsOn(bind) }

dependencies {
    api("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.11.0")
    api("org.jetbrains.kotlinx:kotlinx-serialization-json:1.9.0")
    api("com.squareup.okhttp3:okhttp:5.5.1")
    implementation("net.java.dev.jna:jna:5.19.1@aar")
}

publishing {
    repositories { maven(tree.resolve("target/packages/maven")) { name = "packages" } }
    publications {
        register<MavenPublication>("release") {
            artifactId = "pigeonhole-android"
            afterEvaluate { from(components["release"]) }
            pom.licenses {
                license {
                    name = "Apache-2.0"
                    url = "https://www.apache.org/licenses/LICENSE-2.0"
                }
            }
        }
    }
}
