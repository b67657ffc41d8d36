//! Template, functions, tables and events agree, so that what was tested is what is deployed.

use std::collections::BTreeSet;

use domain::{Request, UserId};
use local::{Overrides, Template};
use serde_json::{Value, json};

use crate::bench::file_event;

fn template() -> Template {
    Template::load(&tests::root().join("template.yaml"), &Overrides::new()).unwrap()
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(tests::root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_function_is_deployed_and_every_deployed_one_is_here() {
    let deployed: BTreeSet<String> = template().functions.values().map(|function| function.binary.clone()).collect();
    assert_eq!(deployed, names("functions"));
    let built: BTreeSet<String> = tests::functions().keys().cloned().collect();
    assert!(deployed.is_subset(&built), "{deployed:?} are built as {built:?}");
}

#[test]
fn every_action_has_a_route_that_answers_and_every_route_an_event() {
    let template = template();
    let routes: BTreeSet<&str> = template.api.routes.keys().map(String::as_str).collect();
    let actions = BTreeSet::from(["send", "drain", "ack", "ping", "read", "inbox", "history"]);
    let builtin = BTreeSet::from(["$connect", "$disconnect", "$default"]);
    assert_eq!(routes, actions.union(&builtin).copied().collect());
    assert_eq!(template.api.route_member, "action");
    for (key, route) in &template.api.routes {
        assert_eq!(route.replies, !matches!(key.as_str(), "$connect" | "$disconnect"), "{key}");
        assert!(template.functions.contains_key(&route.function), "{key}");
    }
    let events: BTreeSet<String> = routes.iter().map(|key| format!("{}.json", key.trim_start_matches('$'))).collect();
    let others = ["authorize.json".to_owned(), "env.json".to_owned()];
    assert_eq!(names("events"), events.into_iter().chain(others).collect());
}

#[test]
fn an_action_that_has_no_route_is_unknown_to_the_parser_too() {
    for route in template().api.routes.keys() {
        let frame = json!({"action": route}).to_string();
        let parsed = Request::parse(&frame, &UserId::parse("alice").unwrap());
        let unknown = parsed.is_err_and(|rejected| rejected.refusal == domain::Refusal::UnknownAction);
        assert_eq!(unknown, route.starts_with('$'), "{route}");
    }
}

#[test]
fn each_event_is_of_its_route_and_its_frame_is_of_its_action() {
    for route in template().api.routes.keys() {
        let event = file_event(route.trim_start_matches('$'));
        assert_eq!(event["requestContext"]["routeKey"], *route);
        let body = event["body"].as_str();
        if !route.starts_with('$') {
            let caller = UserId::parse(event["requestContext"]["authorizer"]["principalId"].as_str().unwrap()).unwrap();
            let request = Request::parse(body.unwrap(), &caller).unwrap();
            assert_eq!(request.action.name(), route);
        }
    }
}

#[test]
fn tables_have_the_keys_and_lifetimes_that_the_store_writes() {
    let expected = [
        ("ConnectionsTable", vec![("user_id", "HASH"), ("connection_id", "RANGE")], vec![], true),
        ("IdempotencyTable", vec![("conversation_id", "HASH"), ("sender_key", "RANGE")], vec![], true),
        (
            "InboxTable",
            vec![("user_id", "HASH"), ("conversation_id", "RANGE")],
            vec![("recency", "active_at"), ("pending", "pending_since")],
            false,
        ),
        ("MessagesTable", vec![("conversation_id", "HASH"), ("seq", "RANGE")], vec![], false),
    ];
    let tables = template().tables;
    assert_eq!(tables.len(), expected.len());
    for (logical_id, keys, indexes, expires) in expected {
        let table = tables.iter().find(|table| table.logical_id == logical_id).unwrap();
        let key = |entry: &Value| {
            (entry["AttributeName"].as_str().unwrap().to_owned(), entry["KeyType"].as_str().unwrap().to_owned())
        };
        let has: Vec<_> = table.create["KeySchema"].as_array().unwrap().iter().map(key).collect();
        assert_eq!(has, keys.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect::<Vec<_>>());
        let none = Vec::new();
        let has: BTreeSet<_> = table.create["LocalSecondaryIndexes"]
            .as_array()
            .unwrap_or(&none)
            .iter()
            .map(|index| {
                assert_eq!(index["Projection"]["ProjectionType"], "KEYS_ONLY");
                (index["IndexName"].as_str().unwrap(), index["KeySchema"][1]["AttributeName"].as_str().unwrap())
            })
            .collect();
        assert_eq!(has, indexes.into_iter().collect());
        assert_eq!(table.ttl_attribute.as_deref(), expires.then_some("expires_at"));
    }
}

#[test]
fn functions_have_the_variables_that_they_read() {
    let tables = ["CONNECTIONS_TABLE", "MESSAGES_TABLE", "IDEMPOTENCY_TABLE", "INBOX_TABLE"];
    for function in template().functions.values() {
        let needed: &[&str] = match function.binary.as_str() {
            "authorize" => &["JWKS_URL", "TOKEN_ISSUER", "TOKEN_AUDIENCE", "QUERY_STRING_TOKENS"],
            "connect" | "inbox" => &[],
            _ => &["CONNECTIONS_ENDPOINT"],
        };
        for name in needed.iter().chain(&tables).chain(&["RUST_LOG", "STACK_NAME"]) {
            assert!(function.environment.contains_key(*name), "{} lacks {name}", function.binary);
        }
    }
    // `sam local invoke` passes on only what the template declares.
    let declared: BTreeSet<String> =
        template().functions.values().flat_map(|function| function.environment.keys().cloned()).collect();
    let env = file_event("env");
    let passed: BTreeSet<String> = env["Parameters"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(passed, declared);
}
