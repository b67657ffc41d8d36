//! Runs the session against the scripts in conformance/, whose README explains the steps.

pub(crate) mod frames;
mod play;
pub(crate) mod script;

use std::fs;
use std::path::{Path, PathBuf};

use play::Play;
use serde_json::{Value, json};

use script::variants;

#[test]
fn catching_up() {
    play_file("catching-up");
}

#[test]
fn changing() {
    play_file("changing");
}

#[test]
fn channels() {
    play_file("channels");
}

#[test]
fn connecting() {
    play_file("connecting");
}

#[test]
fn data() {
    play_file("data");
}

#[test]
fn fuse() {
    play_file("fuse");
}

#[test]
fn groups() {
    play_file("groups");
}

#[test]
fn http() {
    play_file("http");
}

#[test]
fn media() {
    play_file("media");
}

#[test]
fn names() {
    play_file("names");
}

#[test]
fn receiving() {
    play_file("receiving");
}

#[test]
fn registering() {
    play_file("registering");
}

#[test]
fn replacing() {
    play_file("replacing");
}

#[test]
fn sending() {
    play_file("sending");
}

#[test]
fn services() {
    play_file("services");
}

#[test]
fn settings() {
    play_file("settings");
}

#[test]
fn store() {
    play_file("store");
}

#[test]
fn all_files_are_played() {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "catching-up",
            "changing",
            "channels",
            "chat",
            "connecting",
            "data",
            "fuse",
            "groups",
            "http",
            "media",
            "names",
            "receiving",
            "registering",
            "replacing",
            "search",
            "sending",
            "services",
            "settings",
            "store",
            "timeline"
        ]
    );
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

pub(crate) fn scenarios(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(format!("{name}.yaml"))).unwrap();
    let scenarios: Vec<Value> = serde_yaml_ng::from_str(&text).unwrap();
    assert!(!scenarios.is_empty());
    scenarios
}

fn play_file(name: &str) {
    for scenario in &scenarios(name) {
        for steps in variants(scenario) {
            let mut play = Play::new(scenario);
            let by = if scenario["http"] == true { "http" } else { "socket" };
            let before = if scenario.get("begin").is_some() { caught_up(by) } else { Vec::new() };
            for step in before.iter().chain(&steps) {
                play.take(step);
            }
            play.nothing_else("at the end");
        }
    }
}

fn caught_up(by: &str) -> Vec<Value> {
    vec![
        json!({"dials": {"need": "connect"}}),
        json!({"told": {"state": "connecting"}}),
        json!({"open": {}}),
        json!({"told": {"state": "online"}}),
        json!({"asks": {"action": "drain"}, "by": by, "result": {"messages": [], "more": false}}),
        json!({"asks": {"action": "inbox", "limit": 50}, "by": by, "result": {"conversations": [], "next_cursor": null}}),
        json!({"told": {"state": "caught_up"}}),
    ]
}
