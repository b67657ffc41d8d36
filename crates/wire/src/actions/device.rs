//! `device`: registers the device of this connection for push notifications, or unregisters it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Fields;
use crate::ids::{DeviceId, DeviceToken, InvalidId};
use crate::refusal::Refusal;
use crate::time::Timestamp;

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
    /// Nothing rings on the device in these hours of each day. The next message after them rings for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
}

/// Hours of the day, from `from_min` to `to_min`, which may be past midnight. None if both are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quiet {
    /// The minute of the device's day.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_439)))]
    pub from_min: u16,
    #[cfg_attr(feature = "schema", schemars(range(max = 1_439)))]
    pub to_min: u16,
    /// The offset of the device's zone from UTC. An app registers again when it changes.
    #[cfg_attr(feature = "schema", schemars(range(min = -840, max = 840)))]
    pub offset_min: i32,
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
            quiet: Quiet::parse(fields)?,
        }))
    }
}

impl Quiet {
    fn parse(fields: &Fields) -> Result<Option<Self>, Refusal> {
        let Some(value) = fields.get("quiet") else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| fields.wrong("quiet", "must be an object or null"))?;
        let fields = Fields { object, path: "quiet." };
        let minute = |field| {
            let minute = fields.integer(field, 0, DAY_MIN - 1)?.ok_or_else(|| fields.missing(field))?;
            u16::try_from(minute).map_err(|_| fields.missing(field))
        };
        let offset = fields.get("offset_min").ok_or_else(|| fields.missing("offset_min"))?.as_i64();
        let offset =
            offset.and_then(|offset| i32::try_from(offset).ok()).filter(|offset| offset.abs() <= OFFSET_MIN_MAX);
        let wrong =
            || fields.wrong("offset_min", format!("must be an integer from -{OFFSET_MIN_MAX} to {OFFSET_MIN_MAX}"));
        let offset_min = offset.ok_or_else(wrong)?;
        Ok(Some(Self { from_min: minute("from_min")?, to_min: minute("to_min")?, offset_min }))
    }

    /// Reports whether nothing rings then.
    pub fn is_at(self, now: Timestamp) -> bool {
        let (from, to) = (i64::from(self.from_min), i64::from(self.to_min));
        let minutes = now.millis() / 60_000 + i64::from(self.offset_min);
        let minute = minutes.rem_euclid(DAY_MIN.cast_signed());
        if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }
}

/// Minutes of a day.
const DAY_MIN: u64 = 24 * 60;
/// No zone is further from UTC.
const OFFSET_MIN_MAX: i32 = 14 * 60;

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
