//! A Lambda function for the tests of the local server: it answers what it was sent, or fails as told.
#![allow(clippy::indexing_slicing, reason = "indexing JSON answers null where there is nothing")]
use std::time::Duration;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::var_os("EXIT_AT_START").is_some() {
        eprintln!("cannot go on");
        std::process::exit(2);
    }
    lambda_runtime::run(service_fn(function)).await
}

async fn function(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let event = event.payload;
    println!("{}", json!({ "level": "INFO", "message": "event", "event": event }));
    if event["type"] == "REQUEST" {
        return authorize(&event);
    }
    let text = event["body"].as_str().unwrap_or("{}");
    let body: Value = serde_json::from_str(text)?;
    match body["do"].as_str() {
        Some("fail") => return Err("as asked".into()),
        Some("crash") => std::process::exit(3),
        Some("hang") => tokio::time::sleep(Duration::from_mins(1)).await,
        Some("pid") => return Ok(json!({ "statusCode": 200, "body": std::process::id().to_string() })),
        Some("env") => return Ok(json!({ "statusCode": 200, "body": std::env::var("ENDPOINT")? })),
        Some("nonsense") => return Ok(json!("nonsense")),
        _ => {}
    }
    let refused = event["queryStringParameters"]["status"].as_str().and_then(|status| status.parse::<u16>().ok());
    let protocol =
        event["headers"]["sec-websocket-protocol"].as_str().map(|_| json!({ "Sec-WebSocket-Protocol": "b" }));
    Ok(json!({ "statusCode": refused.unwrap_or(200), "headers": protocol, "body": text }))
}

fn authorize(event: &Value) -> Result<Value, Error> {
    let effect = match event["queryStringParameters"]["user"].as_str() {
        None => return Err("Unauthorized".into()),
        Some("malformed") => return Ok(json!({})),
        Some("mallory") => "Deny",
        Some(_) => "Allow",
    };
    let statement = json!({ "Action": "execute-api:Invoke", "Effect": effect, "Resource": event["methodArn"] });
    Ok(json!({
        "principalId": event["queryStringParameters"]["user"],
        "policyDocument": { "Version": "2012-10-17", "Statement": [statement] },
        "context": { "exp": 7 },
    }))
}
