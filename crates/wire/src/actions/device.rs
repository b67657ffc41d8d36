//! `device`: registers the device of this connection for push notifications, or unregisters it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Fields;
use crate::ids::{DeviceId, DeviceToken, InvalidId};
use crate::refusal::Refusal;

/// From a connection that names its `device_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DeviceRequest {
    /// Registers this device for push notifications, instead of its earlier registration.
    On(Registration),
    /// Unregisters this device.
    Off { token: () },
}

/// The registration of a device for push notifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct Registration {
    pub platform: Platform,
    pub token: DeviceToken,
    /// A notification shows who wrote and how the message begins.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub preview: bool,
    /// A notification carries the number of unread messages, for the app's icon. Of APNs only.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub badge: bool,
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "pending")))]
    pub when: When,
}

/// The push service of the device, which issued its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Platform {
    Apns,
    ApnsSandbox,
    Fcm,
}

/// The messages that send a push notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum When {
    /// Messages that no device of the user has acknowledged.
    #[default]
    Pending,
    /// Messages that the user has not read, even if another device has received them.
    Unread,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceResult {
    pub device_id: DeviceId,
    pub registered: bool,
}

impl DeviceRequest {
    /// A `null` is a value here: it takes the token away. So it may not be left out by mistake.
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        if fields.object.get("token") == Some(&Value::Null) {
            return Ok(Self::Off { token: () });
        }
        let platform = fields.required("platform", |text| {
            Platform::parse(text).ok_or("must be \"apns\", \"apns_sandbox\" or \"fcm\"")
        })?;
        Ok(Self::On(Registration {
            platform,
            token: fields.required("token", |text| platform.token(text))?,
            preview: fields.boolean("preview")?.unwrap_or_default(),
            badge: fields.boolean("badge")?.unwrap_or_default(),
            when: fields
                .optional("when", |text| When::parse(text).ok_or("must be \"pending\" or \"unread\""))?
                .unwrap_or_default(),
        }))
    }
}

impl Platform {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Apns, Self::ApnsSandbox, Self::Fcm].into_iter().find(|platform| platform.as_str() == text)
    }

    /// APNs has hexadecimal digits for a token, which apps write in either case.
    fn token(self, text: &str) -> Result<DeviceToken, InvalidId> {
        match self {
            Self::Apns | Self::ApnsSandbox => DeviceToken::parse(&text.to_ascii_lowercase()),
            Self::Fcm => DeviceToken::parse(text),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::ApnsSandbox => "apns_sandbox",
            Self::Fcm => "fcm",
        }
    }
}

impl When {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Unread].into_iter().find(|when| when.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Unread => "unread",
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
