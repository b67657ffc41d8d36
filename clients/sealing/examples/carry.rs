//! Opens a message with a state that WebAssembly stored, and seals the next one: `cargo run --example carry`. Reads a JSON
//! object from the input and writes another, with bytes as base64. The web client's tests run it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a program for tests")]

use data_encoding::BASE64;
use pigeonhole_sealing::{Conversation, Entry, Envelope, Group};
use serde_json::{Value, json};
use wire::{ClientMsgId, UserId};

fn main() {
    let input: Value = serde_json::from_reader(std::io::stdin()).unwrap();
    let text = |name: &str| input[name].as_str().unwrap().to_owned();
    let bytes = |name: &str| BASE64.decode(text(name).as_bytes()).unwrap();
    let (me, peer) = (UserId::parse(&text("me")).unwrap(), UserId::parse(&text("peer")).unwrap());
    let conversation = Conversation::direct(&me, &peer);
    let entry = Entry { conversation: &conversation, sender_id: &peer, client_msg_id: None, epoch: 1 };

    let group = Group::from_stored(bytes("state"), bytes("tree")).unwrap();
    let (group, opened) = group.open(entry, &bytes("body")).unwrap();
    let opened = Envelope::read(&opened.plaintext).unwrap().body;

    let reply = Envelope { kind: "text".into(), body: text("reply"), ..Envelope::default() };
    let (group, body) = group.seal(&conversation, &ClientMsgId::parse("m9").unwrap(), &reply.write()).unwrap();
    println!("{}", json!({"opened": opened, "state": BASE64.encode(group.state()), "body": BASE64.encode(&body)}));
}
