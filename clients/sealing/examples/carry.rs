//! Opens the keyring of a web client and takes an entry: `cargo run --example carry`. Reads a JSON object from the input and
//! writes another, with rows as base64. The web client's tests run the program.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a program for tests")]

use std::collections::BTreeMap;

use data_encoding::BASE64;
use pigeonhole_sealing::{Identity, Keyring};
use serde_json::{Value, json};
use wire::{DeviceId, Message, UserId};

fn main() {
    let input: Value = serde_json::from_reader(std::io::stdin()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let bytes = |value: &Value| BASE64.decode(text(value).as_bytes()).unwrap();
    let identity =
        Identity::import(UserId::parse(&text(&input["user"])).unwrap(), &bytes(&input["identity"]).try_into().unwrap());
    let device = DeviceId::parse(&text(&input["device"])).unwrap();
    let mut rows: BTreeMap<String, Vec<u8>> =
        input["rows"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), bytes(value))).collect();

    let mut keyring = Keyring::open(&identity, device, rows.clone(), &[7; 32]).unwrap();
    let entry: Message = serde_json::from_value(input["entry"].clone()).unwrap();
    let taken = keyring.take(&entry, input["now"].as_u64().unwrap());
    for (key, value) in keyring.take_changes() {
        match value {
            Some(value) => drop(rows.insert(key, value.to_vec())),
            None => drop(rows.remove(&key)),
        }
    }
    let rows: BTreeMap<_, _> = rows.iter().map(|(key, value)| (key, BASE64.encode(value))).collect();
    println!("{}", json!({"taken": taken, "rows": rows}));
}
