//! A request over HTTP: its frame, and the status of the reply. Frames are those of sockets.

use std::borrow::Cow;

use data_encoding::BASE64;
use domain::Failure;
use store::Store;
use store::connections::{self, Freshness};
use wire::{Refusal, Timestamp, UserId};

use crate::caller::{Caller, DEVICE_HEADER};
use crate::event::ApiEvent;

/// Returns the frame. API Gateway encodes a body whose content type is not one of text.
pub(crate) fn frame(event: &ApiEvent) -> Cow<'_, str> {
    let body = event.body.as_deref().unwrap_or_default();
    if !event.is_base64_encoded {
        return Cow::Borrowed(body);
    }
    let decoded = BASE64.decode(body.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Cow::Owned(decoded.unwrap_or_default())
}

/// Checks what the authorizer can't know: its reply is the same for all requests with the token.
///
/// # Errors
/// `forbidden` for a service on a user's route, and the reverse; `bad_request` for a malformed device.
pub(crate) fn check(event: &ApiEvent, caller: &Caller, of_services: bool) -> Result<(), Refusal> {
    if caller.user.is_service() != of_services {
        return Err(Refusal::Forbidden);
    }
    if caller.device.is_none() && event.header(DEVICE_HEADER).next().is_some() {
        return Err(Refusal::bad_request("X-Device-Id", "must be a device's id"));
    }
    Ok(())
}

/// Checks that the user is not suspended: a token is good until it expires, and no socket was closed. The read may miss a
/// suspension of the last instant, as requests under way on a socket do.
///
/// # Errors
/// `forbidden`
pub(crate) async fn check_suspended(store: &Store, user: &UserId, now: Timestamp) -> Result<(), Failure> {
    match connections::suspended_until(store, user, now, Freshness::Eventual).await? {
        Some(_) => Err(Refusal::Forbidden.into()),
        None => Ok(()),
    }
}

/// Returns the status of an outcome.
pub(crate) fn status<T>(outcome: &Result<T, Failure>) -> i64 {
    match outcome {
        Ok(_) => 200,
        Err(failure) => match failure.refusal() {
            Refusal::BadRequest { .. } => 400,
            Refusal::TokenExpired => 401,
            Refusal::Forbidden
            | Refusal::NotMember
            | Refusal::Rejected { .. }
            | Refusal::DeviceRequired
            | Refusal::EncryptionRequired => 403,
            Refusal::Gone | Refusal::UnknownAction => 404,
            Refusal::IdReused
            | Refusal::Conflict
            | Refusal::NotReady
            | Refusal::LimitReached
            | Refusal::NoKeys { .. }
            | Refusal::DeviceLimit
            | Refusal::StaleEpoch { .. }
            | Refusal::RekeyRequired { .. } => 409,
            Refusal::TooLarge { .. } => 413,
            Refusal::RateLimited { .. } => 429,
            Refusal::Unavailable => 503,
        },
    }
}
