//! `keys`: the key directory. A user's partition has a row for each device with keys, and for each package that was ever
//! accepted (`package`). Another row (`free`) exists while a claim can get the package. The partition also has the user's
//! own claims, and their counts. All requests of a user write the row `limits`, so they follow one after another.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem};
use domain::{DeviceKeys, Got, PACKAGE_LIFE_MAX};
use sha2::{Digest, Sha256};
use wire::limits::KEY_PACKAGES_LEFT_MAX;
use wire::{Bytes, ClaimKeysResult, ClientMsgId, DeviceId, KeyPackage, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, binary, number, readable, text, version};
use crate::transaction::{self, Outcome, check, delete, put};
use crate::{Error, Store, Written, batch};

/// Time for which a repeated `claim_id` gets the first result.
const CLAIM_TTL: Duration = Duration::from_hours(24);
/// Time for which the counts of a day are kept.
const GOT_TTL: Duration = Duration::from_hours(48);
/// Time for which an unused row of limits is kept. All rates are at rest by then.
const LIMITS_TTL: Duration = Duration::from_hours(24 * 100);

/// The times until which a user's own requests for keys fill their rates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Each request of the user that writes raises it. 0: none has.
    pub revision: u64,
    pub claims_until: Option<Timestamp>,
    pub packages_until: Option<Timestamp>,
    pub devices_until: Option<Timestamp>,
}

/// A package that a claim can get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free {
    pub digest: String,
    pub expires_at: Timestamp,
    key: String,
}

/// The first result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The users that the claim named, as [`users_digest`].
    pub users: String,
    pub result: ClaimKeysResult,
}

/// The rows of the caller that decide on a claim.
#[derive(Clone, Debug, Default)]
pub struct Claimant {
    pub claimed: Option<Claimed>,
    pub limits: KeyLimits,
    /// The packages that the caller got of these users.
    pub got: BTreeMap<UserId, Got>,
}

/// Returns the devices of a user with keys, in the order of their ids. A device whose keys have all expired
/// stays for a while.
pub async fn devices(store: &Store, user: &UserId) -> Result<Vec<DeviceKeys>, Error> {
    let table = &store.tables.keys;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("user_id = :user AND begins_with(key_id, :device)")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":device", text("device "));
    let found = query.send().await.of_call("Query", table)?;
    let (devices, _) = readable(found.items().iter().map(|item| read(table, item)));
    Ok(devices)
}

/// Returns the packages of a device that a claim can get, those first that expire first. At most `limit`.
pub async fn free(
    store: &Store,
    user: &UserId,
    device: &DeviceKeys,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Free>, Error> {
    let table = &store.tables.keys;
    let prefix = free_prefix(&device.device_id, &device.generation);
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .key_condition_expression("user_id = :user AND key_id BETWEEN :from AND :to")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":from", text(format!("{prefix}{}", sortable(now.plus(Duration::from_millis(1))))))
        // After each digit.
        .expression_attribute_values(":to", text(format!("{prefix}~")));
    let found = query.send().await.of_call("Query", table)?;
    let (free, _) = readable(found.items().iter().map(|item| read_free(table, item)));
    Ok(free)
}

/// Returns the number of packages of a device that a claim can get.
pub async fn left(store: &Store, user: &UserId, device: &DeviceKeys, now: Timestamp) -> Result<u64, Error> {
    // A row more than a device may have: an earlier maximum may have been higher.
    Ok(free(store, user, device, now, KEY_PACKAGES_LEFT_MAX + 1).await?.len() as u64)
}

/// Returns the packages with these digests, in no order.
pub async fn packages(store: &Store, user: &UserId, digests: &[&str]) -> Result<BTreeMap<String, Bytes>, Error> {
    if digests.is_empty() {
        return Ok(BTreeMap::new());
    }
    let table = &store.tables.keys;
    let keys = digests.iter().map(|digest| key(user, &package_key(digest))).collect();
    let found = batch::all(store, table, keys, true).await?;
    let package = |item: &Item| {
        let row = Reader { item, table };
        let digest = row.text("key_id")?.rsplit(' ').next().unwrap_or_default();
        Ok((digest.to_owned(), row.bytes("data")?))
    };
    found.iter().map(package).collect()
}

/// Returns the limits of the user's own requests.
pub async fn limits(store: &Store, user: &UserId) -> Result<KeyLimits, Error> {
    let table = &store.tables.keys;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key(user, LIMITS)));
    let got = get.send().await.of_call("GetItem", table)?;
    got.item().map_or(Ok(KeyLimits::default()), |item| read_limits(&Reader { item, table }))
}

/// Reads what decides on a claim of `users`, in one call.
pub async fn claimant(
    store: &Store,
    user: &UserId,
    device: &DeviceId,
    claim_id: &ClientMsgId,
    users: &[UserId],
    now: Timestamp,
) -> Result<Claimant, Error> {
    let table = &store.tables.keys;
    let claim = claim_key(device, claim_id);
    let of_others = users.iter().filter(|other| *other != user).map(got_key);
    let names = [LIMITS.to_owned(), claim.clone()].into_iter().chain(of_others);
    let mut claimant = Claimant::default();
    for item in batch::all(store, table, names.map(|name| key(user, &name)).collect(), true).await? {
        let row = Reader { item: &item, table };
        let name = row.text("key_id")?;
        if name == LIMITS {
            claimant.limits = read_limits(&row)?;
        } else if name == claim {
            // DynamoDB removes a row some time after its end.
            claimant.claimed = if row.seconds("expires_at")? > now { Some(read_claimed(&row)?) } else { None };
        } else if let Some(other) = name.strip_prefix(GOT).and_then(|other| UserId::parse(other).ok()) {
            claimant.got.insert(other, read_got(&row)?);
        }
    }
    Ok(claimant)
}

/// Keys that a device publishes, and what was read before.
#[derive(Debug)]
pub struct Publish<'a> {
    pub user: &'a UserId,
    pub device: &'a DeviceKeys,
    /// The generation of the row that was read.
    pub was: Option<&'a str>,
    pub new: &'a [(String, &'a KeyPackage)],
    pub limits: &'a KeyLimits,
    pub now: Timestamp,
}

/// Publishes, if nothing of what was read has changed.
pub async fn publish(store: &Store, publish: &Publish<'_>) -> Result<Written, Error> {
    let Publish { user, device, was, new, limits, now } = publish;
    let mut writes = vec![limits_put(store, user, limits, *now), device_put(store, user, device, *was, *now)];
    for (digest, package) in *new {
        writes.push(package_put(store, user, digest, package));
        writes.push(free_put(store, user, device, digest, package.expires_at));
    }
    write_all(store, writes).await
}

/// A claim, and what was read before.
#[derive(Debug)]
pub struct Claim<'a> {
    pub user: &'a UserId,
    pub device: &'a DeviceId,
    pub claim_id: &'a ClientMsgId,
    pub users: &'a [UserId],
    pub result: &'a ClaimKeysResult,
    pub taken: &'a [Taken],
    pub limits: &'a KeyLimits,
    /// The packages that the caller has got of each user once the claim is written.
    pub got: &'a BTreeMap<UserId, Got>,
    pub now: Timestamp,
}

/// A package or a last resort that a claim takes of a device.
#[derive(Clone, Debug)]
pub struct Taken {
    pub user: UserId,
    pub device: DeviceKeys,
    /// `None`: the last resort, which stays.
    pub package: Option<Free>,
    /// The packages that are left, up to one more than are few.
    pub left: u64,
}

/// The most writes that one transaction has.
pub const WRITES_MAX: usize = 100;

impl Claim<'_> {
    /// Returns the number of writes for these devices of one user.
    pub fn writes_of(taken: &[Taken]) -> usize {
        taken.iter().map(|taken| 1 + usize::from(taken.package.is_some())).sum()
    }
}

/// Takes the packages, if nothing of what was read has changed.
pub async fn claim(store: &Store, claim: &Claim<'_>) -> Result<Written, Error> {
    let Claim { user, limits, taken, got, now, .. } = claim;
    let mut writes = vec![limits_put(store, user, limits, *now), claim_put(store, claim)];
    writes.extend(got.iter().map(|(other, got)| got_put(store, user, other, got, *now)));
    for Taken { user, device, package, .. } in *taken {
        writes.push(device_check(store, user, device, package.is_none()));
        writes.extend(package.as_ref().map(|package| free_delete(store, user, package)));
    }
    write_all(store, writes).await
}

/// Ends the keys of a device. Its packages are of no generation then, and expire.
pub async fn remove(store: &Store, user: &UserId, device: &DeviceId) -> Result<(), Error> {
    let table = &store.tables.keys;
    let delete = store.client.delete_item().table_name(table).set_key(Some(key(user, &device_key(device))));
    delete.send().await.of_call("DeleteItem", table)?;
    Ok(())
}

/// Records the day on which a device was seen, if the device still has keys.
pub async fn seen(store: &Store, user: &UserId, device: &DeviceId, midnight: Timestamp) -> Result<(), Error> {
    let table = &store.tables.keys;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(user, &device_key(device))))
        .update_expression("SET seen_at = :seen")
        .condition_expression("attribute_exists(key_id)")
        .expression_attribute_values(":seen", number(midnight.millis()));
    match update.send().await {
        Ok(_) => Ok(()),
        // The keys were removed meanwhile, or are being replaced.
        Err(error)
            if error.as_service_error().is_some_and(|error| {
                matches!(
                    error,
                    UpdateItemError::ConditionalCheckFailedException(_)
                        | UpdateItemError::TransactionConflictException(_)
                )
            }) =>
        {
            Ok(())
        }
        Err(error) => Err(Error::call("UpdateItem", table, error)),
    }
}

/// The digest of a package, by which it is known.
pub fn package_digest(data: &Bytes) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(data.as_slice()))
}

/// The digest of the users that a claim names, whatever their order. No id has a space.
pub fn users_digest(users: &[UserId]) -> String {
    let mut names: Vec<&str> = users.iter().map(UserId::as_str).collect();
    names.sort_unstable();
    data_encoding::HEXLOWER.encode(&Sha256::digest(names.join(" ")))
}

async fn write_all(store: &Store, writes: Vec<Result<TransactWriteItem, BuildError>>) -> Result<Written, Error> {
    match transaction::write(store, &store.tables.keys, writes.into_iter().collect()).await? {
        Outcome::Written => Ok(Written::Done),
        Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(Written::Lost),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
}

fn limits_put(
    store: &Store,
    user: &UserId,
    limits: &KeyLimits,
    now: Timestamp,
) -> Result<TransactWriteItem, BuildError> {
    let KeyLimits { revision, claims_until, packages_until, devices_until } = limits;
    let mut item = key(user, LIMITS);
    item.insert("revision".to_owned(), number(revision + 1));
    for (name, until) in
        [("claims_until", claims_until), ("packages_until", packages_until), ("devices_until", devices_until)]
    {
        item.extend(until.map(|until| (name.to_owned(), number(until.millis()))));
    }
    let write = Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(item))
        .item("expires_at", number(now.plus(LIMITS_TTL).seconds()))
        .item(VERSION, version());
    put(match revision {
        0 => write.condition_expression("attribute_not_exists(key_id)"),
        was => write.condition_expression("revision = :was").expression_attribute_values(":was", number(was)),
    })
}

fn device_put(
    store: &Store,
    user: &UserId,
    device: &DeviceKeys,
    was: Option<&str>,
    now: Timestamp,
) -> Result<TransactWriteItem, BuildError> {
    // As long as any of the device's keys can be claimed.
    let expires_at = device.last_resort_expires_at.max(now.plus(PACKAGE_LIFE_MAX));
    let write = Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(key(user, &device_key(&device.device_id))))
        .item("generation", text(&device.generation))
        .item("credential", binary(&device.credential))
        .item("last_resort", binary(&device.last_resort))
        .item("last_resort_expires_at", number(device.last_resort_expires_at.millis()))
        .item("added_at", number(device.added_at.millis()))
        .item("seen_at", number(device.seen_at.millis()))
        .item("expires_at", number(expires_at.seconds()))
        .item(VERSION, version());
    put(match was {
        None => write.condition_expression("attribute_not_exists(key_id)"),
        Some(was) => write.condition_expression("generation = :was").expression_attribute_values(":was", text(was)),
    })
}

fn package_put(
    store: &Store,
    user: &UserId,
    digest: &str,
    package: &KeyPackage,
) -> Result<TransactWriteItem, BuildError> {
    let write = Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(key(user, &package_key(digest))))
        .item("data", binary(&package.data))
        .item("expires_at", number(package.expires_at.seconds()))
        .item(VERSION, version());
    put(write.condition_expression("attribute_not_exists(key_id)"))
}

fn free_put(
    store: &Store,
    user: &UserId,
    device: &DeviceKeys,
    digest: &str,
    expires_at: Timestamp,
) -> Result<TransactWriteItem, BuildError> {
    let DeviceKeys { device_id, generation, .. } = device;
    let name = format!("{}{} {digest}", free_prefix(device_id, generation), sortable(expires_at));
    put(Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(key(user, &name)))
        .item("expires_at", number(expires_at.seconds()))
        .item(VERSION, version()))
}

fn free_delete(store: &Store, user: &UserId, package: &Free) -> Result<TransactWriteItem, BuildError> {
    delete(
        Delete::builder()
            .table_name(&store.tables.keys)
            .set_key(Some(key(user, &package.key)))
            .condition_expression("attribute_exists(key_id)"),
    )
}

/// The device still has this generation, and the last resort that the claim takes.
fn device_check(
    store: &Store,
    user: &UserId,
    device: &DeviceKeys,
    is_last_resort: bool,
) -> Result<TransactWriteItem, BuildError> {
    let write = ConditionCheck::builder()
        .table_name(&store.tables.keys)
        .set_key(Some(key(user, &device_key(&device.device_id))))
        .expression_attribute_values(":generation", text(&device.generation));
    check(if is_last_resort {
        write
            .condition_expression("generation = :generation AND last_resort = :data")
            .expression_attribute_values(":data", binary(&device.last_resort))
    } else {
        write.condition_expression("generation = :generation")
    })
}

fn claim_put(store: &Store, claim: &Claim) -> Result<TransactWriteItem, BuildError> {
    let Claim { user, device, claim_id, users, result, now, .. } = claim;
    let result = serde_json::to_string(result).map_err(BuildError::other)?;
    put(Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(key(user, &claim_key(device, claim_id))))
        .item("users", text(users_digest(users)))
        .item("result", text(result))
        .item("expires_at", number(now.plus(CLAIM_TTL).seconds()))
        .item(VERSION, version())
        .condition_expression("attribute_not_exists(key_id) OR expires_at <= :now")
        .expression_attribute_values(":now", number(now.seconds())))
}

fn got_put(
    store: &Store,
    user: &UserId,
    other: &UserId,
    got: &Got,
    now: Timestamp,
) -> Result<TransactWriteItem, BuildError> {
    let from = got.from.iter().map(|(device, count)| (device.as_str().to_owned(), number(count)));
    put(Put::builder()
        .table_name(&store.tables.keys)
        .set_item(Some(key(user, &got_key(other))))
        .item("day", number(got.day))
        .item("from", AttributeValue::M(from.collect()))
        .item("expires_at", number(now.plus(GOT_TTL).seconds()))
        .item(VERSION, version()))
}

fn key(user: &UserId, name: &str) -> Item {
    Item::from([("user_id".to_owned(), text(user.as_str())), ("key_id".to_owned(), text(name))])
}

/// The sort key of the row of rates.
const LIMITS: &str = "limits";
/// The beginning of the sort keys of the counts of a day, by user.
const GOT: &str = "got ";

fn device_key(device: &DeviceId) -> String {
    format!("device {device}")
}

fn package_key(digest: &str) -> String {
    format!("package {digest}")
}

fn claim_key(device: &DeviceId, claim_id: &ClientMsgId) -> String {
    format!("claim {device} {claim_id}")
}

fn got_key(other: &UserId) -> String {
    format!("{GOT}{other}")
}

fn free_prefix(device: &DeviceId, generation: &str) -> String {
    format!("free {device} {generation} ")
}

/// Sorts as the times do.
fn sortable(at: Timestamp) -> String {
    format!("{:015}", at.millis())
}

fn read(table: &str, item: &Item) -> Result<DeviceKeys, Error> {
    let row = Reader { item, table };
    let device = |name: &str| name.strip_prefix("device ").and_then(|id| DeviceId::parse(id).ok()).ok_or(());
    Ok(DeviceKeys {
        device_id: row.parsed("key_id", device)?,
        generation: row.text("generation")?.to_owned(),
        credential: row.bytes("credential")?,
        last_resort: row.bytes("last_resort")?,
        last_resort_expires_at: row.time("last_resort_expires_at")?,
        added_at: row.time("added_at")?,
        seen_at: row.time("seen_at")?,
    })
}

fn read_free(table: &str, item: &Item) -> Result<Free, Error> {
    let row = Reader { item, table };
    let key = row.text("key_id")?;
    let mut parts = key.rsplit(' ');
    let (digest, expires_at) = (parts.next(), parts.next().and_then(|millis| millis.parse().ok()));
    let (Some(digest), Some(millis)) = (digest, expires_at) else { return Err(row.unusable("key_id")) };
    Ok(Free { digest: digest.to_owned(), expires_at: Timestamp::from_millis(millis), key: key.to_owned() })
}

fn read_limits(row: &Reader) -> Result<KeyLimits, Error> {
    Ok(KeyLimits {
        revision: row.count("revision")?,
        claims_until: row.optional("claims_until", Reader::time)?,
        packages_until: row.optional("packages_until", Reader::time)?,
        devices_until: row.optional("devices_until", Reader::time)?,
    })
}

fn read_claimed(row: &Reader) -> Result<Claimed, Error> {
    let result = |text: &str| serde_json::from_str(text);
    Ok(Claimed { users: row.text("users")?.to_owned(), result: row.parsed("result", result)? })
}

fn read_got(row: &Reader) -> Result<Got, Error> {
    let from = row.item.get("from").and_then(|from| from.as_m().ok()).ok_or_else(|| row.unusable("from"))?;
    let count = |(device, count): (&String, &AttributeValue)| {
        let count = count.as_n().ok().and_then(|digits| digits.parse().ok());
        DeviceId::parse(device).ok().zip(count).ok_or_else(|| row.unusable("from"))
    };
    Ok(Got { day: row.number("day")?, from: from.iter().map(count).collect::<Result<_, _>>()? })
}
