//! `claim_keys`: takes a package of each device of some users.

use std::collections::BTreeMap;

use actions::{Attempt, retry};
use domain::{DeviceKeys, Failure, Got, day};
use futures_util::future::{join_all, try_join_all};
use lambda::{Caller, EventLine};
use store::Written;
use store::keys::{self, Claim, Claimant, KeyLimits, Taken, WRITES_MAX, users_digest};
use wire::limits::{FRAME_BYTES_MAX, KEYS_LOW};
use wire::{
    ClaimKeysRequest, ClaimKeysResult, ClaimedDevice, ClaimedUser, DeviceId, Refusal, Reply, ServerEvent, Timestamp,
    UserId,
};

use crate::Deps;

/// Space of the frame for what surrounds the users with their devices: the request's id, and the ids of users who are
/// left.
const SURROUNDING_BYTES_MAX: usize = 4 * 1024;

/// Takes the packages, if nothing of what was read has changed, and notifies the devices that have few left.
pub(crate) async fn claim(
    deps: &Deps,
    caller: &Caller,
    request: ClaimKeysRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let device = deps.device(caller)?;
    let mut conflicts = 0;
    let claimed = retry(&mut conflicts, async || attempt(deps, &caller.user, device, &request).await).await;
    line.measures.conflicts = (conflicts > 0).then_some(conflicts);
    let (result, taken) = claimed?;
    let low = taken.iter().filter(|taken| taken.package.is_some() && taken.left <= KEYS_LOW);
    let told = low.map(|taken| async move {
        let event = ServerEvent::KeysLow { left: taken.left };
        deps.actions.tell_device(&taken.user, &taken.device.device_id, &event).await
    });
    line.frames(join_all(told).await.iter().map(|to| to.frames));
    Ok(result.into())
}

async fn attempt(
    deps: &Deps,
    user: &UserId,
    device: &DeviceId,
    request: &ClaimKeysRequest,
) -> Result<Attempt<(ClaimKeysResult, Vec<Taken>)>, Failure> {
    let (store, now) = (&deps.actions.store, deps.actions.clock.now());
    let ClaimKeysRequest { claim_id, users, conversation_id } = request;
    let Claimant { claimed, limits, got } = keys::claimant(store, user, device, claim_id, users, now).await?;
    if let Some(claimed) = claimed {
        if claimed.users != users_digest(users) {
            return Err(Refusal::IdReused.into());
        }
        return Ok(Attempt::Done((claimed.result, vec![])));
    }
    let others: Vec<&UserId> = users.iter().filter(|other| *other != user).collect();
    match conversation_id {
        None => deps.actions.check_reach(user, &others).await?,
        Some(group) => deps.actions.check_members(user, users, group).await?,
    }
    let found = try_join_all(users.iter().map(|of| deps.devices(of, now))).await?;
    let lacking = users.iter().zip(&found).filter(|(of, devices)| *of != user && devices.is_empty());
    let lacking: Vec<UserId> = lacking.map(|(of, _)| of.clone()).collect();
    if !lacking.is_empty() {
        return Err(Refusal::NoKeys { users: lacking }.into());
    }
    let claims_until = deps.rates.claims.take(limits.claims_until, now).map_err(Refusal::rate_limited)?;
    let limits = KeyLimits { claims_until: Some(claims_until), ..limits };

    let mut picked = Picked::new();
    for (of, devices) in users.iter().zip(found) {
        let devices = devices.into_iter().filter(|one| of != user || one.device_id != *device).collect();
        // The limit is on the devices of others.
        let got = (of != user).then(|| got.get(of).cloned().unwrap_or_default().on(day(now)));
        if !picked.add(deps, of, devices, got, now).await? {
            break;
        }
    }
    let Picked { taken, got, users: claimed, .. } = picked;
    let left = users.iter().skip(claimed.len()).cloned().collect();
    let result = ClaimKeysResult { users: claimed, left };
    let (result, taken) = (&result, &taken);
    let claim = Claim { user, device, claim_id, users, result, taken, limits: &limits, got: &got, now };
    Ok(match keys::claim(store, &claim).await? {
        Written::Done => Attempt::Done((result.clone(), taken.clone())),
        Written::Lost => Attempt::AgainAfterPause,
    })
}

/// The users and packages of a claim, added user by user.
struct Picked {
    users: Vec<ClaimedUser>,
    taken: Vec<Taken>,
    /// The counts that the claim raises.
    got: BTreeMap<UserId, Got>,
    bytes: usize,
    writes: usize,
}

impl Picked {
    fn new() -> Self {
        // The claim's own row, and that of the rates.
        Self { users: vec![], taken: vec![], got: BTreeMap::new(), bytes: SURROUNDING_BYTES_MAX, writes: 2 }
    }

    /// Adds a user with all devices. Returns `false` if the frame or the transaction has no room. The first user always
    /// fits. `got`: the packages of the user that the caller has got today, if they are limited.
    async fn add(
        &mut self,
        deps: &Deps,
        of: &UserId,
        devices: Vec<DeviceKeys>,
        mut got: Option<Got>,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let store = &deps.actions.store;
        // One more than are few: whether there are more does not matter.
        let limit = usize::try_from(KEYS_LOW).unwrap_or_default() + 2;
        let free = try_join_all(devices.iter().map(|device| keys::free(store, of, device, now, limit))).await?;
        let mut taken = vec![];
        for (device, free) in devices.into_iter().zip(free) {
            let left = (free.len() as u64).saturating_sub(1);
            let has_room = got.as_ref().is_none_or(|got| got.has_room(&device.device_id));
            let package = free.into_iter().next().filter(|_| has_room);
            if let (Some(_), Some(got)) = (&package, &mut got) {
                got.count(&device.device_id);
            }
            if package.is_some() || device.has_last_resort(now) {
                taken.push(Taken { user: of.clone(), device, package, left });
            }
        }
        let digests: Vec<&str> =
            taken.iter().filter_map(|taken| taken.package.as_ref()).map(|package| package.digest.as_str()).collect();
        let packages = keys::packages(store, of, &digests).await?;
        let claimed = taken.iter().filter_map(|Taken { device, package, .. }| {
            let key_package = match package {
                None => device.last_resort.clone(),
                Some(package) => packages.get(&package.digest)?.clone(),
            };
            Some(ClaimedDevice { device_id: device.device_id.clone(), key_package, last_resort: package.is_none() })
        });
        let claimed = ClaimedUser { user_id: of.clone(), devices: claimed.collect() };
        let counted = got.filter(|_| taken.iter().any(|taken| taken.package.is_some()));
        self.bytes += serde_json::to_string(&claimed).map_or(FRAME_BYTES_MAX, |text| text.len() + 1);
        self.writes += Claim::writes_of(&taken) + usize::from(counted.is_some());
        if !self.users.is_empty() && (self.bytes > FRAME_BYTES_MAX || self.writes > WRITES_MAX) {
            return Ok(false);
        }
        self.users.push(claimed);
        self.taken.extend(taken);
        self.got.extend(counted.map(|got| (of.clone(), got)));
        Ok(true)
    }
}
