//! The end-to-end encryption as WebAssembly, for the web client: a keyring whose calls and results are JSON.
//!
//! A panic ends the instance: every later call fails. The stored rows stay valid, as after any error.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use sealing::{Envelope, Fetch, Identity, Part, Party, RequestKey, Roll, SEED_BYTES, Upload};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wasm_bindgen::prelude::*;
use wire::{Action, Bytes, ClientMsgId, ConversationId, DeviceId, MediaId, Message, Problem, Seq, UserId};

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
    Franking {
        on: bool,
    },
    Created {
        conversation: ConversationId,
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
        with: Party,
        now: u64,
    },
    Prepare {
        with: Party,
        now: u64,
    },
    Sealed {
        with: Party,
        id: ClientMsgId,
    },
    Seal {
        with: Party,
        id: ClientMsgId,
        kind: String,
        body: String,
        at: String,
        after: u64,
        fields: Map<String, Value>,
    },
    Stale {
        with: Party,
        id: ClientMsgId,
        epoch: u64,
        last_seq: Seq,
        now: u64,
    },
    Sent {
        with: Party,
        id: ClientMsgId,
        seq: Option<Seq>,
        now: u64,
    },
    Rekey {
        with: Party,
        id: ClientMsgId,
        left: Vec<UserId>,
        now: u64,
    },
    Roll {
        conversation: ConversationId,
        id: ClientMsgId,
        change: Change,
        now: u64,
    },
    Rolled {
        conversation: ConversationId,
        id: ClientMsgId,
        seq: Option<Seq>,
        problem: Option<Problem>,
        now: u64,
    },
    CarryFiles {},
    Uploads {
        now: u64,
    },
    Uploaded {
        conversation: ConversationId,
        id: ClientMsgId,
        part: Part,
        media: Option<MediaId>,
        now: u64,
    },
    Fetches {
        now: u64,
    },
    Fetched {
        conversation: ConversationId,
        media: MediaId,
        bytes: u64,
        sha256: String,
        data: Option<Bytes>,
        now: u64,
    },
    Lock {
        with: Party,
    },
    Held {
        with: Party,
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
        with: Party,
        now: u64,
    },
    Devices {},
    RemoveDevice {
        device: DeviceId,
        now: u64,
    },
}

/// A change of a group's members.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Add(Vec<UserId>),
    Remove(UserId),
}

#[wasm_bindgen]
impl Keyring {
    /// Opens the keyring. `rows`: a JSON object with the rows of earlier runs as base64.
    #[wasm_bindgen(constructor)]
    pub fn new(user: &str, device: &str, identity: &[u8], rows: &str, seed: &[u8]) -> Result<Self> {
        let (identity, seed): ([u8; SEED_BYTES], [u8; SEED_BYTES]) = (identity.try_into()?, seed.try_into()?);
        let rows: BTreeMap<String, String> = read(rows)?;
        let rows: std::result::Result<BTreeMap<_, _>, _> =
            rows.into_iter().map(|(key, value)| BASE64.decode(value.as_bytes()).map(|value| (key, value))).collect();
        let identity = Identity::import(UserId::parse(user)?, &identity);
        Ok(Self(sealing::Keyring::open(&identity, DeviceId::parse(device)?, rows?, &seed)?))
    }

    /// Carries out a call.
    pub fn call(&mut self, call: &str) -> Result<String> {
        self.carry_out(read(call)?)
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
            Call::Created { conversation } => json(&ring.created(&conversation)),
            Call::Franking { on } => json(&ring.set_franking(on)),
            Call::Requests { now } => {
                let due = ring.requests(now);
                json(&due.iter().map(|(key, action)| Ok((key, request(action)?))).collect::<Result<Vec<_>>>()?)
            }
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
            Call::Met { with, now } => json(&ring.met(with, now)),
            Call::Prepare { with, now } => json(&ring.prepare(with, now)),
            Call::Sealed { with, id } => json(&ring.sealed(with, &id)),
            Call::Seal { with, id, kind, body, at, after, fields } => {
                json(&ring.seal(with, &id, &Envelope { kind, body, at, after, fields })?)
            }
            Call::Stale { with, id, epoch, last_seq, now } => json(&ring.stale(with, &id, epoch, last_seq, now)),
            Call::Sent { with, id, seq, now } => json(&ring.sent(with, &id, seq, now)),
            Call::Rekey { with, id, left, now } => json(&ring.rekey(with, &id, &left, now)),
            Call::Roll { conversation, id, change, now } => {
                let roll = match &change {
                    Change::Add(users) => Roll::Add(users),
                    Change::Remove(user) => Roll::Remove(user),
                };
                json(&ring.roll(&conversation, &id, roll, now))
            }
            Call::Rolled { conversation, id, seq, problem, now } => {
                let result = match (seq, &problem) {
                    (Some(seq), _) => Ok(seq),
                    (None, Some(problem)) => Err(problem),
                    (None, None) => return Err(JsError::new("a change has a place or a problem")),
                };
                json(&ring.rolled(&conversation, &id, result, now))
            }
            Call::CarryFiles {} => json(&ring.carry_files()),
            Call::Uploads { now } => json(&ring.uploads(now).into_iter().map(uploading).collect::<Vec<_>>()),
            Call::Uploaded { conversation, id, part, media, now } => {
                let upload = Upload { conversation_id: conversation, client_msg_id: id, part, bytes: Vec::new() };
                json(&ring.uploaded(&upload, media, now))
            }
            Call::Fetches { now } => json(&ring.fetches(now).into_iter().map(fetching).collect::<Vec<_>>()),
            Call::Fetched { conversation, media, bytes, sha256, data, now } => {
                let fetch = Fetch { conversation_id: conversation, media_id: media, bytes, sha256 };
                json(&ring.fetched(&fetch, data.map(|data| data.as_slice().to_vec()), now))
            }
            Call::Lock { with } => json(&ring.lock(with)),
            Call::Held { with } => json(&ring.held(with)),
            Call::SafetyNumber { peer } => json(&ring.safety_number(&peer).map(|number| number.to_string())),
            Call::SafetyCode { peer } => json(&ring.safety_number(&peer).map(|number| BASE64.encode(number.bytes()))),
            Call::IsVerified { peer } => json(&ring.is_verified(&peer)),
            Call::Verify { peer } => json(&ring.verify(&peer)),
            Call::Accept { peer } => json(&ring.accept(&peer)),
            Call::Reset { with, now } => json(&ring.reset(with, now)),
            Call::Devices {} => json(&ring.devices()),
            Call::RemoveDevice { device, now } => json(&ring.remove_device(&device, now)),
        }
    }
}

/// Returns the name and the fields of a request.
fn request(action: &Action) -> Result<(&'static str, Value)> {
    let fields = match action {
        Action::ListKeys(request) => serde_json::to_value(request),
        Action::PublishKeys(request) => serde_json::to_value(request),
        Action::RemoveKeys(request) => serde_json::to_value(request),
        Action::ClaimKeys(request) => serde_json::to_value(request),
        Action::GroupInfo(request) => serde_json::to_value(request),
        Action::History(request) => serde_json::to_value(request),
        Action::Commit(request) => serde_json::to_value(request),
        Action::Members(request) => serde_json::to_value(request),
        // A keyring makes no others, and the code that writes them all is a tenth of a page's download.
        _ => return Err(JsError::new("no request of a keyring")),
    };
    Ok((action.name(), fields?))
}

/// Returns the upload with its bytes.
fn uploading(upload: Upload) -> Value {
    json!({
        "conversation": upload.conversation_id, "id": upload.client_msg_id, "part": upload.part,
        "sha256": upload.sha256(), "data": Bytes::from(upload.bytes),
    })
}

fn fetching(fetch: Fetch) -> Value {
    let Fetch { conversation_id, media_id, bytes, sha256 } = fetch;
    json!({"conversation": conversation_id, "media": media_id, "bytes": bytes, "sha256": sha256})
}

/// Reads by way of a value, as all results of the server: the code that reads a type is in the file once.
fn read<T: DeserializeOwned>(json: &str) -> Result<T> {
    Ok(serde_json::from_value(serde_json::from_str(json)?)?)
}

fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}
