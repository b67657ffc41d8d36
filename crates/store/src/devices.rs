//! `devices`: a user's devices for push notifications. Each device has a row, and each token a row with its owner: a
//! phone that changes hands must not show the last user's notifications. A transaction writes both, so that a token has
//! one owner, and the owner's row that token.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{DeleteBuilder, PutBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use domain::Device;
use domain::limits::DEVICE_TTL;
use sha2::{Digest, Sha256};
use wire::{DeviceId, DeviceToken, Platform, Quiet, Registration, Timestamp, UserId, When};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::transaction::{self, Outcome, delete, put};
use crate::{Error, Store, Written};

/// The owner of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub user_id: UserId,
    pub device_id: DeviceId,
}

/// The devices of a user; those that have ended as well, whose rows stay for a while. One page of rows, which is a
/// hundred times what a user may have.
pub async fn of_user(store: &Store, user: &UserId) -> Result<Vec<Device>, Error> {
    let table = &store.tables.devices;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()));
    let found = query.send().await.of_call("Query", table)?;
    let (devices, _) = readable(found.items().iter().map(|item| read(table, item)));
    Ok(devices)
}

/// One device.
pub async fn get(store: &Store, user: &UserId, device: &DeviceId) -> Result<Option<Device>, Error> {
    let item = get_item(store, device_key(user, device)).await?;
    item.map(|item| read(&store.tables.devices, &item)).transpose()
}

/// Returns the token's owner.
pub async fn owner(store: &Store, registration: &Registration) -> Result<Option<Owner>, Error> {
    let Some(item) = get_item(store, token_key(registration)).await? else { return Ok(None) };
    let row = Reader { item: &item, table: &store.tables.devices };
    Ok(Some(Owner {
        user_id: row.parsed("owner_id", UserId::parse)?,
        device_id: row.parsed("owner_device", DeviceId::parse)?,
    }))
}

async fn get_item(store: &Store, key: Item) -> Result<Option<Item>, Error> {
    let table = &store.tables.devices;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key));
    Ok(get.send().await.of_call("GetItem", table)?.item)
}

/// A registration, and the rows that were read before it.
#[derive(Debug)]
pub struct Register<'a> {
    pub device: &'a Device,
    /// The device's earlier registration.
    pub was: Option<&'a Device>,
    /// The token's earlier owner.
    pub owner: Option<&'a Owner>,
    /// Others whose rows go.
    pub replaced: &'a [Device],
}

/// Registers a device, if nothing of what was read has changed.
pub async fn register(store: &Store, register: &Register<'_>) -> Result<Written, Error> {
    let Register { device, was, owner, replaced } = register;
    let mut writes = vec![put(token_put(store, device, *owner)), put(device_put(store, device, *was))];
    writes.extend(replaced.iter().map(|gone| delete(device_delete(store, gone))));
    // The token of an expired row may belong to another user by now: it is left to the TTL.
    let is_left = |gone: &&Device| !gone.is_rung_as(&device.registration) && !gone.has_ended(device.registered_at);
    writes.extend(was.iter().copied().chain(*replaced).filter(is_left).map(|gone| delete(token_delete(store, gone))));
    write_all(store, writes).await
}

/// Takes a device out, if it still is registered as it was read.
pub async fn forget(store: &Store, device: &Device, now: Timestamp) -> Result<Written, Error> {
    let mut writes = vec![delete(device_delete(store, device))];
    // An expired token may belong to another user by now: it is left to the TTL.
    writes.extend((!device.has_ended(now)).then(|| delete(token_delete(store, device))));
    write_all(store, writes).await
}

async fn write_all(store: &Store, writes: Vec<Result<TransactWriteItem, BuildError>>) -> Result<Written, Error> {
    match transaction::write(store, &store.tables.devices, writes.into_iter().collect()).await? {
        Outcome::Written => Ok(Written::Done),
        Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(Written::Lost),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
}

fn token_put(store: &Store, device: &Device, owner: Option<&Owner>) -> PutBuilder {
    let put = Put::builder()
        .table_name(&store.tables.devices)
        .set_item(Some(token_key(&device.registration)))
        .item("owner_id", text(device.user_id.as_str()))
        .item("owner_device", text(device.device_id.as_str()))
        .item("expires_at", expires_at(device))
        .item(VERSION, version());
    match owner {
        None => put.condition_expression("attribute_not_exists(owner_id)"),
        Some(owner) => put
            .condition_expression(OWNED)
            .expression_attribute_values(":owner", text(owner.user_id.as_str()))
            .expression_attribute_values(":device", text(owner.device_id.as_str())),
    }
}

const OWNED: &str = "owner_id = :owner AND owner_device = :device";

fn device_put(store: &Store, device: &Device, was: Option<&Device>) -> PutBuilder {
    let Registration { platform, token, preview, badge, when, quiet } = &device.registration;
    let quiet = quiet.map(|Quiet { from_min, to_min, offset_min }| text(format!("{from_min} {to_min} {offset_min}")));
    let put = Put::builder()
        .table_name(&store.tables.devices)
        .set_item(Some(device_key(&device.user_id, &device.device_id)))
        .item("platform", text(platform.as_str()))
        .item("token", text(token.as_str()))
        .item("preview", AttributeValue::Bool(*preview))
        .item("badge", AttributeValue::Bool(*badge))
        .item("when", text(when.as_str()))
        .item("endpoint_arn", text(&device.endpoint))
        .item("registered_at", number(device.registered_at.millis()))
        .item("expires_at", expires_at(device))
        .item(VERSION, version());
    let put = match quiet {
        Some(quiet) => put.item("quiet", quiet),
        None => put,
    };
    match was {
        None => put.condition_expression("attribute_not_exists(user_id)"),
        Some(was) => put
            .condition_expression(AS_READ)
            .expression_attribute_names("#token", "token")
            .expression_attribute_values(":token", text(was.registration.token.as_str()))
            .expression_attribute_values(":at", number(was.registered_at.millis())),
    }
}

/// Each registration has its own time, so that a new registration of a device differs from the one before.
const AS_READ: &str = "#token = :token AND registered_at = :at";

fn device_delete(store: &Store, device: &Device) -> DeleteBuilder {
    Delete::builder()
        .table_name(&store.tables.devices)
        .set_key(Some(device_key(&device.user_id, &device.device_id)))
        .condition_expression(AS_READ)
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":token", text(device.registration.token.as_str()))
        .expression_attribute_values(":at", number(device.registered_at.millis()))
}

/// Deletes the device's own row of the token. The TTL may have removed the row already, and then another user may have
/// the token.
fn token_delete(store: &Store, device: &Device) -> DeleteBuilder {
    Delete::builder()
        .table_name(&store.tables.devices)
        .set_key(Some(token_key(&device.registration)))
        .condition_expression(format!("attribute_not_exists(owner_id) OR ({OWNED})"))
        .expression_attribute_values(":owner", text(device.user_id.as_str()))
        .expression_attribute_values(":device", text(device.device_id.as_str()))
}

fn expires_at(device: &Device) -> AttributeValue {
    number(device.registered_at.plus(DEVICE_TTL).seconds())
}

fn device_key(user: &UserId, device: &DeviceId) -> Item {
    key(user.as_str(), device.as_str())
}

/// No user's id has a space. Hashed, since a token can be longer than a key.
fn token_key(registration: &Registration) -> Item {
    let Registration { platform, token, .. } = registration;
    let digest =
        Sha256::new().chain_update(platform.as_str()).chain_update([0]).chain_update(token.as_str()).finalize();
    key(&format!("token {}", data_encoding::HEXLOWER.encode(&digest)), "-")
}

fn key(user: &str, device: &str) -> Item {
    Item::from([("user_id".to_owned(), text(user)), ("device_id".to_owned(), text(device))])
}

/// A later version may write it otherwise: then the device rings.
fn quiet(text: &str) -> Option<Quiet> {
    let mut parts = text.split(' ');
    let (from_min, to_min) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(Quiet { from_min, to_min, offset_min: parts.next()?.parse().ok()? })
}

fn read(table: &str, item: &Item) -> Result<Device, Error> {
    let row = Reader { item, table };
    let platform = |text: &str| Platform::parse(text).ok_or(());
    Ok(Device {
        user_id: row.parsed("user_id", UserId::parse)?,
        device_id: row.parsed("device_id", DeviceId::parse)?,
        registration: Registration {
            platform: row.parsed("platform", platform)?,
            token: row.parsed("token", DeviceToken::parse)?,
            preview: row.flag("preview")?,
            badge: row.flag("badge")?,
            // A later version may know others.
            when: When::parse(row.text("when")?).unwrap_or_default(),
            quiet: row.optional("quiet", Reader::text)?.and_then(quiet),
        },
        endpoint: row.text("endpoint_arn")?.to_owned(),
        registered_at: row.time("registered_at")?,
    })
}
