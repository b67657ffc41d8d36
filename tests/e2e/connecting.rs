//! Admission: which users may connect, and how.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use testkit::{ConnectError, Phone, TestServer};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

async fn status(server: &TestServer, token: &str) -> u16 {
    match server.connect(token).await {
        Ok(_) => 101,
        Err(ConnectError(status)) => status,
    }
}

#[tokio::test]
async fn a_token_comes_in_a_header() {
    let server = TestServer::open().await;
    let header = format!("bearer {}", server.token("alice"));
    let (mut phone, _) = Phone::connect_with("alice", server.url(), &[("authorization", &header)]).await.unwrap();
    assert!(!phone.pending().await);
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack selects no subprotocol")]
async fn a_token_comes_in_a_subprotocol() {
    let server = TestServer::open().await;
    let offered = format!("pigeonhole.v1, bearer.{}", server.token("alice"));
    let (mut browser, response) =
        Phone::connect_with("alice", server.url(), &[("sec-websocket-protocol", &offered)]).await.unwrap();
    assert!(!browser.pending().await);
    let selected: Vec<_> = response.headers().get_all("sec-websocket-protocol").iter().collect();
    assert_eq!(selected, ["pigeonhole.v1"], "the token is never echoed");
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "a deployment need not take tokens from the query")]
async fn a_token_comes_in_the_query_where_that_is_allowed() {
    let server = TestServer::open().await;
    let url = format!("{}?token={}", server.url(), server.token("alice"));
    let (mut tool, _) = Phone::connect_with("alice", &url, &[]).await.unwrap();
    assert!(!tool.pending().await);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "a deployment need not take tokens from the query")]
async fn the_first_place_that_has_a_token_counts() {
    let server = TestServer::open().await;
    let good = format!("{}?token={}", server.url(), server.token("alice"));
    let bad_header = Phone::connect_with("alice", &good, &[("authorization", "Bearer nonsense")]).await;
    assert_eq!(bad_header.err(), Some(ConnectError(403)));
    let not_bearer = Phone::connect_with("alice", &good, &[("authorization", "Basic YWxpY2U6eA==")]).await;
    assert_eq!(not_bearer.err(), Some(ConnectError(403)));
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "a deployment need not take tokens from the query")]
#[cfg_attr(feature = "ministack", ignore = "MiniStack selects no subprotocol")]
async fn subprotocols_without_a_token_leave_the_query_its_turn() {
    let server = TestServer::open().await;
    let good = format!("{}?token={}", server.url(), server.token("alice"));
    let offered = Phone::connect_with("alice", &good, &[("sec-websocket-protocol", "pigeonhole.v1")]).await;
    assert!(offered.is_ok());
}

#[tokio::test]
async fn without_a_good_token_there_is_no_socket() {
    let server = TestServer::open().await;
    let missing = Phone::connect_with("nobody", server.url(), &[]).await;
    assert_eq!(missing.err(), Some(ConnectError(403)));
    let good = server.token("alice");
    let mut parts = good.split('.');
    let (header, claims, signature) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let bob = server.token("bob");
    let bobs_claims = bob.split('.').nth(1).unwrap();
    for bad in [
        String::new(),
        "nonsense".to_owned(),
        format!("{header}.{claims}."),
        format!("{header}.{claims}"),
        format!("{header}.{bobs_claims}.{signature}"),
        format!("{good}x"),
        "x".repeat(7_000),
    ] {
        assert_eq!(status(&server, &bad).await, 403, "{bad:.60}");
    }
    assert_eq!(status(&server, &good).await, 101);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables")]
async fn whoever_is_refused_is_not_noted() {
    let server = TestServer::open().await;
    let (alice, bob) = (server.token("alice"), server.token("bob"));
    let (theirs, signature) = (bob.rsplit_once('.').unwrap().0, alice.rsplit_once('.').unwrap().1);
    assert_eq!(status(&server, &format!("{theirs}.{signature}")).await, 403);
    assert_eq!(server.connections("bob"), 0);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the local issuer's keys")]
async fn forged_tokens_are_refused() {
    let server = TestServer::open().await;
    let jwks: Value = server
        .http
        .get(format!("{}/.well-known/jwks.json", server.local().http_url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let key = &jwks["keys"][0];
    let (kid, public) = (key["kid"].as_str().unwrap(), key["x"].as_str().unwrap());
    let issuer = server.local().http_url();
    let claims = json!({"sub": "alice", "iss": issuer, "aud": "pigeonhole", "exp": 4_102_444_800_i64});

    // Signed with the public key as if it were a shared secret.
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some(kid.to_owned());
    let confused = encode(&header, &claims, &EncodingKey::from_secret(public.as_bytes())).unwrap();
    assert_eq!(status(&server, &confused).await, 403);

    // "Signed" with nothing.
    let unsigned = |header: Value| {
        let part = |value: &Value| data_encoding::BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        format!("{}.{}.", part(&header), part(&claims))
    };
    assert_eq!(status(&server, &unsigned(json!({"alg": "none", "typ": "JWT"}))).await, 403);
    assert_eq!(status(&server, &unsigned(json!({"alg": "None", "kid": kid}))).await, 403);
    assert_eq!(status(&server, &unsigned(json!({"alg": "EdDSA", "kid": kid}))).await, 403);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer may not make tokens that expire at once")]
async fn an_expired_token_does_not_connect() {
    let server = TestServer::open().await;
    let token = server.token_for("alice", 1);
    // Until the second it carries has passed.
    while status(&server, &token).await == 101 {}
    assert_eq!(status(&server, &token).await, 403);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local issuer")]
async fn tokens_for_anybody_come_from_the_local_server_alone() {
    let server = TestServer::open().await;
    let http = server.local().http_url();
    let get = |path: &str| server.http.get(format!("{http}{path}")).send();
    let token: Value = get("/token?user=alice").await.unwrap().json().await.unwrap();
    let mut alice = server.connect(token["token"].as_str().unwrap()).await.unwrap();
    assert!(!alice.pending().await);
    let missing = get("/token").await.unwrap();
    assert_eq!(missing.status(), 400);
    assert!(missing.text().await.unwrap().contains("user"));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables")]
async fn a_device_id_is_noted() {
    let server = TestServer::open().await;
    let url = format!("{}?device_id=phone_1", server.url());
    let named = Phone::connect("alice", &url, &server.token("alice")).await;
    assert!(named.is_ok());
    assert_eq!(server.connection_rows("alice")[0]["device_id"], "phone_1");
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack answers 403 whatever $connect answers")]
async fn a_device_id_of_another_form_is_refused() {
    let server = TestServer::open().await;
    let (url, token) = (server.url(), server.token("alice"));
    for bad in ["a%20b", "", &"x".repeat(65), "%00"] {
        let refused = Phone::connect("alice", &format!("{url}?device_id={bad}"), &token).await;
        assert_eq!(refused.err(), Some(ConnectError(400)), "{bad}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables")]
async fn connections_come_and_go() {
    let server = TestServer::open().await;
    let (one, two) = (server.phone("alice").await, server.phone("alice").await);
    assert_eq!(server.connections("alice"), 2, "noted before the socket opens");
    let row = &server.connection_rows("alice")[0];
    let (at, until) = (row["connected_at"].as_i64().unwrap() / 1000, row["expires_at"].as_i64().unwrap());
    assert!((until - at).abs_diff(3600 + 600) <= 1, "a token of an hour, and time to close the socket");
    assert_eq!(row["device_id"], row["connection_id"], "without a device id the connection stands in");
    one.leave().await;
    server.until_connections("alice", 1).await;
    two.cut();
    server.until_connections("alice", 0).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "writes into the tables")]
async fn a_connection_that_has_ended_is_closed() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let id = server.connection_rows("bob")[0]["connection_id"].as_str().unwrap().to_owned();
    let key = |value: &str| aws_sdk_dynamodb::types::AttributeValue::S(value.to_owned());
    let update = server
        .tables()
        .update_item()
        .table_name("ConnectionsTable")
        .key("user_id", key("bob"))
        .key("connection_id", key(&id));
    let update = update.update_expression("SET ends_at = :past");
    update
        .expression_attribute_values(":past", aws_sdk_dynamodb::types::AttributeValue::N("1".to_owned()))
        .send()
        .await
        .unwrap();
    alice.send("bob", "m1", "hi").await;
    assert_eq!(bob.closed().await, Some(CloseCode::Normal), "and nothing was posted to it");
    assert_eq!(server.phone("bob").await.drain().await.len(), 1);
}
