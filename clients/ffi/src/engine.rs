//! The engine: a session and its store, one turn at a time.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pigeonhole_core::chat::Found;
use pigeonhole_core::{
    Core, Input, Keeper, Keyring, Keys, Moment, Queued, Saved, Setup, Step, StorageChange, Timing, Write,
};
use pigeonhole_store::{MESSAGES_MAX, Store, TIDY_AFTER};
use serde_json::json;
use wire::{ConversationId, DeviceId, Seq, Timestamp, UserId};

use crate::edge::{EdgeInput, EdgeOutput, Turn};
use crate::fault::Fault;

/// How to open an engine.
#[derive(Clone, Debug, uniffi::Record)]
pub struct EngineSetup {
    /// An existing folder of this user and device alone. `None`: nothing survives the engine.
    pub folder: Option<String>,
    /// Keeps messages too, for views. Otherwise, the app keeps them, and returns [`EdgeInput::Done`].
    pub messages: bool,
    /// The user that the tokens are for.
    pub user_id: String,
    /// A random number, for the waits before reconnects.
    pub seed: u64,
    /// Other times than the usual ones, in milliseconds, by the names of the core's `Timing`.
    pub timing: HashMap<String, u64>,
    /// The data that another client kept until now, as [`Engine::saved`] returns it. Only for a store that is new.
    pub saved: Option<String>,
    /// Encrypts direct conversations from end to end. Needs a folder and `messages`.
    #[uniffi(default = None)]
    pub encrypted: Option<Encrypted>,
    /// Views have the names of the users in them, if the server has profiles. The client requests them.
    #[uniffi(default = false)]
    pub names: bool,
    /// The caller can carry out an [`EdgeOutput::Post`].
    #[uniffi(default = false)]
    pub http: bool,
}

/// The keys of a client with end-to-end encryption.
#[derive(Clone, uniffi::Record)]
pub struct Encrypted {
    /// The user's identity: the 32 bytes of [`generate_keys`], the same on all devices of the user.
    pub seed: Vec<u8>,
    /// The name of this installation, as its connections have it, the same for the life of the folder.
    pub device_id: String,
}

impl std::fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encrypted")
    }
}

/// Makes the identity of a user: 32 random bytes, which the app keeps in the key storage of the system.
///
/// # Errors
/// `config`: the system has no random numbers.
#[uniffi::export]
pub fn generate_keys() -> Result<Vec<u8>, Fault> {
    Ok(Keys::generate()?.export().to_vec())
}

/// The counters since the engine was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Record)]
pub struct Counters {
    /// Requests of the outbox that were sent.
    pub sent: u64,
    /// Requests of the outbox that have a reply.
    pub answered: u64,
    /// Repetitions.
    pub resent: u64,
    /// Requests that the server refused for good.
    pub failed: u64,
    /// Entries that the app got.
    pub received: u64,
    /// Entries that came again.
    pub duplicates_dropped: u64,
    /// Encrypted messages that this device can't read.
    pub unreadable: u64,
    /// Gaps that were filled.
    pub gaps_repaired: u64,
    /// Connections after the first one.
    pub reconnects: u64,
}

/// A client without sockets, threads and timers. The caller passes in what happens, and does what comes out.
///
/// Any thread may call; a call waits for the one before. Nothing of the caller's runs inside a call. The end of the
/// object (`close()` in Kotlin, `deinit` in Swift) closes the store.
#[derive(uniffi::Object)]
pub struct Engine {
    state: Mutex<State>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

struct State {
    core: Core,
    /// `None`: nothing is to survive.
    store: Option<Store>,
    /// A turn whose writes are not committed.
    unwritten: Option<Step>,
    /// Outputs for the next result, whose writes are committed.
    outputs: Vec<EdgeOutput>,
    /// Reads of the store and what the setup says, for the next turn of the core.
    loaded: Vec<Input>,
    /// The store has been written since it was last tidied.
    is_untidy: bool,
    messages_max: usize,
}

#[uniffi::export]
impl Engine {
    /// Opens the store, or creates one, and continues from it. The first turn dials.
    ///
    /// # Errors
    /// `config`; `locked`: another engine has the folder; `newer`, `wrong_user`, `store`.
    #[uniffi::constructor]
    pub fn open(setup: EngineSetup) -> Result<Arc<Self>, Fault> {
        let EngineSetup { folder, messages, user_id, seed, timing, saved, encrypted, names, http } = setup;
        if encrypted.is_some() && (!messages || folder.is_none()) {
            return Err(Fault::new("config", "encryption needs a folder in which messages are kept".to_owned()));
        }
        let keeper = if messages { Keeper::Store } else { Keeper::App };
        let me = UserId::parse(&user_id).map_err(|error| Fault::new("config", format!("the user id {error}")))?;
        let timing = changed(timing)?;
        let mut store = folder.map(|folder| Store::open(Path::new(&folder).join("store"), &me)).transpose();
        if let (Ok(Some(store)), Some(saved)) = (&mut store, saved) {
            take_over(store, &saved)?;
        }
        let store = store.map_err(|error| Fault::from(&error))?;
        let found = store.as_ref().map_or_else(|| Ok(Saved::default()), |store| store.saved());
        let mut found = found.map_err(|error| Fault::from(&error))?;
        let messages_max = if encrypted.is_some() { usize::MAX } else { MESSAGES_MAX };
        let keyring = encrypted.map(|encrypted| keyring(&me, &encrypted, &mut found)).transpose()?;
        let set_aside = store.as_ref().and_then(Store::set_aside);
        let outputs = set_aside.map(|path| json!({"set_aside": {"path": path}}).to_string());
        let outputs = outputs.into_iter().map(|event| EdgeOutput::Event { event }).collect();
        let core = Core::new(Setup { me, timing, keeper, saved: found, keyring }, seed);
        let is_untidy = store.is_some();
        let loaded = names.then_some(Input::Names).into_iter().chain(http.then_some(Input::Http)).collect();
        let state = State { core, store, unwritten: None, outputs, loaded, is_untidy, messages_max };
        Ok(Arc::new(Self { state: Mutex::new(state) }))
    }

    /// Takes the inputs in their order, commits what follows in one transaction, and returns what is to be done then.
    /// `now` is in milliseconds, by a clock that never goes back; `wall` is in milliseconds since 1970, by the clock on the
    /// wall.
    ///
    /// # Errors
    /// `store`, with `retryable`: the transaction failed, of a full disk for example. Close all connections, and call
    /// this again without inputs until it succeeds. `store` otherwise, or `broken`: open another engine.
    pub fn turn(&self, inputs: Vec<EdgeInput>, now: u64, wall: i64) -> Result<Turn, Fault> {
        self.with(|state| {
            state.commit()?;
            if inputs.is_empty() {
                state.tidy();
            }
            let mut next = std::mem::take(&mut state.loaded);
            next.extend(inputs.into_iter().filter_map(|input| state.read(input)));
            let wake_at = loop {
                let step = state.core.turn(next, Moment::from_millis(now), Timestamp::from_millis(wall));
                state.unwritten = Some(step);
                let wake_at = state.commit()?;
                next = std::mem::take(&mut state.loaded);
                if next.is_empty() {
                    break wake_at;
                }
            };
            let tidy_at = state.is_untidy.then(|| Moment::from_millis(now) + TIDY_AFTER);
            let wake_at = wake_at.into_iter().chain(tidy_at).min().map(Moment::millis);
            Ok(Turn { outputs: std::mem::take(&mut state.outputs), wake_at })
        })
    }

    /// Has all of the store on the disk, before the process is suspended.
    ///
    /// # Errors
    /// As those of [`turn`](Self::turn).
    pub fn flush(&self) -> Result<(), Fault> {
        self.with(|state| {
            state.commit()?;
            let flushed = state.store.as_mut().map_or(Ok(()), |store| store.apply(&[], true));
            flushed.map_err(|error| Fault::unwritten(&error))
        })
    }

    /// Returns the newest `limit` messages of the store that contain all words, the newest first, as a JSON array. The last
    /// word may be incomplete.
    ///
    /// # Errors
    /// `store` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn search(&self, text: String, limit: u32) -> Result<String, Fault> {
        self.with(|state| {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let found = state.store.as_ref().map_or_else(|| Ok(vec![]), |store| store.search(&text, limit));
            Ok(json!(found.map_err(|error| Fault::from(&error))?).to_string())
        })
    }

    /// Returns the requests that have no reply, oldest first, in the form of [`EdgeInput::Keep`].
    ///
    /// # Errors
    /// `broken`.
    pub fn outbox(&self) -> Result<Vec<String>, Fault> {
        self.with(|state| Ok(state.core.outbox().iter().map(|queued| json!(queued).to_string()).collect()))
    }

    /// Returns the safety number of the user and this one: 12 groups of 5 digits, the same for both. `None`: the client
    /// does not know the other's keys yet.
    ///
    /// # Errors
    /// `config`: the engine has no encryption. `bad_request` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn safety_number(&self, user_id: String) -> Result<Option<String>, Fault> {
        let user = UserId::parse(&user_id).map_err(|error| Fault::new("bad_request", format!("user_id: {error}")))?;
        self.with(|state| {
            let keyring = state.core.keyring().ok_or_else(|| Fault::new("config", NOT_ENCRYPTED.to_owned()))?;
            Ok(keyring.safety_number(&user).map(|number| number.to_string()))
        })
    }

    /// Returns the user's devices that have keys, as a JSON array of `{device, known, left, seen_at}`. `known` is false if
    /// the device has another identity than the user.
    ///
    /// # Errors
    /// `config`: the engine has no encryption. `broken`.
    pub fn devices(&self) -> Result<String, Fault> {
        self.with(|state| {
            let keyring = state.core.keyring().ok_or_else(|| Fault::new("config", NOT_ENCRYPTED.to_owned()))?;
            Ok(json!(keyring.devices()).to_string())
        })
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// `broken`.
    pub fn counters(&self) -> Result<Counters, Fault> {
        self.with(|state| {
            let stats = state.core.stats();
            Ok(Counters {
                sent: stats.sent,
                answered: stats.answered,
                resent: stats.resent,
                failed: stats.failed,
                received: stats.received,
                duplicates_dropped: stats.duplicates_dropped,
                unreadable: stats.unreadable,
                gaps_repaired: stats.gaps_repaired,
                reconnects: stats.reconnects,
            })
        })
    }

    /// Returns what would survive a crash now, as JSON: `outbox`, `held` (for each conversation, up to where the app is
    /// done) and `caught_up`.
    ///
    /// # Errors
    /// `store` or `broken`.
    pub fn saved(&self) -> Result<String, Fault> {
        self.with(|state| {
            let saved = state.store.as_ref().map_or_else(|| Ok(Saved::default()), |store| store.saved());
            let Saved { outbox, held, caught_up, .. } = saved.map_err(|error| Fault::from(&error))?;
            Ok(json!({"outbox": outbox, "held": held, "caught_up": caught_up}).to_string())
        })
    }
}

impl Engine {
    /// Runs one call. A panic in it ends the engine, since `state` may be half changed.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut state = self.state.lock().map_err(|_| Fault::broken())?;
        // Unwinding through the guard poisons the lock, so that later calls fail too.
        let guarded = std::panic::AssertUnwindSafe(move || call(&mut state));
        std::panic::catch_unwind(guarded).unwrap_or_else(|_| Err(Fault::broken()))
    }
}

impl State {
    /// Returns the input for the core. `None`: it can be none, and is refused if it asks for something.
    fn read(&mut self, input: EdgeInput) -> Option<Input> {
        let ask = input.ask();
        match input.read() {
            Ok(input) => Some(input),
            Err(fault) => {
                self.outputs.extend(ask.map(|ask| EdgeOutput::refused(ask, fault)));
                None
            }
        }
    }

    /// Removes what the store need not keep, a part at a time.
    fn tidy(&mut self) {
        if let Some(store) = self.store.as_mut().filter(|_| self.is_untidy) {
            // After an error, the next write finds it too.
            self.is_untidy = store.tidy(self.messages_max).unwrap_or(false);
        }
    }

    /// Commits the writes of the last turn, and then takes its outputs.
    fn commit(&mut self) -> Result<Option<Moment>, Fault> {
        let Some(step) = &self.unwritten else { return Ok(None) };
        if let Some(store) = &mut self.store
            && (step.lasting || !step.writes.is_empty())
        {
            store.apply(&step.writes, step.lasting).map_err(|error| Fault::unwritten(&error))?;
            self.is_untidy |= !step.writes.is_empty();
        }
        let Some(step) = self.unwritten.take() else { return Ok(None) };
        for output in step.outputs {
            match EdgeOutput::of(output) {
                Ok(output) => self.outputs.push(output),
                Err((load, what)) => {
                    // A view that gets nothing asks the server.
                    let found = self.store.as_ref().and_then(|store| store.load(&what).ok());
                    self.loaded.push(Input::Loaded { load, found: Box::new(found.unwrap_or(Found::Nothing)) });
                }
            }
        }
        Ok(step.wake_at)
    }
}

const NOT_ENCRYPTED: &str = "the client has no encryption";

fn keyring(me: &UserId, encrypted: &Encrypted, saved: &mut Saved) -> Result<Box<Keyring>, Fault> {
    let (keys, device_id) = keys_of(encrypted)?;
    let mut keyring = keys.keyring(me, device_id, saved)?;
    keyring.carry_files();
    Ok(keyring)
}

pub(crate) fn keys_of(encrypted: &Encrypted) -> Result<(Keys, DeviceId), Fault> {
    let config = |problem: &str| Fault::new("config", problem.to_owned());
    let seed = <&[u8; 32]>::try_from(&*encrypted.seed).map_err(|_| config("the keys have 32 bytes"))?;
    let device_id = DeviceId::parse(&encrypted.device_id).map_err(|error| config(&format!("the device id {error}")))?;
    Ok((Keys::import(seed), device_id))
}

/// Returns the usual times with these changes.
fn changed(changes: HashMap<String, u64>) -> Result<Timing, Fault> {
    let mut timing = Timing::default();
    for (name, ms) in changes {
        let time = match name.as_str() {
            "answer_wait" => &mut timing.answer_wait,
            "retry_first" => &mut timing.retry_first,
            "silence_max" => &mut timing.silence_max,
            "ping_every" => &mut timing.ping_every,
            "ack_every" => &mut timing.ack_every,
            "gap_wait" => &mut timing.gap_wait,
            "gap_retry" => &mut timing.gap_retry,
            "reconnect_first" => &mut timing.reconnect_first,
            "reconnect_max" => &mut timing.reconnect_max,
            "reconnect_busy_max" => &mut timing.reconnect_busy_max,
            "lifetime" => &mut timing.lifetime,
            "lifetime_jitter" => &mut timing.lifetime_jitter,
            // Dialling, writing and closing are the caller's.
            _ => return Err(Fault::new("config", format!("timing: the engine waits for no {name}"))),
        };
        *time = Duration::from_millis(ms);
    }
    Ok(timing)
}

/// Writes what another client kept into a store that has nothing yet.
fn take_over(store: &mut Store, saved: &str) -> Result<(), Fault> {
    let unusable = |error: serde_json::Error| Fault::new("config", format!("saved: {error}"));
    let mut saved: serde_json::Map<String, serde_json::Value> = serde_json::from_str(saved).map_err(unusable)?;
    let mut part = |name: &str| saved.remove(name).unwrap_or_default();
    let (outbox, held, caught_up) = (part("outbox"), part("held"), part("caught_up"));
    let outbox: Option<Vec<Queued>> = serde_json::from_value(outbox).map_err(unusable)?;
    let held: Option<HashMap<ConversationId, Seq>> = serde_json::from_value(held).map_err(unusable)?;
    let caught_up: Option<Timestamp> = serde_json::from_value(caught_up).map_err(unusable)?;
    let known = store.saved().map_err(|error| Fault::from(&error))?;
    if known != Saved::default() {
        return Ok(());
    }
    let outbox = outbox.into_iter().flatten().map(StorageChange::Queued);
    let held = held.into_iter().flatten();
    let held = held.map(|(conversation_id, seq)| StorageChange::Held { conversation_id, seq });
    let changes = outbox.chain(held).chain(caught_up.map(StorageChange::CaughtUp));
    let writes: Vec<Write> = changes.map(Write::Change).collect();
    store.apply(&writes, true).map_err(|error| Fault::from(&error))
}

#[cfg(test)]
mod tests;
