//! The look of a group or a channel, in addition to its title.

use serde::{Deserialize, Serialize};

use crate::actions::given;
use crate::data::Data;
use crate::fields::Fields;
use crate::ids::InvalidId;
use crate::limits::{ABOUT_BYTES_MAX, ABOUT_CHARS_MAX, DATA_BYTES_MAX};
use crate::refusal::Refusal;
use crate::text::{breaks_out, is_visible};

/// The description of a group or a channel. A description of a stored entry is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
pub struct About(
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = ABOUT_CHARS_MAX), regex(pattern = crate::text::schema::ABOUT))
    )]
    String,
);

/// Changes of the look. A field that is left out stays as it is; `null` removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Look {
    /// The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub about: Option<Option<About>>,
    /// An object of the app's own, with at most 2,048 bytes without spaces.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub data: Option<Option<Data>>,
}

impl About {
    /// Takes the text if it has the form that the type promises.
    ///
    /// # Errors
    /// [`InvalidId`] says what the form is.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let chars = text.chars().take(ABOUT_CHARS_MAX + 1).count();
        if !(1..=ABOUT_CHARS_MAX).contains(&chars) {
            return Err(InvalidId::new(format!("must be 1 to {ABOUT_CHARS_MAX} characters")));
        }
        if text.contains(|c| breaks_out(c) && c != '\n') || !is_visible(text) {
            let form = "must have a character that shows, and no control characters and overrides of direction";
            return Err(InvalidId::new(form.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Look {
    /// Whether the change has no field.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads its fields from a request.
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        if fields.get("about").and_then(|about| about.as_str()).is_some_and(|about| about.len() > ABOUT_BYTES_MAX) {
            let problem = format!("must be at most {ABOUT_BYTES_MAX} bytes of UTF-8").into();
            return Err(Refusal::TooLarge { field: "about", problem });
        }
        let about =
            if fields.is_null("about") { Some(None) } else { fields.optional("about", About::parse)?.map(Some) };
        let data =
            if fields.is_null("data") { Some(None) } else { Data::parse_alone(fields, DATA_BYTES_MAX)?.map(Some) };
        Ok(Self { about, data })
    }

    /// Returns the look that begins with this change: `null` is as left out.
    #[must_use]
    pub(crate) fn first(self) -> Self {
        let Self { about, data } = self;
        Self { about: about.flatten().map(Some), data: data.flatten().map(Some) }
    }
}
