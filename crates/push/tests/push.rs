//! Retries of calls to SNS, and the meaning of its replies.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use push::{Notification, Phones, Published, RegisterError};
use testkit::{Connector, fake_sns, sdk_config};
use wire::DeviceToken;

/// The SDK as in production, on a service whose first answers these are; the last one stands for all that follow.
fn phones(answers: &'static [(u16, &'static str, &'static str)]) -> (Phones, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let connector = Connector::new(move |call| {
        let (status, code, message) = answers[counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)];
        let ok = || fake_sns::ok(call.operation(), "<MessageId>m</MessageId><EndpointArn>arn:e</EndpointArn>");
        let answer = if status == 200 { ok() } else { fake_sns::error(status, code, message) };
        async move { Some(answer) }
    });
    (Phones::from_sdk(&sdk_config(connector)), calls)
}

async fn publish(phones: &Phones) -> Published {
    phones.publish("arn:e", Notification { message: "{}".to_owned(), attributes: vec![] }).await
}

#[tokio::test(start_paused = true)]
async fn what_is_throttled_or_fails_is_tried_three_times() {
    for (status, code) in [(429, "Throttled"), (500, "InternalError"), (503, "ServiceUnavailable")] {
        let answers = Box::leak(Box::new([(status, code, ""), (status, code, ""), (200, "", "")]));
        let (phones, calls) = phones(answers);
        assert!(matches!(publish(&phones).await, Published::Accepted), "{code}");
        assert_eq!(calls.load(Ordering::SeqCst), 3, "{code}");
    }
    let (phones, calls) = phones(&[(429, "Throttled", "")]);
    assert!(matches!(publish(&phones).await, Published::Failed(_)));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_is_refused_is_not_tried_again() {
    let gone = "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified";
    for (status, code, message, wanted) in [
        (400, "EndpointDisabled", "", "Gone"),
        (404, "NotFound", "", "Gone"),
        (400, "InvalidParameter", gone, "Gone"),
        (400, "InvalidParameter", "Invalid parameter: Message Reason: too long", "Failed"),
        (400, "PlatformApplicationDisabled", "", "Refused"),
        (403, "AuthorizationError", "", "Refused"),
    ] {
        let (phones, calls) = phones(Box::leak(Box::new([(status, code, message)])));
        let published = format!("{:?}", publish(&phones).await);
        assert!(published.starts_with(wanted), "{code}: {published}");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "{code}");
    }
}

#[tokio::test]
async fn a_token_that_is_none_is_told_from_an_application_that_is_none() {
    let token = DeviceToken::parse("t").unwrap();
    for (message, is_token) in [
        ("Invalid parameter: Token Reason: iOS device tokens must be no more than 400 hexadecimal characters", true),
        (
            "Invalid parameter: PlatformApplicationArn Reason: Wrong number of slashes in relative portion of the ARN.",
            false,
        ),
    ] {
        let (phones, _) = phones(Box::leak(Box::new([(400, "InvalidParameter", message)])));
        let error = phones.register("arn:app", &token).await.unwrap_err();
        assert_eq!(matches!(error, RegisterError::Token), is_token, "{message}");
    }
    let known = "Invalid parameter: Token Reason: Endpoint arn:aws:sns:eu-west-1:1:endpoint/GCM/x/1 already exists with the same \
                 Token, but different attributes.";
    let (phones, _) = phones(Box::leak(Box::new([(400, "InvalidParameter", known), (200, "", "")])));
    assert_eq!(phones.register("arn:app", &token).await.unwrap(), "arn:aws:sns:eu-west-1:1:endpoint/GCM/x/1");
}
