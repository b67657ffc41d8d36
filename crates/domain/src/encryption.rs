//! Whether users may encrypt end to end.

use wire::{Refusal, UserId};

/// The parameter `Encryption` of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// No device publishes or claims keys, and none writes in a sealed conversation.
    #[default]
    Off,
    Optional,
    /// Users write nothing in the clear in direct conversations and groups.
    Required,
}

/// A text that is no such value.
#[derive(Debug, thiserror::Error)]
#[error("must be Off, Optional or Required")]
pub struct InvalidEncryption;

impl Encryption {
    /// Parses the value as the template has it.
    ///
    /// # Errors
    /// [`InvalidEncryption`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidEncryption> {
        match text {
            "Off" => Ok(Self::Off),
            "Optional" => Ok(Self::Optional),
            "Required" => Ok(Self::Required),
            _ => Err(InvalidEncryption),
        }
    }

    pub fn is_on(self) -> bool {
        match self {
            Self::Off => false,
            Self::Optional | Self::Required => true,
        }
    }

    /// Checks whether clients encrypt here.
    ///
    /// # Errors
    /// `forbidden`
    pub fn check_on(self) -> Result<(), Refusal> {
        if self.is_on() { Ok(()) } else { Err(Refusal::Forbidden) }
    }

    /// Checks whether a user may write in the clear to a conversation with this number of commits. A service may.
    ///
    /// # Errors
    /// `encryption_required`
    pub fn check_clear(self, user: &UserId, epoch: u64) -> Result<(), Refusal> {
        let is_free = epoch == 0 && (self != Self::Required || user.is_service());
        if is_free { Ok(()) } else { Err(Refusal::EncryptionRequired) }
    }

    /// Returns the names of what clients may use. `sealed_reports`: the parameter of that name.
    pub fn features(self, sealed_reports: bool) -> Vec<String> {
        let names: &[&str] = match self {
            Self::Off => &[],
            Self::Optional => &["encryption", "encryption.groups", "encryption.media"],
            Self::Required => &["encryption", "encryption.groups", "encryption.media", "encryption.required"],
        };
        let of_reports = (self.is_on() && sealed_reports).then_some("encryption.report");
        names.iter().copied().chain(of_reports).map(str::to_owned).collect()
    }
}
