//! Builds the functions with Cargo and finds what it built.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use template::workspace_root;

/// Where each Cargo binary is, by its name.
pub type Binaries = BTreeMap<String, PathBuf>;

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Runs `cargo` with `arguments` (for example `build --bins`) in the workspace and asks it where the results are, which
/// holds for any target directory and profile. Its progress and errors go to our stderr.
pub fn build_functions(arguments: &[&str]) -> anyhow::Result<Binaries> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(&cargo)
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(workspace_root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", cargo.display()))?;
    ensure!(output.status.success(), "the functions do not build (cargo {})", arguments.join(" "));
    let messages = std::str::from_utf8(&output.stdout)?.lines().map(serde_json::from_str::<CargoMessage>);
    let mut binaries = Binaries::new();
    for message in messages {
        let message = message.context("cargo's answer is not understood")?;
        if let ("compiler-artifact", Some(target), Some(executable)) =
            (message.reason.as_str(), message.target, message.executable)
            && target.kind.iter().any(|kind| kind == "bin")
        {
            binaries.insert(target.name, executable);
        }
    }
    Ok(binaries)
}
