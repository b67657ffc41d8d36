//! A member of a conversation by OpenMLS, which another team wrote. The profile is that of `pigeonhole-sealing`.

use openmls::prelude::tls_codec::{Deserialize as _, Serialize as _};
use openmls::prelude::{
    BasicCredential, Capabilities, CredentialType, CredentialWithKey, KeyPackage, LeafNodeIndex, LeafNodeParameters,
    Lifetime, MIXED_CIPHERTEXT_WIRE_FORMAT_POLICY, MlsGroup, MlsGroupJoinConfig, MlsMessageBodyIn, MlsMessageIn,
    MlsMessageOut, ProcessedMessageContent, ProtocolVersion, RatchetTreeIn, SenderRatchetConfiguration, StagedWelcome,
};
use openmls_basic_credential::SignatureKeyPair;
use openmls_rust_crypto::OpenMlsRustCrypto;
use openmls_traits::OpenMlsProvider as _;
use openmls_traits::types::{Ciphersuite, SignatureScheme};
use sealing::{Conversation, Device, MARK_BYTES, PACKAGE_LIFETIME_S, SEED_BYTES};
use wire::{ClientMsgId, DeviceId, UserId};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SUITE: Ciphersuite = Ciphersuite::MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519;

/// A device whose encryption is OpenMLS.
pub struct Judge {
    /// The device as `pigeonhole-sealing` made it. Only its key and its credential are used.
    pub device: Device,
    provider: OpenMlsRustCrypto,
    signer: SignatureKeyPair,
    credential: CredentialWithKey,
    group: Option<MlsGroup>,
}

/// A commit whose entry is not in the log yet.
pub struct Commit {
    pub commit: Vec<u8>,
    pub welcome: Option<Vec<u8>>,
}

/// The change of a commit.
pub enum Step<'a> {
    /// Adds the devices of these packages, without a path.
    Add(&'a [Vec<u8>]),
    /// Removes these devices.
    Remove(&'a [(UserId, DeviceId)]),
    Update,
}

impl Judge {
    pub fn new(device: Device) -> Self {
        let mut seed = [0; SEED_BYTES];
        seed.copy_from_slice(&device.to_bytes()[..SEED_BYTES]);
        let public = ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().to_bytes();
        let signer = SignatureKeyPair::from_raw(SignatureScheme::ED25519, seed.to_vec(), public.to_vec());
        let credential = CredentialWithKey {
            credential: BasicCredential::new(device.credential().to_vec()).into(),
            signature_key: signer.public().into(),
        };
        Self { device, provider: OpenMlsRustCrypto::default(), signer, credential, group: None }
    }

    /// Makes a package, as the keys directory has it.
    pub fn package(&self, now_s: u64) -> Result<Vec<u8>> {
        let bundle = KeyPackage::builder()
            .key_package_lifetime(Lifetime::init(now_s - 3_600, now_s + PACKAGE_LIFETIME_S))
            .leaf_node_capabilities(capabilities())
            .build(SUITE, &self.provider, &self.signer, self.credential.clone())?;
        Ok(MlsMessageOut::from(bundle.key_package().clone()).to_bytes()?)
    }

    pub fn is_member(&self) -> bool {
        self.group.is_some()
    }

    pub fn forget(&mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(mut group) = self.group.take() {
            let _ = group.delete(self.provider.storage());
        }
    }

    fn group(&mut self) -> Result<&mut MlsGroup> {
        Ok(self.group.as_mut().ok_or("no member")?)
    }

    /// Returns the epoch's authenticator and its mark, which all members have in common.
    pub fn secrets(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let group = self.group.as_ref().ok_or("no member")?;
        let mark = group.export_secret(self.provider.crypto(), "pigeonhole mark 1", b"", MARK_BYTES)?;
        Ok((group.epoch_authenticator().as_slice().to_vec(), mark))
    }

    fn mark(&self) -> Result<Vec<u8>> {
        Ok(self.secrets()?.1)
    }

    /// Joins by the Welcome of an entry. Returns whether it has something for this device.
    pub fn join_by_welcome(&mut self, welcome: &[u8], tree: &[u8]) -> Result<bool> {
        let MlsMessageBodyIn::Welcome(welcome) = MlsMessageIn::tls_deserialize_exact(welcome)?.extract() else {
            return Err("no welcome".into());
        };
        let tree = RatchetTreeIn::tls_deserialize_exact(tree)?;
        let before = self.group.take();
        match StagedWelcome::new_from_welcome(&self.provider, &config(), welcome, Some(tree)) {
            Ok(staged) => {
                self.group = Some(staged.into_group(&self.provider)?);
                Ok(true)
            }
            Err(openmls::group::WelcomeError::NoMatchingKeyPackage) => {
                self.group = before;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Joins by itself. The group counts once the entry is in the log.
    pub fn join(
        &mut self,
        conversation: &Conversation,
        id: &ClientMsgId,
        group_info: &[u8],
        tree: &[u8],
    ) -> Result<Commit> {
        self.leave();
        let MlsMessageBodyIn::GroupInfo(info) = MlsMessageIn::tls_deserialize_exact(group_info)?.extract() else {
            return Err("no group info".into());
        };
        let leaf = LeafNodeParameters::builder().with_capabilities(capabilities()).build();
        let (group, bundle) = MlsGroup::external_commit_builder()
            .with_ratchet_tree(RatchetTreeIn::tls_deserialize_exact(tree)?)
            .with_config(config())
            .with_aad(authenticated(conversation, id, &[0; MARK_BYTES]))
            .build_group(&self.provider, info, self.credential.clone())?
            .leaf_node_parameters(leaf)
            .load_psks(self.provider.storage())?
            .build(self.provider.rand(), self.provider.crypto(), &self.signer, |_| true)?
            .finalize(&self.provider)?;
        self.group = Some(group);
        Ok(Commit { commit: bundle.commit().to_bytes()?, welcome: None })
    }

    pub fn commit(&mut self, conversation: &Conversation, id: &ClientMsgId, step: &Step<'_>) -> Result<Commit> {
        let data = authenticated(conversation, id, &self.mark()?);
        let Self { provider, signer, group, .. } = self;
        let group = group.as_mut().ok_or("no member")?;
        group.set_aad(data);
        let (commit, welcome) = match step {
            Step::Update => {
                let (commit, welcome, _) =
                    group.self_update(provider, signer, LeafNodeParameters::default())?.into_contents();
                (commit, welcome.map(|welcome| MlsMessageOut::from_welcome(welcome, ProtocolVersion::Mls10)))
            }
            Step::Remove(devices) => {
                let places: Vec<LeafNodeIndex> = group
                    .members()
                    .filter(|member| {
                        let name = String::from_utf8_lossy(member.credential.serialized_content()).into_owned();
                        let is = |(user, device): &(UserId, DeviceId)| {
                            name.contains(&format!("\"user\":\"{user}\",\"device\":\"{device}\""))
                        };
                        devices.iter().any(is)
                    })
                    .map(|member| member.index)
                    .collect();
                let (commit, welcome, _) = group.remove_members(provider, signer, &places)?;
                (commit, welcome)
            }
            Step::Add(packages) => {
                let read = |bytes: &Vec<u8>| match MlsMessageIn::tls_deserialize_exact(bytes)?.extract() {
                    MlsMessageBodyIn::KeyPackage(package) => {
                        Ok(package.validate(provider.crypto(), ProtocolVersion::Mls10)?)
                    }
                    _ => Err("no package".into()),
                };
                let packages = packages.iter().map(read).collect::<Result<Vec<_>>>()?;
                let (commit, welcome, _) = group.add_members_without_update(provider, signer, &packages)?;
                (commit, Some(welcome))
            }
        };
        let welcome = welcome.map(|welcome| welcome.to_bytes()).transpose()?;
        Ok(Commit { commit: commit.to_bytes()?, welcome })
    }

    /// The entry of the own commit is in the log. Returns the group info and the tree of the epoch that begins.
    pub fn merge(&mut self) -> Result<(Vec<u8>, Vec<u8>)> {
        let Self { provider, signer, group, .. } = self;
        let group = group.as_mut().ok_or("no member")?;
        group.merge_pending_commit(provider)?;
        let info = group.export_group_info(provider.crypto(), signer, false)?.to_bytes()?;
        Ok((info, group.export_ratchet_tree().tls_serialize_detached()?))
    }

    pub fn seal(&mut self, conversation: &Conversation, id: &ClientMsgId, plaintext: &[u8]) -> Result<Vec<u8>> {
        let data = authenticated(conversation, id, &self.mark()?);
        let Self { provider, signer, group, .. } = self;
        let group = group.as_mut().ok_or("no member")?;
        group.set_aad(data);
        Ok(group.create_message(provider, signer, plaintext)?.to_bytes()?)
    }

    pub fn open(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        match self.process(body)? {
            ProcessedMessageContent::ApplicationMessage(message) => Ok(message.into_bytes()),
            _ => Err("no message".into()),
        }
    }

    /// Follows another's commit.
    pub fn follow(&mut self, commit: &[u8]) -> Result<()> {
        let ProcessedMessageContent::StagedCommitMessage(staged) = self.process(commit)? else {
            return Err("no commit".into());
        };
        let is_removed = staged.self_removed();
        let Self { provider, group, .. } = self;
        group.as_mut().ok_or("no member")?.merge_staged_commit(provider, *staged)?;
        if is_removed {
            self.leave();
        }
        Ok(())
    }

    fn process(&mut self, bytes: &[u8]) -> Result<ProcessedMessageContent> {
        let message = MlsMessageIn::tls_deserialize_exact(bytes)?.try_into_protocol_message()?;
        let Self { provider, group, .. } = self;
        Ok(group.as_mut().ok_or("no member")?.process_message(provider, message)?.into_content())
    }

    /// Forgets a commit that came too late.
    pub fn drop_pending(&mut self) -> Result<()> {
        let Self { provider, group, .. } = self;
        Ok(group.as_mut().ok_or("no member")?.clear_pending_commit(provider.storage())?)
    }

    pub fn epoch(&mut self) -> Result<u64> {
        Ok(self.group()?.epoch().as_u64())
    }
}

fn capabilities() -> Capabilities {
    let (versions, suites) = (&[ProtocolVersion::Mls10], &[SUITE]);
    Capabilities::new(Some(versions), Some(suites), Some(&[]), Some(&[]), Some(&[CredentialType::Basic]))
}

fn config() -> MlsGroupJoinConfig {
    MlsGroupJoinConfig::builder()
        .wire_format_policy(MIXED_CIPHERTEXT_WIRE_FORMAT_POLICY)
        .padding_size(0)
        .max_past_epochs(0)
        .use_ratchet_tree_extension(false)
        .sender_ratchet_configuration(SenderRatchetConfiguration::new(0, 1024))
        .build()
}

fn authenticated(conversation: &Conversation, id: &ClientMsgId, mark: &[u8]) -> Vec<u8> {
    [conversation.id().as_str().as_bytes(), &[0], id.as_str().as_bytes(), &[0], mark].concat()
}
