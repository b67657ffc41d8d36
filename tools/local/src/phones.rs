//! Phones that exist only here, with an app that does what `docs/clients.md` asks for: what each shows now.
#![allow(clippy::indexing_slicing, reason = "indexing JSON answers null where there is nothing")]

use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::phone::Phone;
use crate::sns::{Endpoints, Uninstalled};

/// The phones of a user, whose rows of the devices table these are.
pub(crate) fn shown(endpoints: &mut Endpoints, user: &str, rows: &[Value]) -> Value {
    let registered: Vec<Value> = rows
        .iter()
        .map(|row| match endpoints.phone(row["endpoint_arn"].as_str().unwrap_or_default()) {
            Some(phone) => phone.look(row),
            None => Phone::dead().look(row),
        })
        .collect();
    let phone_of = |gone: &Uninstalled| registered.iter().find(|phone| phone["device_id"] == gone.device_id);
    // A user who registers again is back. The other rows go when a push finds the token dead.
    endpoints
        .uninstalled
        .retain(|gone| gone.user != user || phone_of(gone).is_none_or(|phone| phone["alive"] == false));
    let gone = endpoints.uninstalled.iter().filter(|gone| gone.user == user && phone_of(gone).is_none()).map(|gone| {
        let Uninstalled { device_id, platform, .. } = gone;
        json!({ "device_id": device_id, "platform": platform, "alive": false, "badge": null, "notifications": [] })
    });
    let phones = [registered.clone(), gone.collect()].concat();
    json!({ "phones": phones })
}

/// The app on a phone has a connection: it hears what the user reads. The device is a row of the devices table, the inbox
/// what the inbox table has of the user.
pub(crate) fn catch_up(endpoints: &mut Endpoints, device: &Value, inbox: &[Value]) {
    if let Some(phone) = endpoints.phone(device["endpoint_arn"].as_str().unwrap_or_default()) {
        phone.catch_up(inbox, OffsetDateTime::now_utc());
    }
}

/// The app on the phone that this row of the devices table is about is there again, if it was not: its token is good.
pub(crate) fn install(endpoints: &mut Endpoints, device: &Value) {
    endpoints.revive(device["endpoint_arn"].as_str().unwrap_or_default());
}

/// Removes the app from the phone that this row of the devices table is about.
pub(crate) fn kill(endpoints: &mut Endpoints, row: &Value) {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    if let Some(phone) = endpoints.phone(&text("endpoint_arn")) {
        phone.kill();
    }
    let gone = Uninstalled { user: text("user_id"), device_id: text("device_id"), platform: text("platform") };
    if !endpoints.uninstalled.contains(&gone) {
        endpoints.uninstalled.push(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_without_the_app_is_listed_until_it_registers_again() {
        let mut endpoints = Endpoints::default();
        let row =
            json!({ "user_id": "bob", "device_id": "d", "platform": "apns", "badge": true, "endpoint_arn": "gone" });
        kill(&mut endpoints, &row);
        let alive =
            |rows: &[Value], endpoints: &mut Endpoints| shown(endpoints, "bob", rows)["phones"][0]["alive"].clone();
        // With its row, and when a push has found the token dead.
        assert_eq!(alive(&[row], &mut endpoints), false);
        assert_eq!(alive(&[], &mut endpoints), false);
        assert_eq!(shown(&mut endpoints, "alice", &[]), json!({ "phones": [] }));
    }
}
