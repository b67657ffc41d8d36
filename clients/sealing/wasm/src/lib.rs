//! The end-to-end encryption as WebAssembly, for the web client: `pigeonhole-sealing` with JavaScript's types.
//!
//! A panic ends the instance: every later call fails. The stored bytes stay valid, as after any error.

use sealing::{Asked, Conversation, Entry, Envelope, Identity, SEED_BYTES};
use wasm_bindgen::prelude::*;
use wire::{ClientMsgId, DeviceId, UserId};

type Result<T> = std::result::Result<T, JsError>;

/// One device of a user, with its private key.
#[wasm_bindgen]
pub struct Device(sealing::Device);

/// A key package of a device, with its private part.
#[wasm_bindgen(getter_with_clone)]
pub struct Package {
    pub data: Vec<u8>,
    pub reference: Vec<u8>,
    pub private: Vec<u8>,
}

/// A device's state of a group.
#[wasm_bindgen]
pub struct Group(sealing::Group);

/// A commit by this device that is not in the log yet.
#[wasm_bindgen]
pub struct Pending(sealing::Pending);

/// A group after a message: the new state, and the sealed body or the opened envelope.
#[wasm_bindgen]
pub struct Moved {
    group: sealing::Group,
    bytes: Vec<u8>,
}

#[wasm_bindgen]
impl Device {
    #[wasm_bindgen(constructor)]
    pub fn new(user: &str, device: &str, identity: &[u8], seed: &[u8]) -> Result<Self> {
        let (identity, seed): ([u8; SEED_BYTES], [u8; SEED_BYTES]) = (identity.try_into()?, seed.try_into()?);
        let device = DeviceId::parse(device)?;
        Ok(Self(Identity::import(UserId::parse(user)?, &identity).device(device, &seed)))
    }

    #[wasm_bindgen(js_name = fromBytes)]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self(sealing::Device::from_bytes(bytes)?))
    }

    #[wasm_bindgen(js_name = toBytes)]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes().to_vec()
    }

    #[wasm_bindgen(js_name = newPackage)]
    pub fn new_package(&self, now_s: u32) -> Result<Package> {
        let package = self.0.new_packages(1, false, now_s.into())?.pop().ok_or_else(|| JsError::new("no package"))?;
        Ok(Package { data: package.data, reference: package.reference, private: package.private.to_vec() })
    }

    /// Begins a group with a device of another user, by a package of the device.
    pub fn birth(&self, peer: &str, device: &str, package: &[u8], client_msg_id: &str, now_s: u32) -> Result<Pending> {
        let user = UserId::parse(peer)?;
        let device = DeviceId::parse(device)?;
        let asked = Asked { user: &user, device: &device, key: None, last_resort: false };
        let checked = self.0.check_package(package, asked, now_s.into())?;
        let id = ClientMsgId::parse(client_msg_id)?;
        Ok(Pending(self.0.birth(&self.with(peer)?, &id, 0, &[checked], now_s.into())?))
    }

    /// Joins by a Welcome of the peer, with a package of this device.
    pub fn join(&self, peer: &str, epoch: u32, welcome: &[u8], tree: &[u8], package: &Package) -> Result<Group> {
        let conversation = self.with(peer)?;
        let sender_id = UserId::parse(peer)?;
        let entry =
            Entry { conversation: &conversation, sender_id: &sender_id, client_msg_id: None, epoch: epoch.into() };
        let private = [(package.reference.clone(), package.private.clone().into())];
        let (group, _used) = self.0.join_by_welcome(entry, true, welcome, tree, &private)?;
        Ok(Group(group))
    }

    fn with(&self, peer: &str) -> Result<Conversation> {
        Ok(Conversation::direct(&self.0.member().user, &UserId::parse(peer)?))
    }
}

#[wasm_bindgen]
impl Pending {
    #[wasm_bindgen(getter)]
    pub fn welcome(&self) -> Vec<u8> {
        self.0.welcome.clone().unwrap_or_default()
    }

    /// Returns the group after the commit is in the log.
    #[wasm_bindgen(getter)]
    pub fn next(&self) -> Group {
        Group(self.0.next.clone())
    }
}

#[wasm_bindgen]
impl Moved {
    #[wasm_bindgen(getter)]
    pub fn group(&self) -> Group {
        Group(self.group.clone())
    }

    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

#[wasm_bindgen]
impl Group {
    #[wasm_bindgen(js_name = fromStored)]
    pub fn from_stored(state: Vec<u8>, tree: Vec<u8>) -> Result<Self> {
        Ok(Self(sealing::Group::from_stored(state, tree)?))
    }

    #[wasm_bindgen(getter)]
    pub fn state(&self) -> Vec<u8> {
        self.0.state().to_vec()
    }

    #[wasm_bindgen(getter)]
    pub fn tree(&self) -> Vec<u8> {
        self.0.tree().to_vec()
    }

    /// Seals a text for the direct conversation of these users.
    pub fn seal(&self, me: &str, peer: &str, client_msg_id: &str, text: &str) -> Result<Moved> {
        let id = ClientMsgId::parse(client_msg_id)?;
        let envelope = Envelope { kind: "text".to_owned(), body: text.to_owned(), ..Envelope::default() };
        let conversation = Conversation::direct(&UserId::parse(me)?, &UserId::parse(peer)?);
        let (group, bytes) = self.0.seal(&conversation, &id, &envelope.write())?;
        Ok(Moved { group, bytes })
    }

    /// Opens the peer's message to this user. The bytes of the outcome are the text.
    pub fn open(&self, me: &str, peer: &str, epoch: u32, body: &[u8]) -> Result<Moved> {
        let sender_id = UserId::parse(peer)?;
        let conversation = Conversation::direct(&UserId::parse(me)?, &sender_id);
        let entry =
            Entry { conversation: &conversation, sender_id: &sender_id, client_msg_id: None, epoch: epoch.into() };
        let (group, opened) = self.0.open(entry, body)?;
        Ok(Moved { group, bytes: Envelope::read(&opened.plaintext)?.body.into_bytes() })
    }
}
