//! An event of API Gateway for each action, with the registry's example: `sam local invoke` and the tests feed them to the
//! functions. One after another they are a conversation of alice and bob, and then a group of alice's, as
//! `tests/kit/src/story.rs` checks.

use wire::{ACTIONS, ActionSpec, ClientMsgId, UserId, channel_id, direct_conversation_id, group_id};

/// Bob's, who receives what alice writes. Alice sends the others.
const OF_BOB: [&str; 8] = ["ack", "drain", "read", "history", "react", "device", "publish_keys", "ping"];

/// The name of each action, and the text of its file.
pub(crate) fn events() -> impl Iterator<Item = (&'static str, String)> {
    ACTIONS.iter().map(|action| (action.name, event(action)))
}

fn event(&ActionSpec { name, example, .. }: &ActionSpec) -> String {
    let (user, device, connection, address, agent) = if OF_BOB.contains(&name) {
        ("bob", "pixel-51c8", "UqZ5wfN3oAMCKXQ=", "198.51.100.20", "Pigeonhole/1.0 (Android 16)")
    } else {
        let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
        ("alice", "firefox-7f3a", "UqZ2kdQ1IAMCJ9A=", "192.0.2.10", agent)
    };
    let body = serde_json::to_string(&of_the_story(example)).expect("a string can be written");
    format!(
        r#"{{
  "requestContext": {{
    "routeKey": "{name}",
    "messageId": "UqZ6W{name:0>9}XQ=",
    "eventType": "MESSAGE",
    "extendedRequestId": "UqZ6W{name:0>9}1A=",
    "requestTime": "20/Nov/2026:10:01:00 +0000",
    "messageDirection": "IN",
    "stage": "v1",
    "connectedAt": 1795168800123,
    "requestTimeEpoch": 1795168860123,
    "identity": {{
      "sourceIp": "{address}",
      "userAgent": "{agent}"
    }},
    "authorizer": {{
      "principalId": "{user}",
      "exp": "4102444800",
      "device_id": "{device}",
      "integrationLatency": 12
    }},
    "requestId": "UqZ6W{name:0>9}1A=",
    "domainName": "a1b2c3d4e5.execute-api.us-east-1.amazonaws.com",
    "connectionId": "{connection}",
    "apiId": "a1b2c3d4e5"
  }},
  "body": {body},
  "isBase64Encoded": false
}}
"#
    )
}

/// The example, about the conversations that the story has, and the first entry of each.
fn of_the_story(example: &str) -> String {
    let user = |id: &str| UserId::parse(id).expect("it is an id");
    let (alice, bob) = (user("alice"), user("bob"));
    // As the example of `create` has it.
    let created = ClientMsgId::parse("c1").expect("it is an id");
    example
        .replace("dm_x", direct_conversation_id(&alice, &bob).as_str())
        .replace("gr_x", group_id(&alice, &created).as_str())
        .replace("ch_x", channel_id(&alice, &created).as_str())
        .replace("\"seq\":42", "\"seq\":1")
        .replace("\"seqs\":[42]", "\"seqs\":[1]")
}
