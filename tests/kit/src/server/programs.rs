//! The programs that a test starts. Cargo builds them once, in the profile of the test itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use template::workspace_root;

/// Returns the folder that has every program of the workspace, the binary of each function among them.
pub fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build(&["--bins"]))
}

/// Returns the program of `cargo run`, which is the local server and each of its functions.
pub(super) fn pigeonhole() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build(&["--bin", "pigeonhole"]).join("pigeonhole"))
}

/// Returns an example of the Rust client.
pub fn example(name: &str) -> PathBuf {
    build(&["--example", name]).join("examples").join(name)
}

/// Returns the folder: `target/debug` for a test in `target/debug/deps`, `target/release` for a program there.
fn build(what: &[&str]) -> PathBuf {
    let this = std::env::current_exe().expect("a test knows its own path");
    let folder = this.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).expect("Cargo built this program");
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("the folder has its profile's name");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        // With the features of the workspace, as `cargo test --workspace` builds it, so that nothing is built twice.
        .args(["build", "--workspace", "--profile", if profile == "debug" { "dev" } else { profile }])
        .args(what)
        .arg("--target-dir")
        .args(folder.parent())
        .current_dir(workspace_root())
        .stdin(Stdio::null())
        .status();
    assert!(status.expect("Cargo runs").success(), "cargo build {}", what.join(" "));
    folder.to_owned()
}
