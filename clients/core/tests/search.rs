//! Plays `conformance/search.yaml` on the store in memory and on the one in a file.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use pigeonhole_core::{MemStore, Write};
use pigeonhole_store::Store;
use serde_json::{Value, json};
use wire::{Message, UserId};

fn entry(seq: u64, kind: &str, body: &Value) -> Value {
    json!({"conversation_id": "dm_ab", "seq": seq, "message_id": format!("m{seq}"), "sender_id": "bob", "kind": kind,
        "body": body, "sent_at": format!("2026-11-20T10:00:{seq:02}.000Z")})
}

fn entries(scenario: &Value) -> Vec<Write> {
    let texts = scenario["messages"].as_object().unwrap();
    let mut entries: Vec<Value> = (1..).zip(texts.values()).map(|(seq, body)| entry(seq, "text", body)).collect();
    for change in scenario["changes"].as_array().into_iter().flatten() {
        let seq = entries.len() as u64 + 1;
        let (kind, target) = change.as_object().unwrap().iter().find(|(name, _)| *name != "body").unwrap();
        let mut entry = entry(seq, kind, change.get("body").unwrap_or(&json!("")));
        entry["target_seq"] = target.clone();
        if kind == "edit" {
            entry["version"] = json!(seq);
        }
        entries.push(entry);
    }
    entries.into_iter().map(|entry| Write::Entry(serde_json::from_value::<Message>(entry).unwrap())).collect()
}

#[test]
fn each_search_finds_what_the_script_names() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/search.yaml");
    let scenarios: Vec<Value> = serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (number, scenario) in scenarios.iter().enumerate() {
        let me = UserId::parse("alice").unwrap();
        let folder = std::env::temp_dir().join(format!("pigeonhole-search-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut store = Store::open(folder.join("store"), &me).unwrap();
        let mut memory = MemStore::new(me);
        let writes = entries(scenario);
        store.apply(&writes, false).unwrap();
        memory.apply(&writes);
        for (words, seqs) in scenario["finds"].as_object().unwrap() {
            let place = format!("{}: {words:?}", scenario["name"]);
            let found = |messages: Vec<Message>| json!(messages.iter().map(|message| message.seq).collect::<Vec<_>>());
            assert_eq!(found(store.search(words, 9).unwrap()), *seqs, "in the file, {place}");
            assert_eq!(found(memory.search(words, 9)), *seqs, "in memory, {place}");
        }
        drop(store);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
