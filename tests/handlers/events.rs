//! The files of `events/`, fed to the handlers.

use lambda::{ApiEvent, caller};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{Workbench, file_event, to_event};

#[tokio::test]
async fn the_events_tell_one_story() {
    let bench = Workbench::default();
    let functions = bench.started();
    let invoke = async |file: &str| {
        let response = functions.handle(file, to_event(file_event(file))).await;
        serde_json::to_value(response.unwrap()).unwrap()
    };
    testkit::events_tell_one_story(invoke).await;
    let is_count = |row: &Value| row["connection_id"] == " blocks";
    assert!(bench.aws.rows("ConnectionsTable").iter().all(is_count), "no user is connected at the end");
}

/// One member of an event's context, replaced by something that API Gateway would not send.
fn hostile_member() -> impl Strategy<Value = (&'static str, Value)> {
    let place = prop::sample::select(vec![
        "/requestContext/connectionId",
        "/requestContext/connectedAt",
        "/requestContext/authorizer",
        "/requestContext/authorizer/principalId",
        "/requestContext/authorizer/exp",
        "/requestContext/authorizer/lambda",
        "/requestContext/routeKey",
        "/requestContext",
        "/body",
        "/isBase64Encoded",
    ]);
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        any::<String>().prop_map(|text| json!([text])),
        any::<String>().prop_map(|text| json!({ "principalId": text })),
    ];
    (place, value)
}

proptest! {
    /// The twin of the fuzz target `event`.
    #[test]
    fn a_hostile_event_is_refused_or_its_caller_is_the_authorizers(
        file in prop::sample::select(vec!["send", "http"]),
        changes in prop::collection::vec(hostile_member(), 1..4),
        body in any::<String>(),
    ) {
        let mut event = file_event(file);
        event["body"] = json!(body);
        for (place, value) in changes {
            if let Some(member) = event.pointer_mut(place) {
                *member = value;
            }
        }
        let Ok(payload) = serde_json::from_value::<ApiEvent>(event.clone()) else { return Ok(()) };
        if let Ok(caller) = caller(&payload) {
            let authorizer = &event["requestContext"]["authorizer"];
            let mut places = [&authorizer["principalId"], &authorizer["lambda"]["principalId"]].into_iter();
            prop_assert!(places.any(|principal| principal == caller.user.as_str()));
        }
    }
}
