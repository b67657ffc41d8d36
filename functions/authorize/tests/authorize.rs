//! The authorizer, asked as API Gateway asks it, with an issuer on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod fixture;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use authorize::{Deps, Expected, FetchError, Invalid, Keys, handle};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::RsaPublicKeyComponents;
use axum::http::HeaderValue;
use data_encoding::{BASE64, BASE64URL_NOPAD};
use jsonwebtoken::Algorithm;
use lambda::{BadVariable, Clock, LambdaEvent};
use lambda_runtime::Context;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use wire::Timestamp;

use fixture::{Issuer, LATER, START_MS, Served, Signer, World, base64url, claims, claims_with, event, with_token};

const HOUR: Duration = Duration::from_hours(1);
const PAUSE: Duration = Duration::from_secs(30);
const NO_KEYS_PAUSE: Duration = Duration::from_secs(2);
const MILLISECOND: Duration = Duration::from_millis(1);
/// A millisecond less than [`NO_KEYS_PAUSE`].
const NEARLY: Duration = Duration::from_millis(1_999);
const KEYS_BYTES_MAX: usize = 256 * 1024;
const METHOD_ARN: &str = "arn:aws:execute-api:us-east-1:123456789012:a1b2c3d4e5/v1/$connect";

/// An RSA key of 1024 bits, and a token signed with it: `{"sub":"alice","exp":4102444800}`, whose signature OpenSSL takes.
const WEAK_N: &str = "1W-r-o3WazBjA5nST_4FMkAG9GqvYohXqq5uABdYKy5HAwnF77yD895X4acMhvqspjFPiEIkXnjhJrjgIfVO56_qN2ArpgkU\
                      GHMzLK-QoCSifRIdVV7ibMAML0sUUPpmeqouTdnY73pXiv4bjTmMmZDp2KK84HHJR4y7cGxp14E";
const WEAK_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IndlYWsifQ.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.xqxIDE5cjT\
                          C7OorvndJPYOtnmmk0i8_8lJxekgZDu5hilMVGawss3VJbzM8fwNzmZ5mjlZY_fVbl72XuLrDX0kNSbhkkF7ofyEx0xgTA\
                          WwzIJm5mDC2YYIRElIkuDfNrwVIfbBi8AurhH5nCDJHTR_lzl9GKLEhCxmRYM0fHTto";

/// Returns the reply for an admitted `alice` whose token ends [`LATER`].
fn alice() -> (String, String) {
    ("alice".to_owned(), LATER.to_string())
}

/// A function with one Ed25519 key, the quickest to make.
async fn world_and_signer() -> (World, Signer) {
    let signer = Signer::ed25519("k1");
    (World::serving(&[&signer]).await, signer)
}

// ---- The answer ----

#[tokio::test]
async fn every_algorithm_of_the_protocol_is_accepted() {
    let signers = [Signer::rsa("r"), Signer::p256("e"), Signer::ed25519("o")];
    let world = World::serving(&signers.each_ref()).await;
    for signer in &signers {
        assert_eq!(world.admits(&signer.token(&claims())).await, alice(), "{:?}", signer.algorithm);
    }
    assert_eq!(world.issuer.fetches(), 1);
}

#[tokio::test]
async fn an_admission_is_a_policy_for_the_very_method_and_carries_exp_as_text_and_the_device() {
    let (world, signer) = world_and_signer().await;
    let (answer, _) = world.ask(with_token(&signer.token(&claims()))).await;
    let expected = json!({
        "principalId": "alice",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{ "Action": "execute-api:Invoke", "Effect": "Allow", "Resource": METHOD_ARN }],
        },
        "context": { "exp": LATER.to_string(), "device_id": "firefox-7f3a" },
    });
    assert_eq!(answer.unwrap(), expected);
}

#[tokio::test]
async fn what_is_no_device_id_is_not_passed_on() {
    let (world, signer) = world_and_signer().await;
    for (query, device) in
        [(json!({}), None), (json!({"device_id": "a b"}), None), (json!({"device_id": "p1"}), Some("p1"))]
    {
        let mut event = with_token(&signer.token(&claims()));
        event.query_string_parameters = serde_json::from_value(query).unwrap();
        let (answer, _) = world.ask(event).await;
        assert_eq!(answer.unwrap()["context"].get("device_id").and_then(Value::as_str), device);
    }
}

#[tokio::test]
async fn the_line_in_the_log_says_how_long_it_took() {
    let (mut world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    world.admits(&token).await;
    // Each look at the clock is five milliseconds later.
    let now_ms = AtomicI64::new(START_MS);
    world.deps.clock = Clock::new(move || Timestamp::from_millis(now_ms.swap(START_MS + 5, Ordering::SeqCst)));
    let (_, log) = world.ask(with_token(&token)).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["duration_ms"], 5, "{log}");
}

#[tokio::test]
async fn a_refusal_names_nobody() {
    let (world, signer) = world_and_signer().await;
    let (answer, _) = world.ask(with_token(&signer.token(&claims_with("exp", json!(1))))).await;
    let expected = json!({
        "principalId": "anonymous",
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{ "Action": "execute-api:Invoke", "Effect": "Deny", "Resource": METHOD_ARN }],
        },
        "context": {},
    });
    assert_eq!(answer.unwrap(), expected);
}

// ---- Where the token is ----

#[tokio::test]
async fn the_header_comes_before_the_subprotocols_and_they_before_the_query() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.query_string_tokens = true;
    let token = |user: &str| signer.token(&claims_with("sub", json!(user)));
    let header = ("Authorization", &*format!("Bearer {}", token("header")));
    let subprotocol = ("Sec-WebSocket-Protocol", &*format!("pigeonhole.v1, bearer.{}", token("subprotocol")));
    let query = [("token", &*token("query"))];
    for (headers, user) in [
        (&[header, subprotocol][..], "header"),
        (&[header], "header"),
        (&[subprotocol], "subprotocol"),
        (&[("Sec-WebSocket-Protocol", "pigeonhole.v1")], "query"),
        (&[], "query"),
    ] {
        assert_eq!(world.admits_event(event(headers, &query)).await.0, user);
    }
}

#[tokio::test]
async fn the_first_place_with_a_token_decides_even_if_the_next_has_a_better_one() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.query_string_tokens = true;
    let good = signer.token(&claims());
    let bad = signer.token(&claims_with("exp", json!(1)));
    let good_offer = ("Sec-WebSocket-Protocol", &*format!("bearer.{good}"));
    let bad_offer = ("Sec-WebSocket-Protocol", &*format!("bearer.{bad}"));
    let bad_header = ("Authorization", &*format!("Bearer {bad}"));
    world.refuses_event(event(&[bad_header, good_offer], &[]), &Invalid::Expired).await;
    world.refuses_event(event(&[("Authorization", "Basic YWxpY2U6"), good_offer], &[]), &Invalid::NoToken).await;
    world.refuses_event(event(&[bad_offer], &[("token", &good)]), &Invalid::Expired).await;
}

#[tokio::test]
async fn the_query_string_counts_only_where_it_is_turned_on() {
    let (mut world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    world.refuses_event(event(&[], &[("token", &token)]), &Invalid::NoToken).await;
    world.deps.query_string_tokens = true;
    assert_eq!(world.admits_event(event(&[], &[("token", &token)])).await, alice());
}

#[test]
fn the_environment_turns_the_query_string_on_or_off() {
    let deps = |query_string| deps_of(&[("QUERY_STRING_TOKENS", query_string)]);
    assert!(deps("on").unwrap().query_string_tokens);
    assert!(!deps("off").unwrap().query_string_tokens);
    assert!(deps("yes").is_err());
}

/// Returns the result of a start with these variables instead of good ones; an empty one is not set.
fn deps_of(others: &[(&str, &str)]) -> Result<Deps, BadVariable> {
    fixture::log::start();
    let good = [
        ("JWKS_URL", "https://login.example.com/keys"),
        ("TOKEN_ISSUER", "https://login.example.com"),
        ("TOKEN_AUDIENCE", "pigeonhole"),
        ("QUERY_STRING_TOKENS", "off"),
    ];
    Deps::from_env(|name| {
        let found = others.iter().chain(&good).find(|(one, _)| *one == name).map(|(_, value)| *value);
        found.filter(|value| !value.is_empty()).map(str::to_owned).ok_or_else(|| BadVariable::new(name, "is not set"))
    })
}

#[tokio::test]
async fn the_scheme_is_bearer_in_any_case_and_no_other() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        for header in [format!("{scheme} {token}"), format!("{scheme}   {token} ")] {
            assert_eq!(world.admits_event(event(&[("authorization", &header)], &[])).await, alice());
        }
    }
    for header in ["", "Bearer", &*token, &*format!("Token {token}"), &*format!("Bearer,{token}")] {
        world.refuses_event(event(&[("Authorization", header)], &[]), &Invalid::NoToken).await;
    }
    world.refuses_event(event(&[("Authorization", "Bearer ")], &[]), &Invalid::Malformed).await;
}

#[tokio::test]
async fn the_subprotocol_is_found_wherever_it_stands() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    for offer in [
        format!("bearer.{token}"),
        format!("pigeonhole.v1,bearer.{token}"),
        format!(" bearer.{token} ,  pigeonhole.v1"),
        format!("a, b, bearer.{token}, c"),
    ] {
        assert_eq!(world.admits_event(event(&[("sec-websocket-protocol", &offer)], &[])).await, alice(), "{offer}");
    }
    let two_headers =
        [("Sec-WebSocket-Protocol", "pigeonhole.v1"), ("sec-websocket-protocol", &*format!("bearer.{token}"))];
    assert_eq!(world.admits_event(event(&two_headers, &[])).await, alice());
    for (offer, because) in [
        ("pigeonhole.v1", Invalid::NoToken),
        ("pigeonhole.v1, bearer", Invalid::NoToken),
        ("pigeonhole.v1, bearer.", Invalid::Malformed),
    ] {
        world.refuses_event(event(&[("Sec-WebSocket-Protocol", offer)], &[]), &because).await;
    }
}

#[tokio::test]
async fn an_event_with_only_one_of_the_two_header_maps_will_do() {
    let (world, signer) = world_and_signer().await;
    let whole = with_token(&signer.token(&claims()));
    let (mut single, mut multi) = (whole.clone(), whole);
    single.multi_value_headers.clear();
    multi.headers.clear();
    assert_eq!(world.admits_event(single).await, alice());
    assert_eq!(world.admits_event(multi).await, alice());
}

#[tokio::test]
async fn without_a_token_nobody_is_asked_for_keys() {
    let (world, _) = world_and_signer().await;
    world.refuses_event(event(&[], &[]), &Invalid::NoToken).await;
    world.refuses("nonsense", &Invalid::Malformed).await;
    assert_eq!(world.issuer.fetches(), 0);
}

#[tokio::test]
async fn the_example_event_is_refused_as_nobody_issued_its_token() {
    let (world, _) = world_and_signer().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events/authorize.json");
    let request = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    world.refuses_event(request, &Invalid::UnknownKey).await;
}

// ---- Times ----

#[tokio::test]
async fn a_token_is_good_until_the_millisecond_in_which_it_expires() {
    let (world, signer) = world_and_signer().await;
    let exp = START_MS / 1000 + 10;
    let token = signer.token(&claims_with("exp", json!(exp)));
    world.set_clock(exp * 1000 - 1);
    assert_eq!(world.admits(&token).await, ("alice".to_owned(), exp.to_string()));
    for too_late_ms in [0, 1, 1000, 3_600_000] {
        world.set_clock(exp * 1000 + too_late_ms);
        world.refuses(&token, &Invalid::Expired).await;
    }
}

#[tokio::test]
async fn exp_may_be_fractional_and_counts_in_whole_seconds_here_as_at_each_request() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims_with("exp", json!(1_795_168_900.75)));
    world.set_clock(1_795_168_899_999);
    assert_eq!(world.admits(&token).await.1, "1795168900");
    world.set_clock(1_795_168_900_000);
    world.refuses(&token, &Invalid::Expired).await;
}

#[tokio::test]
async fn exp_must_be_a_number_of_seconds() {
    let (world, signer) = world_and_signer().await;
    let header = signer.header().to_string();
    for exp in
        ["\"4102444800\"", "null", "true", "[]", "{}", "NaN", "Infinity", "1e999", "-1e999", "1e300", "-1", "-0.5"]
    {
        let token = signer.sign(&header, &format!(r#"{{"sub":"alice","exp":{exp}}}"#));
        world.refuses(&token, &Invalid::Claims).await;
    }
    world.refuses(&signer.token(&claims_with("exp", Value::Null)), &Invalid::Claims).await;
    let twice = signer.sign(&header, &format!(r#"{{"sub":"alice","exp":1,"exp":{LATER}}}"#));
    world.refuses(&twice, &Invalid::Claims).await;
    world.refuses(&signer.token(&claims_with("exp", json!(0))), &Invalid::Expired).await;
}

#[tokio::test]
async fn an_exp_in_the_far_future_stays_in_range() {
    let (world, signer) = world_and_signer().await;
    for (exp, passed_on) in [
        (json!(4_102_444_800_000_u64), "4102444800000"),
        (json!(1e18), "1000000000000000000"),
        (json!(i64::MAX), "9223372036854775807"),
        (json!(u64::MAX), "9223372036854775807"),
    ] {
        assert_eq!(world.admits(&signer.token(&claims_with("exp", exp))).await.1, passed_on);
    }
}

#[tokio::test]
async fn a_token_for_later_is_good_a_minute_before() {
    let (world, signer) = world_and_signer().await;
    let begins = START_MS / 1000 + 1000;
    for claim in ["nbf", "iat"] {
        let token = signer.token(&claims_with(claim, json!(begins)));
        for early_ms in [60_000, 1, 0, -1] {
            world.set_clock(begins * 1000 - early_ms);
            assert_eq!(world.admits(&token).await, alice());
        }
        for early_ms in [60_001, 120_000] {
            world.set_clock(begins * 1000 - early_ms);
            world.refuses(&token, &Invalid::NotYet).await;
        }
    }
}

#[tokio::test]
async fn a_beginning_that_cannot_be_read_is_not_taken_for_none() {
    let (world, signer) = world_and_signer().await;
    for claim in ["nbf", "iat"] {
        for begins in [json!("0"), json!("tomorrow"), json!(false), json!([0])] {
            world.refuses(&signer.token(&claims_with(claim, begins)), &Invalid::Claims).await;
        }
    }
}

// ---- Issuer and audience ----

#[tokio::test]
async fn issuer_and_audience_are_checked_where_they_are_configured() {
    let (mut world, signer) = world_and_signer().await;
    let (issuer, audience) = (Some("https://issuer.example".to_owned()), Some("pigeonhole".to_owned()));
    for expected in [
        Expected { issuer: issuer.clone(), ..Expected::default() },
        Expected { audience: audience.clone(), ..Expected::default() },
        Expected { issuer, audience, services: None },
    ] {
        world.deps.expected = expected.clone();
        let mut good = claims();
        good["iss"] = json!(expected.issuer.as_deref().unwrap_or("https://another.example"));
        good["aud"] = json!(expected.audience.as_deref().unwrap_or("another"));
        assert_eq!(world.admits(&signer.token(&good)).await, alice());
        let checked = [("iss", expected.issuer.is_some()), ("aud", expected.audience.is_some())];
        for claim in checked.iter().filter(|(_, checked)| *checked).map(|(claim, _)| *claim) {
            for wrong in [json!("another"), json!(""), json!(7), json!({}), json!([]), json!(["another"]), Value::Null]
            {
                let mut bad = good.clone();
                bad[claim] = wrong;
                world.refuses(&signer.token(&bad), &Invalid::IssuerOrAudience).await;
            }
            let mut missing = good.clone();
            missing.as_object_mut().unwrap().remove(claim);
            world.refuses(&signer.token(&missing), &Invalid::IssuerOrAudience).await;
        }
    }
}

#[tokio::test]
async fn issuer_and_audience_are_compared_to_the_letter() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.expected = Expected { issuer: Some("https://issuer.example".to_owned()), ..Expected::default() };
    for issuer in ["https://issuer.example/", "HTTPS://issuer.example", "https://issuer.example.evil", "https://issuer"]
    {
        world.refuses(&signer.token(&claims_with("iss", json!(issuer))), &Invalid::IssuerOrAudience).await;
    }
}

#[tokio::test]
async fn an_audience_may_be_one_of_a_list() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.expected.audience = Some("pigeonhole".to_owned());
    let admitted = [json!(["pigeonhole"]), json!(["another", "pigeonhole"])];
    for audience in admitted {
        assert_eq!(world.admits(&signer.token(&claims_with("aud", audience))).await, alice());
    }
    let refused = [json!(["another", "pigeon"]), json!([["pigeonhole"]]), json!([])];
    for audience in refused {
        world.refuses(&signer.token(&claims_with("aud", audience)), &Invalid::IssuerOrAudience).await;
    }
}

#[tokio::test]
async fn an_access_token_of_cognito_is_for_the_client_that_it_was_issued_to() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.expected.audience = Some("pigeonhole".to_owned());
    let mut good = claims_with("token_use", json!("access"));
    good["client_id"] = json!("pigeonhole");
    assert_eq!(world.admits(&signer.token(&good)).await, alice());
    for (claim, value) in [
        ("client_id", json!("another")),
        ("client_id", Value::Null),
        // An ID token has an `aud`; one of another kind of issuer may have a `client_id` that is not whom it is for.
        ("token_use", json!("id")),
        ("token_use", Value::Null),
        ("aud", json!("another")),
        ("aud", json!([])),
    ] {
        let mut bad = good.clone();
        bad[claim] = value;
        world.refuses(&signer.token(&bad), &Invalid::IssuerOrAudience).await;
    }
}

#[tokio::test]
async fn issuer_and_audience_are_free_where_they_are_not_configured() {
    let (world, signer) = world_and_signer().await;
    for (claim, value) in [("iss", json!("anybody")), ("aud", json!("anything")), ("aud", json!(["a", "b"]))] {
        assert_eq!(world.admits(&signer.token(&claims_with(claim, value))).await, alice());
    }
}

#[test]
fn issuer_and_audience_are_asked_for_and_any_switches_a_check_off() {
    let expected = |issuer, audience| {
        let expected = deps_of(&[("TOKEN_ISSUER", issuer), ("TOKEN_AUDIENCE", audience)]).unwrap().expected;
        (expected.issuer, expected.audience)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(expected("https://a.example", "b"), (some("https://a.example"), some("b")));
    assert_eq!(expected("any", "b"), (None, some("b")));
    assert_eq!(expected("https://a.example", "any"), (some("https://a.example"), None));
    assert_eq!(expected("Any", "anybody"), (some("Any"), some("anybody")));
    for name in ["TOKEN_ISSUER", "TOKEN_AUDIENCE"] {
        let error = deps_of(&[(name, "")]).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} is not set")), "{error}");
    }
}

#[test]
fn what_is_checked_is_in_the_log_from_the_start() {
    for (issuer, audience, checked) in [("https://a.example", "any", (true, false)), ("any", "b", (false, true))] {
        fixture::log::take();
        deps_of(&[("TOKEN_ISSUER", issuer), ("TOKEN_AUDIENCE", audience)]).unwrap();
        let log = fixture::log::take();
        let line: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(
            (&line["issuer_checked"], &line["audience_checked"]),
            (&json!(checked.0), &json!(checked.1)),
            "{log}"
        );
        assert!(!log.contains("example"), "{log}");
    }
}

#[test]
fn where_strangers_share_the_keys_nothing_may_be_any() {
    let entra = "https://login.microsoftonline.com/common/discovery/v2.0/keys";
    for shared in [
        "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com",
        "https://WWW.googleapis.com:443/service_accounts/v1/jwk/securetoken%40system.gserviceaccount.com",
        "https://www.googleapis.com/oauth2/v3/certs",
        "https://appleid.apple.com/auth/keys",
        "https://appleid.apple.com./auth/keys",
        "https://gitlab.com/oauth/discovery/keys",
        "https://slack.com/openid/connect/keys",
        "https://id.twitch.tv/oauth2/keys",
        "https://www.linkedin.com/oauth/openid/jwks",
        "https://kauth.kakao.com/.well-known/jwks.json",
        "https://api.line.me/oauth2/v2.1/certs",
        entra,
        // A tenant's address has the keys of all tenants.
        &entra.replace("common", "72f988bf-86f1-41af-91ab-2d7cd011db47"),
    ] {
        assert!(deps_of(&[("JWKS_URL", shared)]).is_ok(), "{shared}");
        for name in ["TOKEN_ISSUER", "TOKEN_AUDIENCE"] {
            let error = deps_of(&[("JWKS_URL", shared), (name, "any")]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the environment variable {name} must not be any: ")), "{error}");
        }
    }
    let own = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab/.well-known/jwks.json";
    let posing = "https://example.com/www.googleapis.com/keys";
    for url in [own, posing] {
        assert!(deps_of(&[("JWKS_URL", url), ("TOKEN_ISSUER", "any"), ("TOKEN_AUDIENCE", "any")]).is_ok(), "{url}");
    }
}

// ---- What the token is for ----

#[tokio::test]
async fn a_header_that_names_another_kind_of_token_is_refused() {
    let (world, signer) = world_and_signer().await;
    for typ in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/JWT"] {
        let token = signer.token_with_header("typ", json!(typ), &claims());
        assert_eq!(world.admits(&token).await, alice(), "{typ}");
    }
    let untyped = json!({ "alg": signer.algorithm, "kid": signer.id }).to_string();
    assert_eq!(world.admits(&signer.sign(&untyped, &claims().to_string())).await, alice());
    for typ in [
        "logout+jwt",
        "secevent+jwt",
        "dpop+jwt",
        "token-introspection+jwt",
        "application/logout+jwt",
        "application/okta-internal-at+jwt",
        "at+jwt ",
        "application/application/jwt",
        "JOSE",
        "",
    ] {
        world.refuses(&signer.token_with_header("typ", json!(typ), &claims()), &Invalid::Kind).await;
    }
}

#[tokio::test]
async fn claims_of_another_kind_of_token_are_refused() {
    let (world, signer) = world_and_signer().await;
    for (claim, value) in [
        ("token_use", "access"),
        ("token_use", "id"),
        // Keycloak's access tokens and ID tokens.
        ("typ", "Bearer"),
        ("typ", "ID"),
        ("typ", "access"),
    ] {
        assert_eq!(world.admits(&signer.token(&claims_with(claim, json!(value)))).await, alice(), "{claim} {value}");
    }
    for (claim, value) in [
        ("token_use", json!("refresh")),
        ("token_use", json!("")),
        ("typ", json!("Refresh")),
        ("typ", json!("Offline")),
        ("typ", json!("Logout")),
        ("events", json!({ "http://schemas.openid.net/event/backchannel-logout": {} })),
        ("events", json!([])),
    ] {
        world.refuses(&signer.token(&claims_with(claim, value)), &Invalid::Kind).await;
    }
    for claim in ["token_use", "typ"] {
        world.refuses(&signer.token(&claims_with(claim, json!(["access"]))), &Invalid::Claims).await;
    }
}

/// Header and claims as these issuers write them, with other names.
#[tokio::test]
async fn tokens_of_the_issuers_in_the_manual_are_accepted() {
    let (mut world, signer) = world_and_signer().await;
    let iat = START_MS / 1000;
    let cognito = json!({ "alg": signer.algorithm, "kid": "k1" });
    let typed = signer.header();
    let common = json!({ "sub": "alice", "iat": iat, "exp": LATER });
    for (issuer, audience, header, claims) in [
        (
            "https://cognito-idp.eu-central-1.amazonaws.com/pool",
            "client",
            &cognito,
            json!({
                "token_use": "access", "client_id": "client", "scope": "openid", "auth_time": iat, "username": "alice",
                "version": 2, "origin_jti": "x", "event_id": "y", "jti": "z",
            }),
        ),
        (
            "https://cognito-idp.eu-central-1.amazonaws.com/pool",
            "client",
            &cognito,
            json!({
                "token_use": "id", "aud": "client", "auth_time": iat, "cognito:username": "alice", "email_verified": true,
            }),
        ),
        (
            "https://tenant.eu.auth0.com/",
            "https://chat.example.com",
            &typed,
            json!({
                "aud": ["https://chat.example.com", "https://tenant.eu.auth0.com/userinfo"], "azp": "app", "scope": "openid",
            }),
        ),
        (
            "https://securetoken.google.com/project",
            "project",
            &typed,
            json!({
                "aud": "project", "auth_time": iat, "user_id": "alice", "firebase": { "sign_in_provider": "password" },
            }),
        ),
        (
            "https://keycloak.example.com/realms/chat",
            "chat",
            &typed,
            json!({
                "aud": ["chat", "account"], "typ": "Bearer", "azp": "app", "sid": "x", "acr": "1", "jti": "y",
            }),
        ),
        (
            "https://login.microsoftonline.com/tenant/v2.0",
            "app",
            &typed,
            json!({
                "aud": "app", "nbf": iat, "tid": "tenant", "oid": "x", "ver": "2.0", "scp": "chat", "uti": "y",
            }),
        ),
    ] {
        let mut claims = claims;
        claims["iss"] = json!(issuer);
        claims.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        world.deps.expected =
            Expected { issuer: Some(issuer.to_owned()), audience: Some(audience.to_owned()), services: None };
        let token = signer.sign(&header.to_string(), &claims.to_string());
        assert_eq!(world.admits(&token).await, alice(), "{issuer}");
    }
}

// ---- The subject ----

#[tokio::test]
async fn sub_must_be_a_user_id() {
    let (world, signer) = world_and_signer().await;
    let longest = "a".repeat(128);
    for sub in ["a", "auth0|507f1f77bcf86cd799439011", "a@example.com", "~!\"\\", &longest] {
        assert_eq!(world.admits(&signer.token(&claims_with("sub", json!(sub)))).await.0, sub);
    }
    let too_long = "a".repeat(129);
    for sub in ["", " ", "a b", " a", "a ", "a\n", "a\0", "\u{7f}", "\u{1b}[2J", "zoë", "\u{202e}a", &too_long] {
        world.refuses(&signer.token(&claims_with("sub", json!(sub))), &Invalid::Claims).await;
    }
    for sub in ["@", "@orders", "@system"] {
        world.refuses(&signer.token(&claims_with("sub", json!(sub))), &Invalid::Service).await;
    }
    for sub in [Value::Null, json!(7), json!(true), json!(["alice"]), json!({ "id": "alice" })] {
        world.refuses(&signer.token(&claims_with("sub", sub)), &Invalid::Claims).await;
    }
    let null = signer.sign(&signer.header().to_string(), &format!(r#"{{"sub":null,"exp":{LATER}}}"#));
    world.refuses(&null, &Invalid::Claims).await;
}

#[tokio::test]
async fn claims_must_be_a_json_object() {
    let (world, signer) = world_and_signer().await;
    let header = signer.header().to_string();
    for payload in ["", "null", "7", "\"alice\"", "{", "sub=alice", "{}", "{} {}"] {
        world.refuses(&signer.sign(&header, payload), &Invalid::Claims).await;
    }
}

// ---- Algorithms ----

#[tokio::test]
async fn a_token_without_a_signature_is_refused_however_that_is_spelled() {
    let (world, signer) = world_and_signer().await;
    let whole = signer.token(&claims());
    let signature = whole.rsplit('.').next().unwrap();
    for alg in [json!("none"), json!("None"), json!("NONE"), json!("nOnE"), json!(""), Value::Null, json!(0), json!([])]
    {
        let header = base64url(json!({ "alg": alg, "kid": "k1" }).to_string());
        for signature in ["", signature] {
            let token = format!("{header}.{}.{signature}", base64url(claims().to_string()));
            world.refuses(&token, &Invalid::Malformed).await;
        }
    }
    let without_alg = format!("{}.{}.", base64url(r#"{"kid":"k1"}"#), base64url(claims().to_string()));
    world.refuses(&without_alg, &Invalid::Malformed).await;
    assert_eq!(world.issuer.fetches(), 0);
}

#[tokio::test]
async fn the_public_key_is_no_secret() {
    let signers = [Signer::rsa("r"), Signer::p256("e"), Signer::ed25519("o")];
    let world = World::serving(&signers.each_ref()).await;
    for signer in &signers {
        for secret in public_forms(&signer.jwk()) {
            for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                let forger = Signer::secret(signer.id.as_deref().unwrap(), &secret).as_algorithm(algorithm);
                world.refuses(&forger.token(&claims()), &Invalid::Algorithm).await;
                world.refuses(&forger.nameless().token(&claims()), &Invalid::Algorithm).await;
            }
            // The header says what the key is for, the signature is the forger's.
            let forger = Signer::secret(signer.id.as_deref().unwrap(), &secret);
            let token = forger.token_with_header("alg", json!(signer.algorithm), &claims());
            world.refuses(&token, &Invalid::Signature).await;
        }
    }
}

/// Returns possible secrets for a forger: the key's members, as text and bytes, and the whole as JSON, DER and PEM.
fn public_forms(jwk: &Value) -> Vec<Vec<u8>> {
    let members = ["n", "x", "y"].map(|member| jwk[member].as_str());
    let mut forms = vec![jwk.to_string().into_bytes()];
    for member in members.into_iter().flatten() {
        forms.push(member.as_bytes().to_vec());
        forms.push(BASE64URL_NOPAD.decode(member.as_bytes()).unwrap());
    }
    if let (Some(n), Some(e)) = (jwk["n"].as_str(), jwk["e"].as_str()) {
        let [n, e] = [n, e].map(|member| BASE64URL_NOPAD.decode(member.as_bytes()).unwrap());
        let der: PublicKeyX509Der<'_> = RsaPublicKeyComponents { n, e }.as_der().unwrap();
        let lines =
            BASE64.encode(der.as_ref()).into_bytes().chunks(64).map(<[u8]>::to_vec).collect::<Vec<_>>().join(&b'\n');
        let lines = String::from_utf8(lines).unwrap();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----");
        forms.push(format!("{pem}\n").into_bytes());
        forms.push(pem.into_bytes());
        forms.push(der.as_ref().to_vec());
    }
    forms
}

#[tokio::test]
async fn other_algorithms_are_refused_even_if_the_signature_is_right() {
    let (rsa, p384) = (Signer::rsa("r"), Signer::p384("e"));
    let world = World::serving(&[&rsa, &p384]).await;
    for algorithm in [Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512] {
        world.refuses(&rsa.as_algorithm(algorithm).token(&claims()), &Invalid::Algorithm).await;
    }
    world.refuses(&p384.token(&claims()), &Invalid::Algorithm).await;
    assert_eq!(world.issuer.fetches(), 0);
}

#[tokio::test]
async fn algorithms_that_do_not_exist_are_refused() {
    let (rsa, p256, ed25519) = (Signer::rsa("r"), Signer::p256("e"), Signer::ed25519("o"));
    let world = World::serving(&[&rsa, &p256, &ed25519]).await;
    for (signer, alg) in [
        (&p256, "ES256K"),
        (&p256, "ES512"),
        (&p256, "es256"),
        (&rsa, "rs256"),
        (&rsa, "RS256 "),
        (&rsa, "RS1"),
        (&ed25519, "Ed25519"),
        (&ed25519, "eddsa"),
    ] {
        world.refuses(&signer.token_with_header("alg", json!(alg), &claims()), &Invalid::Malformed).await;
    }
}

#[tokio::test]
async fn a_key_verifies_its_own_algorithm_only() {
    let signers = [Signer::rsa("r"), Signer::p256("e"), Signer::ed25519("o")];
    let world = World::serving(&signers.each_ref()).await;
    for signer in &signers {
        for other in signers.iter().filter(|other| other.id != signer.id) {
            let confused = signer.named(other.id.as_deref().unwrap());
            world.refuses(&confused.token(&claims()), &Invalid::UnknownKey).await;
            // A token of the other kind in every respect except the signature.
            let posing = confused.token_with_header("alg", json!(other.algorithm), &claims());
            world.refuses(&posing, &Invalid::Signature).await;
        }
    }
}

#[tokio::test]
async fn keys_of_different_kinds_may_share_a_name() {
    let signers = [Signer::rsa("same"), Signer::p256("same"), Signer::ed25519("same")];
    let world = World::serving(&signers.each_ref()).await;
    for signer in &signers {
        assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    }
}

// ---- The signature and the form of the token ----

#[tokio::test]
async fn a_wrong_signature_is_refused() {
    for (signer, impostor) in [(Signer::p256("k"), Signer::p256("k")), (Signer::ed25519("k"), Signer::ed25519("k"))] {
        let world = World::serving(&[&signer]).await;
        world.refuses(&impostor.token(&claims()), &Invalid::Signature).await;
        let alice = signer.token(&claims());
        let mallory = impostor.token(&claims_with("sub", json!("mallory")));
        let [alice, mallory]: [Vec<&str>; 2] = [&alice, &mallory].map(|token| token.split('.').collect());
        world.refuses(&[alice[0], mallory[1], alice[2]].join("."), &Invalid::Signature).await;
        let other_header = base64url(json!({ "alg": signer.algorithm, "kid": "k", "typ": "x" }).to_string());
        world.refuses(&[&other_header, alice[1], alice[2]].join("."), &Invalid::Signature).await;
        for signature in [vec![], vec![0; 1], vec![0; 63], vec![0; 64], vec![0xff; 64], vec![0; 65]] {
            let token = [alice[0], alice[1], &base64url(signature)].join(".");
            world.refuses(&token, &Invalid::Signature).await;
        }
    }
}

#[tokio::test]
async fn a_truncated_token_is_refused_wherever_it_is_cut() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    for length in 0..token.len() {
        world.denies_event(with_token(&token[..length])).await;
    }
}

#[tokio::test]
async fn a_token_has_three_parts_in_base64url_without_padding() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    let parts: Vec<&str> = token.split('.').collect();
    for malformed in [
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{}", parts[2]),
        format!("{}.{token}", parts[0]),
        format!("{}.{}.{}.{}.{}", parts[0], parts[1], parts[2], parts[1], parts[2]),
        format!("{}..{}", parts[0], parts[2]),
        format!(".{}.{}", parts[1], parts[2]),
        format!("{token}="),
        format!("{token}=="),
        format!("{}=.{}.{}", parts[0], parts[1], parts[2]),
        format!("{}.{}.+/{}", parts[0], parts[1], &parts[2][2..]),
        format!("{}.{} .{}", parts[0], parts[1], parts[2]),
        "..".to_owned(),
        ".".to_owned(),
        parts[0].to_owned(),
    ] {
        world.denies_event(with_token(&malformed)).await;
    }
}

#[tokio::test]
async fn extensions_that_must_be_understood_are_not() {
    let (world, signer) = world_and_signer().await;
    for crit in [json!(["exp"]), json!(["b64"]), json!(["urn:example:x"]), json!([]), json!("exp"), json!({})] {
        world.refuses(&signer.token_with_header("crit", crit, &claims()), &Invalid::Malformed).await;
    }
    assert_eq!(world.admits(&signer.token_with_header("urn:example:x", json!(true), &claims())).await, alice());
}

#[tokio::test]
async fn a_token_cannot_bring_its_own_key() {
    let (world, signer) = world_and_signer().await;
    let forger = Signer::ed25519("k1");
    let other_issuer = Issuer::start(Served::keys(&[&forger])).await;
    for (member, value) in [("jwk", forger.jwk()), ("jku", json!(other_issuer.url)), ("x5u", json!(other_issuer.url))] {
        world.refuses(&forger.token_with_header(member, value.clone(), &claims()), &Invalid::Signature).await;
        let unnamed = forger.clone().nameless();
        world.refuses(&unnamed.token_with_header(member, value.clone(), &claims()), &Invalid::Signature).await;
        assert_eq!(world.admits(&signer.token_with_header(member, value, &claims())).await, alice());
    }
    assert_eq!((world.issuer.fetches(), other_issuer.fetches()), (1, 0));
}

#[tokio::test]
async fn a_token_may_have_eight_kibibytes() {
    const TOKEN_BYTES_MAX: usize = 8 * 1024;
    let (world, signer) = world_and_signer().await;
    let padded = |header: usize, claims: usize| {
        let claims = claims_with("padding", json!("x".repeat(claims)));
        signer.token_with_header("padding", json!("x".repeat(header)), &claims)
    };
    // Base64 leaves out some lengths, but not for every header.
    let tokens: Vec<_> = (0..3).flat_map(|header| (5900..6000).map(move |claims| padded(header, claims))).collect();
    let of_length = |bytes: usize| tokens.iter().find(|token| token.len() == bytes).unwrap();
    assert_eq!(world.admits(of_length(TOKEN_BYTES_MAX)).await, alice());
    world.refuses(of_length(TOKEN_BYTES_MAX + 1), &Invalid::Malformed).await;
    world.refuses(&padded(0, 1_000_000), &Invalid::Malformed).await;
}

// ---- Which key ----

#[tokio::test]
async fn a_token_that_names_no_key_is_good_if_only_one_key_fits() {
    let (rsa, p256, other_p256) = (Signer::rsa("r"), Signer::p256("e1"), Signer::p256("e2"));
    let world = World::serving(&[&rsa, &p256]).await;
    for signer in [&rsa, &p256] {
        assert_eq!(world.admits(&signer.clone().nameless().token(&claims())).await, alice());
    }
    let world = World::serving(&[&rsa, &p256, &other_p256]).await;
    for signer in [&p256, &other_p256] {
        world.refuses(&signer.clone().nameless().token(&claims()), &Invalid::UnknownKey).await;
    }
    assert_eq!(world.admits(&rsa.nameless().token(&claims())).await, alice());
}

#[tokio::test]
async fn keys_of_other_curves_fit_no_token() {
    let (p256, ed25519) = (Signer::p256("e"), Signer::ed25519("o"));
    let world = World::serving(&[]).await;
    let others = [Signer::p384("e").jwk_with("alg", Value::Null), ed25519.jwk_with("crv", json!("P-256"))];
    world.issuer.serve(Served::jwks(others.into_iter().chain([p256.jwk(), ed25519.jwk()])));
    for signer in [p256, ed25519] {
        assert_eq!(world.admits(&signer.nameless().token(&claims())).await, alice());
    }
}

#[tokio::test]
async fn a_key_without_a_name_is_good_for_tokens_without_one_only() {
    let signer = Signer::ed25519("k1");
    let nameless = signer.clone().nameless();
    let world = World::serving(&[&nameless]).await;
    assert_eq!(world.admits(&nameless.token(&claims())).await, alice());
    world.refuses(&signer.token(&claims()), &Invalid::UnknownKey).await;
}

#[tokio::test]
async fn a_key_id_is_compared_to_the_letter() {
    let (world, signer) = world_and_signer().await;
    for id in ["", "K1", "k1 ", "k", "k11", "../k1", "k1\0"] {
        world.refuses(&signer.named(id).token(&claims()), &Invalid::UnknownKey).await;
    }
    for id in [json!(1), json!(["k1"]), json!({})] {
        world.refuses(&signer.token_with_header("kid", id, &claims()), &Invalid::Malformed).await;
    }
}

#[tokio::test]
async fn entries_that_cannot_be_used_leave_the_others_in_use() {
    let good = Signer::ed25519("good");
    let rsa = Signer::rsa("bad").jwk();
    let without = |member: &str| {
        let mut jwk = rsa.clone();
        jwk.as_object_mut().unwrap().remove(member).unwrap();
        jwk
    };
    let unusable = [
        Signer::p384("bad").jwk(),
        json!({ "kty": "AKP", "kid": "bad", "alg": "ML-DSA-44", "pub": "AAAA" }),
        json!({ "kty": "EC", "kid": "bad", "crv": "secp256k1", "x": "AAAA", "y": "AAAA" }),
        json!({ "kty": "OKP", "kid": "bad", "crv": "X25519", "x": "AAAA" }),
        json!({ "kty": "OKP", "kid": "bad", "crv": "Ed448", "x": "AAAA" }),
        json!({ "kty": "oct", "kid": "bad", "k": "c2VjcmV0" }),
        json!({ "kty": "EC", "kid": "bad", "crv": "P-256", "x": "?", "y": "?" }),
        without("n"),
        without("e"),
        without("kty"),
        Signer::rsa("bad").jwk_with("kid", json!(7)),
        Signer::rsa("bad").jwk_with("alg", json!(7)),
        Signer::rsa("bad").jwk_with("use", json!(["sig"])),
        Signer::rsa("bad").jwk_with("x5c", json!("not a list")),
        json!({}),
        json!([]),
        json!("key"),
        Value::Null,
    ];
    for entry in &unusable {
        let world = World::serving(&[]).await;
        world.issuer.serve(Served::jwks([entry.clone(), good.jwk()]));
        assert_eq!(world.admits(&good.token(&claims())).await, alice(), "{entry}");
    }
    let world = World::serving(&[]).await;
    world.issuer.serve(Served::jwks(unusable.into_iter().chain([good.jwk()])));
    assert_eq!(world.admits(&good.token(&claims())).await, alice());
    world.refuses(&Signer::rsa("bad").token(&claims()), &Invalid::UnknownKey).await;
}

#[tokio::test]
async fn keys_for_something_else_verify_nothing() {
    let (signer, other) = (Signer::rsa("k1"), Signer::ed25519("other").jwk());
    for (member, value) in [
        ("use", json!("enc")),
        ("use", json!("tls")),
        ("key_ops", json!(["encrypt", "wrapKey"])),
        ("key_ops", json!([])),
        ("alg", json!("PS256")),
        ("alg", json!("RS512")),
        ("alg", json!("RSA-OAEP-256")),
        ("alg", json!("ES256")),
        ("alg", json!("HS256")),
        ("alg", json!("none")),
    ] {
        let world = World::serving(&[]).await;
        world.issuer.serve(Served::jwks([signer.jwk_with(member, value), other.clone()]));
        world.refuses(&signer.token(&claims()), &Invalid::UnknownKey).await;
    }
    for (member, value) in [("use", json!("sig")), ("key_ops", json!(["verify"])), ("alg", json!("RS256"))] {
        let world = World::serving(&[]).await;
        world.issuer.serve(Served::jwks([signer.jwk_with(member, value)]));
        assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    }
}

#[tokio::test]
async fn a_private_key_that_the_issuer_shows_to_everybody_is_not_trusted() {
    let signer = Signer::ed25519("k1");
    let world = World::serving(&[]).await;
    let other = Signer::ed25519("other").jwk();
    world.issuer.serve(Served::jwks([signer.jwk_with("d", json!(base64url([7; 32]))), other]));
    world.refuses(&signer.token(&claims()), &Invalid::UnknownKey).await;
    // Some libraries write out what a key lacks.
    world.issuer.serve(Served::jwks([signer.jwk_with("d", Value::Null)]));
    world.advance(PAUSE);
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
}

#[tokio::test]
async fn an_rsa_key_of_1024_bits_is_too_weak() {
    let world = World::serving(&[]).await;
    let weak = json!({ "kty": "RSA", "kid": "weak", "n": WEAK_N, "e": "AQAB" });
    world.issuer.serve(Served::jwks([weak]));
    // The key is known, but what it verifies does not count.
    world.refuses(WEAK_TOKEN, &Invalid::Signature).await;
}

// ---- When keys are fetched ----

#[tokio::test]
async fn warming_up_fetches_the_keys_before_the_first_event() {
    let (world, signer) = world_and_signer().await;
    world.deps.warm_up().await;
    assert_eq!(world.issuer.fetches(), 1);
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    assert_eq!(world.issuer.fetches(), 1);
}

#[tokio::test]
async fn while_there_are_no_keys_a_try_in_two_seconds_is_for_all() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    world.issuer.serve(Served::Status(503));
    world.deps.warm_up().await;
    world.issuer.serve(Served::keys(&[&signer]));
    for waited in [Duration::ZERO, NEARLY] {
        world.advance(waited);
        let message = world.fails(&token).await.error_message;
        assert!(message.contains("a moment ago"), "{message}");
        assert_eq!(world.issuer.fetches(), 1);
    }
    world.advance(MILLISECOND);
    assert_eq!(world.admits(&token).await, alice());
    assert_eq!(world.issuer.fetches(), 2);
}

#[tokio::test]
async fn the_two_seconds_begin_when_the_try_has_ended() {
    let (mut world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    world.issuer.serve(Served::Nothing);
    tokio::time::pause();
    let began = Instant::now();
    world.deps.clock = Clock::new(move || Timestamp::from_millis(START_MS).plus(began.elapsed()));
    world.fails(&token).await;
    let waited = began.elapsed();
    world.issuer.serve(Served::keys(&[&signer]));
    // Clients that come meanwhile occupy no process.
    tokio::time::advance(NEARLY).await;
    world.fails(&token).await;
    assert_eq!(began.elapsed(), waited + NEARLY);
    assert_eq!(world.issuer.fetches(), 1);
    tokio::time::advance(MILLISECOND).await;
    assert_eq!(world.admits(&token).await, alice());
}

#[tokio::test]
async fn events_at_the_same_time_share_one_fetch_also_one_that_fails() {
    let (world, signer) = world_and_signer().await;
    let ask = async || {
        let event = LambdaEvent::new(with_token(&signer.token(&claims())), Context::default());
        handle(&world.deps, event).await
    };
    world.issuer.serve(Served::Status(503));
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    assert!(a.is_err() && b.is_err() && c.is_err());
    assert_eq!(world.issuer.fetches(), 1);
    world.issuer.serve(Served::keys(&[&signer]));
    world.advance(NO_KEYS_PAUSE);
    let (a, b, c) = tokio::join!(ask(), ask(), ask());
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    assert!(a == b && b == c);
    assert_eq!(world.issuer.fetches(), 2);
}

#[tokio::test]
async fn whose_key_is_known_does_not_wait_while_another_event_asks() {
    let (world, signer) = world_and_signer().await;
    let (known, unknown) = (signer.token(&claims()), signer.named("made up").token(&claims()));
    assert_eq!(world.admits(&known).await, alice());
    world.issuer.serve(Served::Nothing);
    // The first request is for an unknown key, the second for keys that are an hour old.
    for (asker, waits) in [(&unknown, PAUSE), (&known, HOUR)] {
        world.advance(waits);
        tokio::time::pause();
        let started = Instant::now();
        let ask = async |token: &str| {
            let event = LambdaEvent::new(with_token(token), Context::default());
            handle(&world.deps, event).await.unwrap();
            started.elapsed()
        };
        let (asker, other) = tokio::join!(ask(asker), ask(&known));
        assert!(asker >= Duration::from_secs(3), "{asker:?}");
        assert_eq!(other, Duration::ZERO);
        tokio::time::resume();
    }
    assert_eq!(world.issuer.fetches(), 3);
}

#[tokio::test]
async fn a_new_key_is_fetched_once_when_a_token_names_it() {
    let (world, old) = world_and_signer().await;
    let new = Signer::ed25519("k2");
    assert_eq!(world.admits(&old.token(&claims())).await, alice());
    world.issuer.serve(Served::keys(&[&old, &new]));
    world.advance(PAUSE);
    for signer in [&new, &new, &old] {
        assert_eq!(world.admits(&signer.token(&claims())).await, alice());
        assert_eq!(world.issuer.fetches(), 2);
    }
}

#[tokio::test]
async fn made_up_key_ids_cause_one_fetch_in_thirty_seconds() {
    let (world, signer) = world_and_signer().await;
    let made_up = |number: u32| signer.named(&format!("made up {number}")).token(&claims());
    for number in 0..5 {
        world.refuses(&made_up(number), &Invalid::UnknownKey).await;
        assert_eq!(world.issuer.fetches(), 1);
    }
    world.advance(Duration::from_millis(29_999));
    world.refuses(&made_up(5), &Invalid::UnknownKey).await;
    assert_eq!(world.issuer.fetches(), 1);
    world.advance(MILLISECOND);
    for number in 6..9 {
        world.refuses(&made_up(number), &Invalid::UnknownKey).await;
        assert_eq!(world.issuer.fetches(), 2);
    }
    // A failing issuer gets no more requests.
    world.issuer.serve(Served::Status(500));
    world.advance(PAUSE);
    for number in 9..12 {
        world.refuses(&made_up(number), &Invalid::UnknownKey).await;
        assert_eq!(world.issuer.fetches(), 3);
    }
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    assert_eq!(world.issuer.fetches(), 3);
}

#[tokio::test]
async fn a_withdrawn_key_is_trusted_for_an_hour_at_most() {
    let (world, withdrawn) = world_and_signer().await;
    let kept = Signer::ed25519("k2");
    let token = withdrawn.token(&claims());
    assert_eq!(world.admits(&token).await, alice());
    world.issuer.serve(Served::keys(&[&kept]));
    world.advance(Duration::from_millis(3_599_999));
    assert_eq!(world.admits(&token).await, alice());
    assert_eq!(world.issuer.fetches(), 1);
    world.advance(MILLISECOND);
    world.refuses(&token, &Invalid::UnknownKey).await;
    assert_eq!(world.issuer.fetches(), 2);
    assert_eq!(world.admits(&kept.token(&claims())).await, alice());
    assert_eq!(world.issuer.fetches(), 2);
}

#[tokio::test]
async fn a_key_that_came_back_under_its_name_is_the_new_one() {
    let (world, old) = world_and_signer().await;
    let new = Signer::ed25519("k1");
    assert_eq!(world.admits(&old.token(&claims())).await, alice());
    world.issuer.serve(Served::keys(&[&new]));
    world.advance(HOUR);
    world.refuses(&old.token(&claims()), &Invalid::Signature).await;
    assert_eq!(world.admits(&new.token(&claims())).await, alice());
}

#[tokio::test]
async fn keys_go_on_while_the_issuer_is_down() {
    for failure in failures(&Signer::ed25519("k1")) {
        let (world, signer) = world_and_signer().await;
        let token = signer.token(&claims());
        assert_eq!(world.admits(&token).await, alice());
        world.issuer.serve(failure.clone());
        world.advance(HOUR);
        for fetches in [2, 3] {
            assert_eq!(world.admits(&token).await, alice());
            assert_eq!(world.admits(&token).await, alice());
            assert_eq!(world.issuer.fetches(), fetches);
            world.advance(PAUSE);
        }
        // Back again, and its word counts.
        world.issuer.serve(Served::keys(&[&Signer::ed25519("k2")]));
        world.refuses(&token, &Invalid::UnknownKey).await;
    }
}

#[tokio::test]
async fn without_any_keys_nothing_is_said_about_a_token() {
    for failure in failures(&Signer::ed25519("k1")) {
        let (world, signer) = world_and_signer().await;
        world.issuer.serve(failure);
        world.fails(&signer.token(&claims())).await;
        world.advance(NO_KEYS_PAUSE);
        world.fails(&signer.token(&claims_with("exp", json!(1)))).await;
        assert_eq!(world.issuer.fetches(), 2, "no redirect is followed");
        // A token without a chance is refused all the same.
        world.refuses_event(event(&[], &[]), &Invalid::NoToken).await;
        world.refuses("nonsense", &Invalid::Malformed).await;
        world.issuer.serve(Served::keys(&[&signer]));
        world.advance(NO_KEYS_PAUSE);
        assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    }
}

#[tokio::test]
async fn a_set_without_a_usable_key_rings_the_alarm_of_an_issuer_that_is_down() {
    let (world, signer) = world_and_signer().await;
    let token = signer.token(&claims());
    assert_eq!(world.admits(&token).await, alice());
    for unusable in [Served::keys(&[]), Served::jwks([json!({ "kty": "oct", "k": "c2VjcmV0" })])] {
        world.issuer.serve(unusable);
        world.advance(HOUR);
        let (answer, log) = world.ask(with_token(&token)).await;
        assert_eq!(answer.unwrap()["principalId"], "alice");
        let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let seen = ["level", "route", "outcome", "cause"].map(|name| line[name].as_str().unwrap());
        assert_eq!(seen, ["WARN", "issuer", "unreachable", "the key set has no key that can be used"]);
    }
}

/// Returns every failure that ends immediately. If there is a body, it contains this signer's key.
fn failures(signer: &Signer) -> Vec<Served> {
    let keys = json!({ "keys": [signer.jwk()] }).to_string();
    let body = |text: &str| Served::Body(text.to_owned());
    vec![
        Served::Status(500),
        Served::Status(404),
        Served::Status(204),
        Served::Redirect(keys.clone()),
        body(""),
        body("<!doctype html>"),
        body("null"),
        body("{}"),
        body(r#"{"keys":{}}"#),
        body(&format!("{keys} {keys}")),
        body(&keys[..keys.len() - 1]),
        body(&(keys.clone() + &" ".repeat(KEYS_BYTES_MAX))),
        body(r#"{"keys":[]}"#),
        Served::jwks([signer.jwk_with("use", json!("enc"))]),
    ]
}

#[tokio::test]
async fn a_failure_says_what_was_wrong_but_not_where() {
    let (world, signer) = world_and_signer().await;
    for (failure, says) in [
        (Served::Status(503), "503 Service Unavailable"),
        (Served::Redirect(String::new()), "302 Found"),
        (Served::Body("<html>".to_owned()), "not a JWKS"),
        (Served::Body(" ".repeat(KEYS_BYTES_MAX + 1)), "larger than 262144 bytes"),
    ] {
        world.issuer.serve(failure);
        world.advance(NO_KEYS_PAUSE);
        let message = world.fails(&signer.token(&claims())).await.error_message;
        assert!(message.contains(says), "{message}");
        assert!(!message.contains("127.0.0.1"), "{message}");
    }
}

#[tokio::test]
async fn an_issuer_that_does_not_listen_fails_with_the_cause() {
    let (mut world, signer) = world_and_signer().await;
    // Bound, so that no other program gets the port, but not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/secret-path", socket.local_addr().unwrap());
    world.deps.keys = Keys::at(&url).unwrap();
    let message = world.fails(&signer.token(&claims())).await.error_message;
    assert!(message.contains("refused"), "{message}");
    assert!(!message.contains("secret-path"), "{message}");
}

#[tokio::test]
async fn a_key_set_may_have_256_kibibytes() {
    let signer = Signer::ed25519("k1");
    let keys = json!({ "keys": [signer.jwk()] }).to_string();
    let padded = |bytes: usize| Served::Body(keys.clone() + &" ".repeat(bytes - keys.len()));
    let world = World::serving(&[]).await;
    world.issuer.serve(padded(KEYS_BYTES_MAX + 1));
    world.fails(&signer.token(&claims())).await;
    world.issuer.serve(padded(KEYS_BYTES_MAX));
    world.advance(NO_KEYS_PAUSE);
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_is_waited_for_three_seconds() {
    let (world, signer) = world_and_signer().await;
    world.issuer.serve(Served::Nothing);
    // From here on the runtime's clock jumps ahead whenever there is nothing to do but wait.
    tokio::time::pause();
    let started = Instant::now();
    world.fails(&signer.token(&claims())).await;
    let waited = started.elapsed();
    assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn an_issuer_that_takes_no_connection_is_waited_for_one_second() {
    let (mut world, signer) = world_and_signer().await;
    // The socket accepts no connection, and others wait already: further ones get no reply.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        waiting.push(connected.unwrap());
    }
    world.deps.keys = Keys::at(&format!("http://{address}/jwks.json")).unwrap();
    tokio::time::pause();
    let started = Instant::now();
    world.fails(&signer.token(&claims())).await;
    let waited = started.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn keys_go_on_while_the_issuer_does_not_answer() {
    let (world, signer) = world_and_signer().await;
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    world.issuer.serve(Served::Nothing);
    world.advance(HOUR);
    tokio::time::pause();
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    // Only the first one waits.
    let started = Instant::now();
    assert_eq!(world.admits(&signer.token(&claims())).await, alice());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn keys_are_at_an_http_url() {
    for url in ["https://issuer.example/jwks.json", "http://127.0.0.1:3001/.well-known/jwks.json"] {
        assert!(Keys::at(url).is_ok(), "{url}");
    }
    for url in ["", "issuer.example/jwks.json", "/jwks.json", "ftp://issuer.example/", "file:///etc/keys", "data:,{}"] {
        assert!(matches!(Keys::at(url), Err(FetchError::Url(_))), "{url}");
    }
}

// ---- Any input ----

/// A runtime for many events in a row, and the function in it. Its keys are fetched, and it takes tokens from everywhere.
fn runtime_and_world(signer: &Signer) -> (Runtime, World) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut world = runtime.block_on(World::serving(&[signer]));
    world.deps.query_string_tokens = true;
    runtime.block_on(world.deps.warm_up());
    (runtime, world)
}

/// Where a case fails is reported; there is no file to keep for later.
fn cases(count: u32) -> Config {
    Config { failure_persistence: None, ..Config::with_cases(count) }
}

#[test]
fn any_header_is_denied() {
    let (runtime, world) = runtime_and_world(&Signer::ed25519("k1"));
    let allowed_in_headers = prop_oneof![Just(b'\t'), 0x20_u8..0x7f, 0x80_u8..];
    proptest!(cases(256), |(bytes in prop::collection::vec(allowed_in_headers, 0..300), place in 0_usize..3)| {
        let (name, prefix) = [
            ("authorization", &b""[..]),
            ("authorization", b"Bearer "),
            ("sec-websocket-protocol", b"pigeonhole.v1, bearer."),
        ][place];
        let mut request = event(&[], &[]);
        request.headers.insert(name, HeaderValue::from_bytes(&[prefix, &bytes].concat()).unwrap());
        runtime.block_on(world.denies_event(request));
    });
}

#[test]
fn any_query_string_is_denied() {
    let (runtime, world) = runtime_and_world(&Signer::ed25519("k1"));
    proptest!(cases(128), |(text in any::<String>())| {
        runtime.block_on(world.denies_event(event(&[], &[("token", &text)])));
    });
}

#[test]
fn any_three_parts_are_denied() {
    let (runtime, world) = runtime_and_world(&Signer::ed25519("k1"));
    let header = prop_oneof![
        any::<Vec<u8>>(),
        "\\{\"alg\":\"(EdDSA|ES256|RS256|HS256|none)\"(,\"kid\":\"k1\")?\\}".prop_map(String::into_bytes),
    ];
    let claims = prop_oneof![any::<Vec<u8>>(), Just(claims().to_string().into_bytes())];
    let signature = prop_oneof![any::<Vec<u8>>(), prop::collection::vec(any::<u8>(), 64)];
    proptest!(cases(256), |(header in header, claims in claims, signature in signature)| {
        let token = [header, claims, signature].map(base64url).join(".");
        runtime.block_on(world.denies_event(with_token(&token)));
    });
}

#[test]
fn a_good_token_with_one_character_changed_is_denied() {
    for signer in [Signer::rsa("k1"), Signer::p256("k1"), Signer::ed25519("k1")] {
        let (runtime, world) = runtime_and_world(&signer);
        let token = signer.token(&claims());
        assert_eq!(runtime.block_on(world.admits(&token)), alice());
        proptest!(cases(128), |(at in 0..token.len(), character in "[!-~]")| {
            prop_assume!(token[at..=at] != character);
            let mut changed = token.clone();
            changed.replace_range(at..=at, &character);
            runtime.block_on(world.denies_event(with_token(&changed)));
        });
    }
}

// ---- The log ----

#[tokio::test]
async fn no_token_and_no_user_is_ever_logged() {
    let (mut world, signer) = world_and_signer().await;
    world.deps.query_string_tokens = true;
    let person = claims_with("sub", json!("carol.jones@example.com"));
    let mut expired = person.clone();
    expired["exp"] = json!(1);
    let tokens = [
        signer.token(&person),
        signer.token(&expired),
        signer.named("unheard-of-key").token(&person),
        Signer::ed25519("k1").token(&person),
        Signer::secret("k1", b"secret").token(&person),
        signer.token_with_header("crit", json!(["exp"]), &person),
        signer.token(&claims_with("sub", json!("carol.jones@example.com and a space"))),
        signer.token(&claims_with("carol.jones@example.com", json!(7))).replace('.', "!"),
    ];
    for failure in [Served::Status(500), Served::keys(&[&signer]), Served::Body("{".to_owned())] {
        world.issuer.serve(failure);
        world.advance(HOUR);
        for token in &tokens {
            for request in [
                with_token(token),
                event(&[("Sec-WebSocket-Protocol", &format!("pigeonhole.v1, bearer.{token}"))], &[]),
                event(&[], &[("token", token)]),
            ] {
                let (answer, log) = world.ask(request).await;
                assert!(log.contains(r#""route":"authorize""#), "{log}");
                let secrets = token.split('.').chain([&**token, "carol", "unheard-of-key"]);
                for secret in secrets.filter(|secret| !secret.is_empty()) {
                    assert!(!log.contains(secret), "{secret} in {log}");
                    assert!(answer.as_ref().err().is_none_or(|error| !error.error_message.contains(secret)));
                }
            }
        }
    }
}

// ---- Over HTTP ----

/// The event of a request over HTTP with this token.
fn over_http(token: &str) -> aws_lambda_events::apigw::ApiGatewayCustomAuthorizerRequestTypeRequest {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events/authorize_http.json");
    let mut event: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    event["headers"]["authorization"] = json!(format!("Bearer {token}"));
    serde_json::from_value(event).unwrap()
}

#[tokio::test]
async fn over_http_the_reply_is_simple_and_names_no_device() {
    let (world, signer) = world_and_signer().await;
    let (answer, _) = world.ask(over_http(&signer.token(&claims()))).await;
    let context = json!({"principalId": "alice", "exp": LATER.to_string()});
    assert_eq!(answer.unwrap(), json!({"isAuthorized": true, "context": context}));
    let (answer, _) = world.ask(over_http(&signer.token(&claims_with("exp", json!(1))))).await;
    assert_eq!(answer.unwrap(), json!({"isAuthorized": false, "context": {}}));
}

#[tokio::test]
async fn a_services_token_counts_over_http_with_its_own_audience_alone() {
    let (mut world, signer) = world_and_signer().await;
    let token = |user: &str, audience: Value| signer.token(&json!({"sub": user, "aud": audience, "exp": LATER}));
    for (services, user, audience, is_admitted) in [
        (None, "@orders", json!("pigeonhole"), false),
        (None, "@orders", json!("services"), false),
        (Some("services"), "@orders", json!("services"), true),
        (Some("services"), "@orders", json!(["other", "services"]), true),
        (Some("services"), "@orders", json!("pigeonhole"), false),
        (Some("services"), "alice", json!("services"), false),
        (Some("services"), "alice", json!("pigeonhole"), true),
    ] {
        let (audience, said) = (audience.clone(), format!("{services:?} {user} {audience}"));
        let services = services.map(str::to_owned);
        world.deps.expected = Expected { issuer: None, audience: Some("pigeonhole".to_owned()), services };
        let token = token(user, audience);
        let (answer, _) = world.ask(over_http(&token)).await;
        assert_eq!(answer.unwrap()["isAuthorized"], is_admitted, "{said}");
        if user == "@orders" {
            world.refuses_event(with_token(&token), &Invalid::Service).await;
        }
    }
    assert!(deps_of(&[("SERVICE_AUDIENCE", "services")]).unwrap().expected.services.is_some());
    assert!(deps_of(&[]).unwrap().expected.services.is_none());
    assert!(deps_of(&[("SERVICE_AUDIENCE", "pigeonhole")]).is_err());
}
