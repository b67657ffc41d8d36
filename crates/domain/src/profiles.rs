//! Whether users have profiles, and who writes them.

use wire::Refusal;

/// The parameter `Profiles` of a deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profiles {
    #[default]
    Off,
    /// Only the team's own servers write them.
    Backend,
    /// Users also write their own.
    Users,
}

/// A text that is no such value.
#[derive(Debug, thiserror::Error)]
#[error("must be off, backend or users")]
pub struct InvalidProfiles;

impl Profiles {
    /// Parses the value as the template has it.
    ///
    /// # Errors
    /// [`InvalidProfiles`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidProfiles> {
        match text {
            "off" => Ok(Self::Off),
            "backend" => Ok(Self::Backend),
            "users" => Ok(Self::Users),
            _ => Err(InvalidProfiles),
        }
    }

    pub fn is_on(self) -> bool {
        self.check_on().is_ok()
    }

    /// Checks whether there are profiles, which the team's servers can write.
    ///
    /// # Errors
    /// `forbidden`
    pub fn check_on(self) -> Result<(), Refusal> {
        match self {
            Self::Off => Err(Refusal::Forbidden),
            Self::Backend | Self::Users => Ok(()),
        }
    }

    /// Checks whether users write their own.
    ///
    /// # Errors
    /// `forbidden`
    pub fn check_own(self) -> Result<(), Refusal> {
        match self {
            Self::Off | Self::Backend => Err(Refusal::Forbidden),
            Self::Users => Ok(()),
        }
    }

    /// Returns the names of what clients may use.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Self::Off => &[],
            Self::Backend => &["profiles"],
            Self::Users => &["profiles", "profile.write"],
        }
    }
}
