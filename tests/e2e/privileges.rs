//! Least privilege, both ways: no function asks AWS for what its policy does not allow, and no policy allows what its
//! function never asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use serde_yaml_ng::Value as Yaml;
use testkit::{AwsCall, Proxy, TestServer};

/// A function, an IAM action, and the resource that it is on, as the template calls it.
type Privilege = (String, String, String);

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sees the functions' calls to AWS")]
async fn the_functions_may_do_what_they_do_and_nothing_else() {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let record = Arc::clone(&asked);
    let proxy = Proxy::open(move |function, call| {
        record.lock().unwrap().extend(privileges(function, call));
        None
    })
    .await;
    let limits = [("RequestRate", "60+10/1s"), ("ConnectionsPerUser", "2"), ("FirstMessageRate", "20+1/180s")];
    let limits = limits.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = proxy.server_with(|options| options.parameters.extend(limits)).await;
    do_everything(&server).await;
    do_too_much(&server).await;
    operate(&server).await;
    server.until_connections("alice", 0).await;

    let (asked, allowed) = (asked.lock().unwrap().clone(), allowed());
    let denied: Vec<_> = asked.difference(&allowed).collect();
    assert!(denied.is_empty(), "not allowed by template.yaml: {denied:#?}");
    let unused: Vec<_> = allowed.difference(&asked).collect();
    assert!(unused.is_empty(), "allowed by template.yaml, and not asked for: {unused:#?}");
}

/// Every action, with everything that can come of it.
async fn do_everything(server: &TestServer) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    // A dead connection is found by each function that posts: with a message, with a receipt, with a read mark.
    for action in ["send", "ack", "read"] {
        alice.send("bob", &format!("{action}-1"), "hi").await;
        let second = alice.send("bob", &format!("{action}-2"), "hi").await;
        let (conversation, seq) = (second["conversation_id"].as_str().unwrap(), second["seq"].as_u64().unwrap());
        let row = if action == "send" { "bob" } else { "alice" };
        server.store_dead_connection(row).await;
        match action {
            "send" => drop(alice.send("bob", "send-3", "hi").await),
            // Below the last message: the row, and what is left of the conversation, are read.
            "ack" => bob.ack(conversation, seq - 1).await,
            _ => drop(bob.read(conversation, seq - 1).await),
        }
    }
    bob.drain().await;
    bob.inbox().await;
    assert!(!bob.pending().await);
    for set in [
        json!({"user_id": "mallory", "set": {"blocked": true}}),
        json!({"conversation_id": "dm_x", "set": {"archived": true}}),
    ] {
        let mut frame = set;
        frame["action"] = json!("settings");
        bob.ask(frame).await;
    }
    let conversation = bob.conversation("alice").await["conversation_id"].as_str().unwrap().to_owned();
    bob.history(&conversation).await;
    assert_eq!(bob.refused(json!({"action": "dance"})).await, "unknown_action");
    alice.leave().await;
    bob.leave().await;
}

/// More than a user may: more connections, and to each function more requests.
async fn do_too_much(server: &TestServer) {
    let mut oldest = server.phone("mallory").await;
    let (_second, _third) = (server.phone("mallory").await, server.phone("mallory").await);
    oldest.event("connection.replaced").await;
    for action in ["send", "ack", "read", "inbox", "dance"] {
        let mut mallory = server.phone(&format!("mallory-{action}")).await;
        mallory.flood(&json!({ "action": action }).to_string()).await;
    }
}

/// Whatever an operator can ask for.
async fn operate(server: &TestServer) {
    let _phone = server.phone("bob").await;
    for request in [
        json!({"op": "connections", "user_id": "bob"}),
        json!({"op": "pending", "user_id": "bob"}),
        json!({"op": "logged_as", "id": "bob"}),
        json!({"op": "conversation", "user_ids": ["alice", "bob"]}),
        json!({"op": "suspend", "user_id": "bob", "until": "2099-01-01T00:00:00Z"}),
        json!({"op": "unsuspend", "user_id": "bob"}),
    ] {
        let url = format!("{}/local/admin", server.local().http_url());
        let answer: Value = server.http.post(url).json(&request).send().await.unwrap().json().await.unwrap();
        assert!(answer["result"].is_object(), "{request}: {answer}");
    }
}

/// What IAM asks for a call: a transaction takes the permission of each write in it.
fn privileges(function: &str, call: &AwsCall) -> Vec<Privilege> {
    let of = |action: &str, resource: &str| {
        let action =
            if resource.starts_with('@') { format!("execute-api:{action}") } else { format!("dynamodb:{action}") };
        (function.to_owned(), action, resource.to_owned())
    };
    let resource = |body: &Value| {
        let table = body["TableName"].as_str().unwrap_or_default();
        body["IndexName"].as_str().map_or_else(|| table.to_owned(), |index| format!("{table}/index/{index}"))
    };
    match call.operation() {
        "PostToConnection" => vec![of("ManageConnections", "@connections/POST")],
        "DeleteConnection" => vec![of("ManageConnections", "@connections/DELETE")],
        "TransactWriteItems" => {
            let writes = call.body()["TransactItems"].as_array().into_iter().flatten();
            let writes = writes.flat_map(|write| write.as_object().into_iter().flatten());
            writes.map(|(kind, write)| of(&format!("{kind}Item"), &resource(write))).collect()
        }
        // An index that holds keys only has not all attributes: the rows come from the table.
        operation if call.body()["Select"] == "ALL_ATTRIBUTES" && call.body()["IndexName"].is_string() => {
            let table = call.body()["TableName"].as_str().unwrap_or_default();
            vec![of(operation, &resource(call.body())), of(operation, table)]
        }
        operation => vec![of(operation, &resource(call.body()))],
    }
}

/// What the template allows.
fn allowed() -> BTreeSet<Privilege> {
    let text = std::fs::read_to_string(template::workspace_root().join("template.yaml")).unwrap();
    let template: Yaml = serde_yaml_ng::from_str(&text).unwrap();
    let mut allowed = BTreeSet::new();
    for (name, resource) in template["Resources"].as_mapping().unwrap() {
        let statements = resource["Properties"]["Policies"].as_sequence().into_iter().flatten();
        let statements = statements.flat_map(|policy| policy["Statement"].as_sequence().unwrap());
        for statement in statements {
            assert_eq!(statement["Effect"], "Allow");
            for action in one_or_more(&statement["Action"]) {
                for resource in one_or_more(&statement["Resource"]) {
                    allowed.insert((name.as_str().unwrap().to_owned(), text_of(action), resource_of(resource)));
                }
            }
        }
    }
    allowed
}

fn one_or_more(value: &Yaml) -> Vec<&Yaml> {
    value.as_sequence().map_or_else(|| vec![value], |all| all.iter().collect())
}

/// A string, whatever intrinsic function it is given to.
fn text_of(value: &Yaml) -> String {
    match value {
        Yaml::Tagged(tagged) => text_of(&tagged.value),
        value => value.as_str().unwrap().to_owned(),
    }
}

/// `!GetAtt InboxTable.Arn` as `InboxTable`, `${InboxTable.Arn}/index/pending` as `InboxTable/index/pending`.
fn resource_of(value: &Yaml) -> String {
    let text = text_of(value);
    for method in ["POST", "DELETE"] {
        if text.ends_with(&format!("/{method}/@connections/*")) {
            return format!("@connections/{method}");
        }
    }
    assert!(!text.contains('*'), "{text} allows more than one thing");
    text.replace("${", "").replace('}', "").replace(".Arn", "")
}
