//! The checks of a token (RFC 7519, RFC 8725).

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use lambda::Clock;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use wire::{Timestamp, UserId};

use crate::Principal;
use crate::keys::{FetchError, Keys};

/// Far more than issuers put into a token.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// For an issuer whose clock is ahead of ours.
const CLOCK_LEEWAY: Duration = Duration::from_mins(1);

/// The claims that a token must have besides `sub` and `exp`. A claim for which the deployment allows any value is not
/// checked.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub issuer: Option<String>,
    pub audience: Option<String>,
    /// The audience of the tokens of services, which count over HTTP alone. Without one, no service has a token.
    pub services: Option<String>,
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
    #[error("the token is neither an access token nor an ID token")]
    Kind,
    #[error("sub or exp is missing or unusable")]
    Claims,
    #[error("sub is the id of a service, whose tokens count over HTTP with ServiceAudience alone")]
    Service,
    #[error("the issuer's keys are unavailable: {0}")]
    KeysUnavailable(FetchError),
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// A `NumericDate`: seconds, not necessarily whole (RFC 7519, section 2).
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    aud: Option<Value>,
    /// Which app the token was issued to: Cognito's access tokens have this and no `aud`.
    client_id: Option<String>,
    /// The token's purpose, in Cognito's claim.
    token_use: Option<String>,
    /// The token's purpose, in tokens of Keycloak and of some issuers with their own code.
    typ: Option<String>,
    /// Events in a token that reports them: a logout (OIDC Back-Channel Logout 1.0), or another security event (RFC
    /// 8417).
    events: Option<IgnoredAny>,
}

/// Which tokens count for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Socket,
    Http,
}

pub(crate) async fn verify(
    keys: &Keys,
    expected: &Expected,
    token: &str,
    (via, clock): (Via, &Clock),
) -> Result<Principal, Invalid> {
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
    if !claims.are_of_access() || !header.typ.is_none_or(|typ| is_plain(&typ)) {
        return Err(Invalid::Kind);
    }
    let user = UserId::parse(&claims.sub).map_err(|_| Invalid::Claims);
    let is_service = user.as_ref().is_ok_and(UserId::is_service);
    if is_service {
        // Its own audience: an issuer that lets a user choose `sub` must not make a service of that user.
        let services = expected.services.as_ref().filter(|_| via == Via::Http);
        if !services.is_some_and(|audience| claims.are_for(audience)) {
            return Err(Invalid::Service);
        }
    } else if !expected.audience.as_ref().is_none_or(|audience| claims.are_for(audience)) {
        return Err(Invalid::IssuerOrAudience);
    }
    let expires_at = in_time(&claims, clock.now())?;
    Ok(Principal { user: user?, expires_at })
}

/// Reports whether a header declares just a JWT, or an access token (RFC 9068): other tokens of the issuer declare
/// more, such as `logout+jwt`. A media type, in any case, with or without `application/` (RFC 7515, section 4.1.9).
fn is_plain(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

impl Claims {
    /// Reports whether the claims are of an access token or an ID token, if the issuer has a claim for that.
    fn are_of_access(&self) -> bool {
        matches!(self.token_use.as_deref(), None | Some("access" | "id"))
            && matches!(self.typ.as_deref(), None | Some("Bearer" | "ID" | "access"))
            && self.events.is_none()
    }

    fn are_for(&self, audience: &str) -> bool {
        match &self.aud {
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            Some(one) => one == audience,
            None => self.token_use.as_deref() == Some("access") && self.client_id.as_deref() == Some(audience),
        }
    }
}

/// The audience is checked by [`Claims::are_for`]; times by [`in_time`], against a clock that tests can own.
fn validation(algorithm: Algorithm, expected: &Expected) -> Validation {
    let mut validation = Validation::new(algorithm);
    let mut required = vec!["sub", "exp"];
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    if let Some(issuer) = &expected.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    validation.set_required_spec_claims(&required);
    validation
}

/// When it ends, in Unix seconds, if it has begun and not ended.
fn in_time(claims: &Claims, now: Timestamp) -> Result<i64, Invalid> {
    // Whole seconds, as they are compared at each request: who is let in is not expired at the first one.
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and the far future is no less far for it")]
    let expires_at = claims.exp.floor() as i64;
    if Timestamp::from_millis(expires_at.saturating_mul(1000)) <= now {
        return Err(Invalid::Expired);
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 fit a double's 53 bits until the year 287396"
    )]
    let latest = now.plus(CLOCK_LEEWAY).millis() as f64 / 1000.0;
    let begun = [claims.nbf, claims.iat].into_iter().flatten().all(|begins| begins <= latest);
    if begun { Ok(expires_at) } else { Err(Invalid::NotYet) }
}

fn reason(kind: &ErrorKind) -> Invalid {
    match kind {
        ErrorKind::InvalidSignature => Invalid::Signature,
        ErrorKind::InvalidIssuer => Invalid::IssuerOrAudience,
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => Invalid::IssuerOrAudience,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) | ErrorKind::Json(_) => Invalid::Claims,
        _ => Invalid::Malformed,
    }
}
