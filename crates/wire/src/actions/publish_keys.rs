//! `publish_keys`: the keys with which others encrypt for a device.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::limits::{CREDENTIAL_BYTES_MAX, KEY_PACKAGE_BYTES_MAX, KEY_PACKAGE_BYTES_MIN, KEY_PACKAGES_PUBLISHED_MAX};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// From a connection that names its `device_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishKeysRequest {
    /// Replaces the device's credential. Another one ends all packages of the one before.
    #[cfg_attr(feature = "schema", schemars(length(max = CREDENTIAL_BYTES_MAX.div_ceil(3) * 4)))]
    pub credential: Bytes,
    /// Added to the packages of the device. A package that was ever accepted is not added again.
    #[cfg_attr(feature = "schema", schemars(length(max = KEY_PACKAGES_PUBLISHED_MAX)))]
    pub key_packages: Vec<KeyPackage>,
    /// Replaces the package that a claim gets when no other is left.
    pub last_resort: KeyPackage,
}

/// A key package of MLS (RFC 9420), of which the server reads the first eight bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyPackage {
    #[cfg_attr(feature = "schema", schemars(length(max = KEY_PACKAGE_BYTES_MAX.div_ceil(3) * 4)))]
    #[cfg_attr(
        feature = "schema",
        schemars(
            extend(
                "pattern" = "^AAEABQABAA(?:E=|[EFGH][A-Za-z0-9+/](?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?)$"
            )
        )
    )]
    pub data: Bytes,
    /// At most 91 days ahead; of the last resort 401 days.
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishKeysResult {
    /// The packages of the device that a claim can get, without the last resort.
    pub left: u64,
    /// The devices of the user that have keys.
    pub devices: u64,
}

/// Version 1 of MLS, a key package, version 1 of MLS, cipher suite 1.
const BEGINNING: [u8; 8] = [0, 1, 0, 5, 0, 1, 0, 1];

impl PublishKeysRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let credential = fields.bytes("credential", CREDENTIAL_BYTES_MAX)?;
        let list = fields.get("key_packages").ok_or_else(|| fields.missing("key_packages"))?;
        let list = list.as_array().filter(|list| list.len() <= KEY_PACKAGES_PUBLISHED_MAX);
        let list = list.ok_or_else(|| {
            fields.wrong("key_packages", format!("must be a list of at most {KEY_PACKAGES_PUBLISHED_MAX} key packages"))
        })?;
        let package = |(place, value)| KeyPackage::parse(value, &format!("key_packages[{place}]"));
        let key_packages = list.iter().enumerate().map(package).collect::<Result<_, _>>()?;
        let last_resort = fields.get("last_resort").ok_or_else(|| fields.missing("last_resort"))?;
        Ok(Self { credential, key_packages, last_resort: KeyPackage::parse(last_resort, "last_resort")? })
    }
}

impl KeyPackage {
    fn parse(value: &Value, path: &str) -> Result<Self, Refusal> {
        let object = value.as_object().ok_or_else(|| Refusal::bad_request(path, "must be an object"))?;
        let fields = Fields { object, path: &format!("{path}.") };
        let data = fields.bytes("data", KEY_PACKAGE_BYTES_MAX)?;
        if data.as_slice().len() < KEY_PACKAGE_BYTES_MIN || !data.as_slice().starts_with(&BEGINNING) {
            return Err(fields.wrong("data", "must be a key package of MLS 1.0 with cipher suite 1"));
        }
        let expires_at =
            fields.required("expires_at", |text| Timestamp::parse(text).ok_or("must be an RFC 3339 time"))?;
        Ok(Self { data, expires_at })
    }
}
