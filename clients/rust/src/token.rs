//! When the app's token ends. Whether it is valid is the server's to say.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

/// How long it is valid by this device's clock; nothing, if it has ended. `None`: it does not say so in a way that can be read.
pub(crate) fn time_left(token: &str, now: SystemTime) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        // Some issuers write a fraction.
        exp: f64,
    }
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    let ends = Duration::try_from_secs_f64(exp).ok()?;
    Some(ends.saturating_sub(now.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn left(claims: &str) -> Option<Duration> {
        let token = format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.as_bytes()));
        time_left(&token, UNIX_EPOCH + Duration::from_secs(1000))
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
            left(&claims);
        }
    }
}
