//! Reads the user and the expiry from the app's token. Only the server checks whether the token is valid.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Returns the user of the token. `None`: the client can't read a user from it.
pub fn subject(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        sub: String,
    }
    claims(token).map(|Claims { sub }| sub)
}

fn claims<T: DeserializeOwned>(token: &str) -> Option<T> {
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// Returns the token's remaining lifetime by this device's clock; zero if it has expired. `None`: the client can't read
/// an expiry.
pub fn time_left(token: &str, now: SystemTime) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        // Some issuers write a fraction.
        exp: f64,
    }
    let Claims { exp } = claims(token)?;
    let ends = Duration::try_from_secs_f64(exp).ok()?;
    Some(ends.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.as_bytes()))
    }

    fn left(claims: &str) -> Option<Duration> {
        time_left(&token(claims), UNIX_EPOCH + Duration::from_secs(1000))
    }

    #[test]
    fn a_jwt_says_whose_it_is() {
        assert_eq!(subject(&token(r#"{"sub":"alice"}"#)).as_deref(), Some("alice"));
        for claims in [r#"{"exp":1}"#, r#"{"sub":7}"#, "[]", ""] {
            assert_eq!(subject(&token(claims)), None, "{claims}");
        }
        assert_eq!(subject("opaque"), None);
    }

    #[test]
    fn a_jwt_says_when_it_ends() {
        assert_eq!(left(r#"{"sub":"Zoë","exp":4600}"#), Some(Duration::from_secs(3600)));
        assert_eq!(left(r#"{"exp":1000.5}"#), Some(Duration::from_millis(500)));
        assert_eq!(left(r#"{"exp":999}"#), Some(Duration::ZERO));
    }

    #[test]
    fn what_says_no_end_has_none() {
        for claims in [r#"{"sub":"alice"}"#, r#"{"exp":"soon"}"#, r#"{"exp":-1}"#, r#"{"exp":1e300}"#, "[]"] {
            assert_eq!(left(claims), None, "{claims}");
        }
    }

    proptest! {
        #[test]
        fn any_text_may_be_a_token(text in ".*", claims in ".*") {
            time_left(&text, UNIX_EPOCH);
            subject(&text);
            left(&claims);
            subject(&token(&claims));
        }
    }
}
