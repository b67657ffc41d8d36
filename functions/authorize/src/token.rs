//! What makes a token good (RFC 7519, RFC 8725).

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use lambda::Clock;
use serde::Deserialize;
use wire::{Timestamp, UserId};

use crate::Principal;
use crate::keys::{FetchError, Keys};

/// Far more than issuers put into a token.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// For an issuer whose clock is ahead of ours.
const NOT_BEFORE_LEEWAY: Duration = Duration::from_mins(1);

/// Which claims a token must carry besides `sub` and `exp`. Not checked where the deployment names none.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub issuer: Option<String>,
    pub audience: Option<String>,
}

/// Why a token does not count. For the log: no part of the token is in it.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    #[error("no bearer token")]
    NoToken,
    #[error("the token is too long or malformed")]
    Malformed,
    #[error("the token's algorithm is none of RS256, ES256, EdDSA")]
    Algorithm,
    #[error("the token's key is unknown")]
    UnknownKey,
    #[error("the signature is wrong")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the issuer or audience is missing or another one")]
    IssuerOrAudience,
    #[error("sub or exp is missing or unusable")]
    Claims,
    #[error("the issuer's keys are unavailable: {0}")]
    KeysUnavailable(FetchError),
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// A `NumericDate`: seconds, not necessarily whole (RFC 7519, section 2).
    exp: f64,
    nbf: Option<f64>,
}

pub(crate) async fn verify(keys: &Keys, expected: &Expected, token: &str, clock: &Clock) -> Result<Principal, Invalid> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Invalid::Malformed);
    }
    // `alg: none` and names that don't exist end here.
    let header = decode_header(token).map_err(|_| Invalid::Malformed)?;
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
        return Err(Invalid::Algorithm);
    }
    // Extensions that must be understood, and are not (RFC 7515, section 4.1.11).
    if header.crit.is_some() {
        return Err(Invalid::Malformed);
    }
    let found = keys.find(header.kid.as_deref(), header.alg, clock).await;
    let key = found.map_err(Invalid::KeysUnavailable)?.ok_or(Invalid::UnknownKey)?;
    let validation = validation(key.algorithm, expected);
    let claims = decode::<Claims>(token, &key.decoding, &validation).map_err(|error| reason(error.kind()))?.claims;
    in_time(&claims, clock.now())?;
    let user = UserId::parse(&claims.sub).map_err(|_| Invalid::Claims)?;
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and the far future is no less far for it")]
    let expires_at = claims.exp.floor() as i64;
    Ok(Principal { user, expires_at })
}

/// Times are checked by [`in_time`], against a clock that tests can own.
fn validation(algorithm: Algorithm, expected: &Expected) -> Validation {
    let mut validation = Validation::new(algorithm);
    let mut required = vec!["sub", "exp"];
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = expected.audience.is_some();
    if let Some(issuer) = &expected.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    if let Some(audience) = &expected.audience {
        validation.set_audience(&[audience]);
        required.push("aud");
    }
    validation.set_required_spec_claims(&required);
    validation
}

fn in_time(claims: &Claims, now: Timestamp) -> Result<(), Invalid> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 fit a double's 53 bits until the year 287396"
    )]
    let seconds = |at: Timestamp| at.millis() as f64 / 1000.0;
    // NaN compares as neither, so it must not be what admits.
    if claims.exp.partial_cmp(&seconds(now)) != Some(std::cmp::Ordering::Greater) {
        return Err(Invalid::Expired);
    }
    let latest = seconds(now.plus(NOT_BEFORE_LEEWAY));
    if claims.nbf.is_some_and(|nbf| nbf > latest) { Err(Invalid::NotYet) } else { Ok(()) }
}

fn reason(kind: &ErrorKind) -> Invalid {
    match kind {
        ErrorKind::InvalidSignature => Invalid::Signature,
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience => Invalid::IssuerOrAudience,
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" || claim == "aud" => Invalid::IssuerOrAudience,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) | ErrorKind::Json(_) => Invalid::Claims,
        _ => Invalid::Malformed,
    }
}
