//! The story of the files of `events/` with a route: alice writes to bob, who is offline. Events without a part in it
//! come at its end.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use wire::{ACTIONS, Reply};

/// Has each event answered, and checks the answers. `invoke` takes the name of a file and gives what the function returns.
pub async fn events_tell_one_story(invoke: impl AsyncFn(&str) -> Value) {
    let told = RefCell::new(BTreeSet::new());
    let frame = async |file: &str| {
        told.borrow_mut().insert(file.to_owned());
        let response = invoke(file).await;
        assert_eq!(response["statusCode"], 200, "API Gateway delivers only these: {response}");
        serde_json::from_str::<Value>(response["body"].as_str().unwrap()).unwrap()
    };
    assert_eq!(invoke("connect").await["statusCode"], 200);

    let sent = frame("send").await;
    assert_eq!((&sent["type"], &sent["action"], &sent["result"]["seq"]), (&json!("reply"), &json!("send"), &json!(1)));
    let conversation = &sent["result"]["conversation_id"];
    assert_eq!(frame("ping").await["result"]["pending"], true);
    let drained = frame("drain").await;
    assert_eq!(drained["result"]["messages"][0]["conversation_id"], *conversation);
    assert_eq!(frame("ack").await["result"], json!({}));
    assert_eq!(frame("ping").await["result"]["pending"], false);
    assert_eq!(frame("read").await["result"], json!({"unread": 0}));
    let history = frame("history").await;
    assert_eq!(history["result"]["messages"][0]["message_id"], sent["result"]["message_id"]);
    assert_eq!(frame("inbox").await["result"]["conversations"][0]["conversation_id"], *conversation);
    let registered = frame("device").await;
    assert_eq!(registered["result"], json!({"device_id": "pixel-51c8", "registered": true}), "{registered}");
    assert_eq!(frame("settings").await["result"], json!({}));
    assert_eq!(invoke("typing").await, json!({"statusCode": 200}), "it is not answered");
    // The text that there is now, for whoever asks again; and then none.
    for (seq, change) in [(2, "edit"), (3, "react"), (4, "pin"), (5, "delete")] {
        let changed = frame(change).await;
        assert_eq!((&changed["action"], &changed["result"]["seq"]), (&json!(change), &json!(seq)), "{changed}");
        let page = frame("history").await["result"].take();
        let message = &page["messages"][0];
        let (shown, expected) = match change {
            "edit" => (json!([message["body"], message["version"]]), json!(["hello", 2])),
            "react" => (message["reactions"].clone(), json!([{"emoji": "👍", "count": 1, "mine": true}])),
            "pin" => (page["pins"].clone(), json!([1])),
            _ => (json!([message["body"], message["deleted_by"]]), json!(["", "alice"])),
        };
        assert_eq!(shown, expected, "{change}");
    }
    let upload = frame("upload").await;
    assert!(upload["result"]["url"].is_string(), "{upload}");
    // Another upload, never announced.
    assert_eq!(frame("uploaded").await["error"]["code"], "gone");
    assert_eq!(frame("download").await["result"]["gone"], json!(["m_3kx4"]));
    // A group, from its beginning to its creator's leave.
    for (seq, change) in [(1, "create"), (2, "add"), (3, "remove"), (4, "update"), (5, "role"), (6, "restrict")] {
        let changed = frame(change).await;
        assert_eq!((&changed["action"], &changed["result"]["seq"]), (&json!(change), &json!(seq)), "{changed}");
    }
    assert_eq!(frame("members").await["result"]["members"].as_array().unwrap().len(), 3);
    assert_eq!(frame("reactions").await["error"]["code"], "gone", "its first entry is no message");
    assert_eq!(frame("leave").await["error"]["code"], "forbidden", "it has to be handed over first");
    for action in ["join", "watch"] {
        assert_eq!(frame(action).await["error"]["code"], "not_member", "there is no such channel");
    }
    assert_eq!(frame("channels").await["result"], json!({"conversations": [], "next_cursor": null}));
    let untold = |name: &str| !told.borrow().contains(name);
    let others: Vec<_> = ACTIONS.iter().filter(|action| action.replies && untold(action.name)).collect();
    for action in others {
        let mut reply = frame(action.name).await;
        assert_eq!((&reply["type"], &reply["action"]), (&json!("reply"), &json!(action.name)), "{reply}");
        Reply::parse(action.name, reply["result"].take()).unwrap();
    }
    assert_eq!(frame("default").await["error"]["code"], "unknown_action");

    assert_eq!(invoke("disconnect").await["statusCode"], 200);
}
