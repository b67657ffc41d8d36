//! Prints what devices of encrypted clients have in common exactly if they share an epoch. The web client's tests run the
//! program, while the clients run.
//!
//! The input is a JSON array of devices: `user`, and `peer`, which is the other user or a group. A Rust or Kotlin client
//! has a `store`, and a web client `rows` in base64. The output has the epoch and the authenticator of each device. Epoch 0
//! is that of a device that takes no part.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pigeonhole_sealing::Group;
use pigeonhole_store::Reader;
use serde::Deserialize;
use wire::{Bytes, ConversationId, UserId};

#[derive(Deserialize)]
struct Device {
    user: UserId,
    peer: String,
    store: Option<String>,
    #[serde(default)]
    rows: BTreeMap<String, Bytes>,
}

/// The place of a device in a conversation, as far as it matters here.
#[derive(Deserialize)]
struct Seat {
    epoch: u64,
    state: Option<Bytes>,
}

fn main() -> Result<()> {
    let devices: Vec<Device> = serde_json::from_reader(std::io::stdin())?;
    let epochs: Vec<_> = devices.into_iter().map(epoch).collect::<Result<_>>()?;
    println!("{}", serde_json::to_string(&epochs)?);
    Ok(())
}

fn epoch(device: Device) -> Result<(u64, Bytes)> {
    let Device { user, peer, store, rows } = device;
    let rows = match store {
        Some(path) => Reader::open(path, &user)?.saved()?.sealing,
        None => rows.into_iter().map(|(key, value)| (key, value.as_slice().to_vec())).collect(),
    };
    let id = match ConversationId::parse(&peer) {
        Ok(id) if id.has_members() => id,
        _ => wire::direct_conversation_id(&user, &UserId::parse(&peer)?),
    };
    let Some(seat) = rows.get(&format!("seat/{id}")) else { return Ok((0, Vec::new().into())) };
    let (_version, seat): (u8, Seat) = serde_json::from_slice(seat)?;
    let Some(state) = seat.state else { return Ok((0, Vec::new().into())) };
    let tree = rows.get(&format!("tree/{id}")).context("the group has a tree")?;
    let group = Group::from_stored(state.as_slice().to_vec(), tree.clone())?;
    Ok((seat.epoch, group.authenticator()?.into()))
}
