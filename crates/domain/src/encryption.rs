//! Whether users may encrypt end to end.

/// The parameter `Encryption` of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// No device publishes or claims keys.
    #[default]
    Off,
    Optional,
}

/// A text that is no such value.
#[derive(Debug, thiserror::Error)]
#[error("must be Off or Optional")]
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
            _ => Err(InvalidEncryption),
        }
    }

    pub fn is_on(self) -> bool {
        match self {
            Self::Off => false,
            Self::Optional => true,
        }
    }
}
