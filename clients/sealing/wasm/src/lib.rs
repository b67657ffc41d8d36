//! The end-to-end encryption as WebAssembly, for the web client: a keyring whose calls and results are JSON.
//!
//! A panic ends the instance: every later call fails. The stored rows stay valid, as after any error.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use sealing::{Envelope, Identity, RequestKey, SEED_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wasm_bindgen::prelude::*;
use wire::{ClientMsgId, ConversationId, DeviceId, Message, Problem, Seq, UserId};

type Result<T> = std::result::Result<T, JsError>;

/// The keys of one device of a user.
#[wasm_bindgen]
pub struct Keyring(sealing::Keyring);

/// A call, as [`sealing::Keyring`] has it. `now`: milliseconds since 1970.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Call {
    TakeChanges {},
    Connected {},
    KeysLow {
        left: u64,
    },
    CaughtUp {
        now: u64,
    },
    Requests {
        now: u64,
    },
    Answered {
        key: RequestKey,
        result: Option<Value>,
        problem: Option<Problem>,
        now: u64,
    },
    WakeAt {},
    Take {
        message: Box<Message>,
        now: u64,
    },
    Position {
        conversation: ConversationId,
    },
    Due {},
    Met {
        peer: UserId,
        now: u64,
    },
    Prepare {
        peer: UserId,
        now: u64,
    },
    Sealed {
        peer: UserId,
        id: ClientMsgId,
    },
    Seal {
        peer: UserId,
        id: ClientMsgId,
        kind: String,
        body: String,
        at: String,
        after: u64,
        fields: Map<String, Value>,
    },
    Stale {
        peer: UserId,
        id: ClientMsgId,
        epoch: u64,
        last_seq: Seq,
        now: u64,
    },
    Sent {
        peer: UserId,
        id: ClientMsgId,
        seq: Option<Seq>,
        now: u64,
    },
    Lock {
        peer: UserId,
    },
    SafetyNumber {
        peer: UserId,
    },
    SafetyCode {
        peer: UserId,
    },
    IsVerified {
        peer: UserId,
    },
    Verify {
        peer: UserId,
    },
    Accept {
        peer: UserId,
    },
    Reset {
        peer: UserId,
        now: u64,
    },
    Devices {},
    RemoveDevice {
        device: DeviceId,
        now: u64,
    },
}

#[wasm_bindgen]
impl Keyring {
    /// Opens the keyring. `rows`: a JSON object with the rows of earlier runs as base64.
    #[wasm_bindgen(constructor)]
    pub fn new(user: &str, device: &str, identity: &[u8], rows: &str, seed: &[u8]) -> Result<Self> {
        let (identity, seed): ([u8; SEED_BYTES], [u8; SEED_BYTES]) = (identity.try_into()?, seed.try_into()?);
        let rows: BTreeMap<String, String> = serde_json::from_str(rows)?;
        let rows: std::result::Result<BTreeMap<_, _>, _> =
            rows.into_iter().map(|(key, value)| BASE64.decode(value.as_bytes()).map(|value| (key, value))).collect();
        let identity = Identity::import(UserId::parse(user)?, &identity);
        Ok(Self(sealing::Keyring::open(&identity, DeviceId::parse(device)?, rows?, &seed)?))
    }

    /// Carries out a call.
    pub fn call(&mut self, call: &str) -> Result<String> {
        self.carry_out(serde_json::from_str(call)?)
    }
}

impl Keyring {
    fn carry_out(&mut self, call: Call) -> Result<String> {
        let ring = &mut self.0;
        match call {
            Call::TakeChanges {} => {
                let base64 = |value: &[u8]| BASE64.encode(value);
                let changes = ring.take_changes().into_iter();
                json(&changes.map(|(key, value)| (key, value.map(|value| base64(&value)))).collect::<Vec<_>>())
            }
            Call::Connected {} => json(&ring.connected()),
            Call::KeysLow { left } => json(&ring.keys_low(left)),
            Call::CaughtUp { now } => json(&ring.caught_up(now)),
            Call::Requests { now } => json(&ring.requests(now)),
            Call::Answered { key, result, problem, now } => {
                let result = match problem {
                    None => Ok(result.unwrap_or_default()),
                    Some(problem) => Err(problem),
                };
                json(&ring.answered(&key, result, now))
            }
            Call::WakeAt {} => json(&ring.wake_at()),
            Call::Take { message, now } => json(&ring.take(&message, now)),
            Call::Position { conversation } => json(&ring.position(&conversation)),
            Call::Due {} => json(&ring.due()),
            Call::Met { peer, now } => json(&ring.met(&peer, now)),
            Call::Prepare { peer, now } => json(&ring.prepare(&peer, now)),
            Call::Sealed { peer, id } => json(&ring.sealed(&peer, &id)),
            Call::Seal { peer, id, kind, body, at, after, fields } => {
                json(&ring.seal(&peer, &id, &Envelope { kind, body, at, after, fields })?)
            }
            Call::Stale { peer, id, epoch, last_seq, now } => json(&ring.stale(&peer, &id, epoch, last_seq, now)),
            Call::Sent { peer, id, seq, now } => json(&ring.sent(&peer, &id, seq, now)),
            Call::Lock { peer } => json(&ring.lock(&peer)),
            Call::SafetyNumber { peer } => json(&ring.safety_number(&peer).map(|number| number.to_string())),
            Call::SafetyCode { peer } => json(&ring.safety_number(&peer).map(|number| BASE64.encode(number.bytes()))),
            Call::IsVerified { peer } => json(&ring.is_verified(&peer)),
            Call::Verify { peer } => json(&ring.verify(&peer)),
            Call::Accept { peer } => json(&ring.accept(&peer)),
            Call::Reset { peer, now } => json(&ring.reset(&peer, now)),
            Call::Devices {} => json(&ring.devices()),
            Call::RemoveDevice { device, now } => json(&ring.remove_device(&device, now)),
        }
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}
