//! Template, functions, tables and events agree, so that what was tested is what is deployed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use template::{Template, workspace_root};
use testkit::file_event;
use wire::{ACTIONS, HTTP_ACTIONS, Refusal, Request};

/// With phones to ring and queues: without, there are fewer functions.
fn template() -> Template {
    let push = ["Apns", "ApnsSandbox", "Fcm"].map(|name| format!("{name}ApplicationArn"));
    let push = push.map(|name| (name, "arn:aws:sns:us-east-1:000000000000:app/any/local".to_owned()));
    let on = [
        ("BackendMessages", "on"),
        ("HttpApi", "on"),
        ("ServiceAudience", "services"),
        ("EventsTo", "arn:aws:sqs:us-east-1:000000000000:Events"),
    ];
    let all = push.into_iter().chain(on.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect();
    Template::load(&workspace_root().join("template.yaml"), &all).unwrap()
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(workspace_root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_function_is_deployed_and_every_deployed_one_is_here() {
    let deployed: BTreeSet<String> = template().functions.values().map(|function| function.binary.clone()).collect();
    assert_eq!(deployed, names("functions"));
    for function in deployed {
        assert!(testkit::programs().join(&function).exists(), "no program of this name is built: {function}");
    }
}

#[test]
fn what_is_off_has_no_function() {
    let template = Template::load(&workspace_root().join("template.yaml"), &BTreeMap::default()).unwrap();
    let missing: Vec<String> = {
        let deployed: BTreeSet<&str> = template.functions.values().map(|function| function.binary.as_str()).collect();
        names("functions").into_iter().filter(|name| !deployed.contains(name.as_str())).collect()
    };
    assert_eq!(missing, ["backend", "ingest", "notify", "publish"]);
}

#[test]
fn every_action_has_a_route_that_answers_and_every_route_an_event() {
    let template = template();
    let routes: BTreeSet<&str> = template.api.routes.keys().map(String::as_str).collect();
    let actions: BTreeSet<&str> = ACTIONS.iter().map(|action| action.name).collect();
    let builtin = BTreeSet::from(["$connect", "$disconnect", "$default"]);
    assert_eq!(routes, actions.union(&builtin).copied().collect());
    assert_eq!(template.api.route_member, "action");
    for (key, route) in &template.api.routes {
        let is_silent = ACTIONS.iter().any(|action| action.name == key && !action.replies);
        assert_eq!(route.replies, !is_silent && !matches!(key.as_str(), "$connect" | "$disconnect"), "{key}");
        let function = &template.functions[&route.function].binary;
        let served_by = ACTIONS.iter().find(|action| action.name == key).map_or("connect", |action| action.function);
        assert_eq!(function, served_by, "{key}");
    }
    let events: BTreeSet<String> = routes.iter().map(|key| format!("{}.json", key.trim_start_matches('$'))).collect();
    let others = [
        "admin",
        "authorize",
        "authorize_http",
        "backend",
        "env",
        "fanout",
        "http",
        "ingest",
        "jobs",
        "notify",
        "publish",
    ]
    .map(|file| format!("{file}.json"));
    assert_eq!(names("events"), events.into_iter().chain(others).collect());
}

#[test]
fn over_http_the_actions_have_the_functions_of_their_routes() {
    let mut chosen = BTreeMap::from([("HttpApi".to_owned(), "on".to_owned())]);
    let load =
        |chosen: &BTreeMap<String, String>| Template::load(&workspace_root().join("template.yaml"), chosen).unwrap();
    let template = load(&chosen);
    let http = template.http.unwrap();
    let routes: BTreeMap<String, &str> =
        http.routes.iter().map(|(key, id)| (key.clone(), &*template.functions[id].binary)).collect();
    let actions = ACTIONS.iter().filter(|action| HTTP_ACTIONS.contains(&action.name));
    assert_eq!(routes, actions.map(|action| (format!("POST /v1/{}", action.name), action.function)).collect());
    assert_eq!(template.functions[&http.authorizer].binary, "authorize");
    let third = |whole: u32| whole / 3;
    let (own, of_sockets) = (http.throttle.unwrap(), template.api.throttle.unwrap());
    assert_eq!((own.per_second, own.burst), (third(of_sockets.per_second), third(of_sockets.burst)));
    chosen.insert("ServiceAudience".to_owned(), "services".to_owned());
    let http = load(&chosen).http.unwrap();
    assert_eq!(http.routes["POST /v1/services/{op}"], "BackendFunction");
    chosen.insert("HttpApi".to_owned(), "off".to_owned());
    assert_eq!(load(&chosen).http, None);
}

#[test]
fn every_action_is_explained() {
    let protocol = std::fs::read_to_string(workspace_root().join("docs/protocol.md")).unwrap();
    for action in ACTIONS {
        let section = protocol.split(&format!("\n### `{}`\n", action.name)).nth(1);
        let section = section.unwrap_or_else(|| panic!("docs/protocol.md has no section for `{}`", action.name));
        let lines = section.lines().take_while(|line| !line.starts_with('#')).count();
        assert!(lines <= 50, "the section of `{}` in docs/protocol.md has {lines} lines", action.name);
    }
}

#[test]
fn every_crate_that_is_deployed_may_log_and_has_its_mutants() {
    let mutants = std::fs::read_to_string(workspace_root().join("tools/scripts/mutants.py")).unwrap();
    for function in names("functions") {
        assert!(lambda::logs_as_ours(&function), "the debug lines of {function} are dropped: crates/lambda/src/log.rs");
        assert!(mutants.contains(&format!("\"{function}\"")), "no mutants are made of {function}: mutants.py");
    }
    for name in names("crates") {
        let name = if name == "wire" { "pigeonhole_wire".to_owned() } else { name };
        assert!(lambda::logs_as_ours(&name), "the debug lines of {name} are dropped: crates/lambda/src/log.rs");
    }
}

#[test]
fn an_action_that_has_no_route_is_unknown_to_the_parser_too() {
    for route in template().api.routes.keys() {
        let frame = json!({"action": route}).to_string();
        let parsed = Request::parse(&frame);
        let unknown = parsed.is_err_and(|rejected| rejected.refusal == Refusal::UnknownAction);
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
            let request = Request::parse(body.unwrap()).unwrap();
            assert_eq!(request.action.name(), route);
        }
    }
}

/// What CloudFormation can't change of a table without making a new, empty one in its place.
fn what_a_table_is(name: &str) -> Value {
    let schema = |hash: &str, range: &str| json!([{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": range, "KeyType": "RANGE"}]);
    let index = |name: &str, range: &str| {
        let projection = json!({"ProjectionType": "KEYS_ONLY"});
        json!({"IndexName": name, "KeySchema": schema("user_id", range), "Projection": projection})
    };
    let only =
        [("ConversationsTable", "conversation_id"), ("EpochsTable", "conversation_id"), ("MediaTable", "media_id")];
    if let Some((_, key)) = only.iter().find(|(table, _)| *table == name) {
        let keys = json!([{"AttributeName": key, "KeyType": "HASH"}]);
        let attributes = json!([{"AttributeName": key, "AttributeType": "S"}]);
        return json!({"TableName": name, "KeySchema": keys, "AttributeDefinitions": attributes});
    }
    let (hash, range, numbers, indexes) = match name {
        "AuditTable" => ("conversation_id", "seq_version", vec![], None),
        "ConnectionsTable" => ("user_id", "connection_id", vec![], None),
        "DevicesTable" => ("user_id", "device_id", vec![], None),
        "KeysTable" => ("user_id", "key_id", vec![], None),
        "IdempotencyTable" => ("conversation_id", "sender_key", vec![], None),
        "MembersTable" => ("conversation_id", "user_id", vec![], None),
        "WatchersTable" => ("channel_part", "connection_id", vec![], None),
        "MessagesTable" => ("conversation_id", "seq", vec!["seq"], None),
        "InboxTable" => {
            let indexes = json!([index("recency", "active_at"), index("pending", "pending_since")]);
            ("user_id", "conversation_id", vec!["active_at", "pending_since"], Some(indexes))
        }
        _ => panic!("{name} is not pinned here yet: say what it is, so that nobody replaces it unaware"),
    };
    let of_type = |name: &str, kind: &str| json!({"AttributeName": name, "AttributeType": kind});
    let strings = [hash, range].into_iter().filter(|name| !numbers.contains(name)).map(|name| of_type(name, "S"));
    let attributes: Vec<Value> = strings.chain(numbers.iter().map(|name| of_type(name, "N"))).collect();
    let mut table = json!({"TableName": name, "KeySchema": schema(hash, range), "AttributeDefinitions": attributes});
    table.as_object_mut().unwrap().extend(indexes.map(|indexes| ("LocalSecondaryIndexes".to_owned(), indexes)));
    table
}

#[test]
fn no_deployment_replaces_a_table() {
    let text = std::fs::read_to_string(workspace_root().join("template.yaml")).unwrap();
    let tables = template().tables;
    let names: BTreeSet<&str> = tables.iter().map(|table| table.logical_id.as_str()).collect();
    let pinned =
        ["AuditTable", "ConnectionsTable", "ConversationsTable", "DevicesTable", "EpochsTable", "IdempotencyTable"];
    let pinned = BTreeSet::from(pinned)
        .union(&["InboxTable", "KeysTable", "MediaTable", "MembersTable", "MessagesTable", "WatchersTable"].into())
        .copied()
        .collect();
    assert_eq!(
        names, pinned,
        "a table under another logical id is a new, empty one; the rows stay behind in the old one"
    );
    for table in &tables {
        let name = table.logical_id.as_str();
        let mut has = table.create.clone();
        // Properties that change without a replacement. The name is the logical id if the template has none.
        has.as_object_mut().unwrap().retain(|member, _| member != "BillingMode" && member != "StreamSpecification");
        assert_eq!(
            has,
            what_a_table_is(name),
            "a deployment of this would put a new, empty {name} in the place of the one with everybody's rows, and the \
             functions would find nothing. Add a table and move the rows instead."
        );
        let resource = text.split(&format!("\n  {name}:\n")).nth(1).unwrap().split("\n\n").next().unwrap();
        assert!(
            !resource.contains("TableName"),
            "a named {name} is another, empty table, and a second stack can't have it"
        );
        for policy in ["DeletionPolicy", "UpdateReplacePolicy"] {
            let retained = format!("    {policy}: Retain");
            assert!(
                resource.lines().any(|line| line == retained),
                "without {policy}: Retain, the rows of {name} go with it"
            );
        }
    }
}

/// No deployment may change a bucket so that objects are lost, and a signed URL is the only access.
#[test]
fn what_no_default_can_be_right_for_must_be_named_by_who_deploys() {
    let text = std::fs::read_to_string(workspace_root().join("template.yaml")).unwrap();
    let parameters = text.split("\nParameters:").nth(1).unwrap().split("\n\n").next().unwrap();
    let parameters = parameters.split("\n  ").skip(1).filter(|line| !line.starts_with(' '));
    let names: Vec<_> = parameters.map(|line| line.trim().trim_end_matches(':')).collect();
    let of = |name: &str| text.split(&format!("\n  {name}:\n")).nth(1).unwrap().split("Description").next().unwrap();
    let without_default: Vec<_> = names.into_iter().filter(|name| !of(name).contains("Default: ")).collect();
    assert_eq!(without_default, ["JwksUrl", "TokenIssuer", "TokenAudience", "LogKey"]);
}

/// `send` and `group` cost the most, and a flood of them must leave the account's concurrency to the other functions.
#[test]
fn the_functions_send_and_group_have_reserved_concurrency_by_default() {
    let text = std::fs::read_to_string(workspace_root().join("template.yaml")).unwrap();
    let block = |name: &str| {
        let lines = text.split(&format!("\n  {name}:\n")).nth(1).unwrap().lines();
        lines.take_while(|line| line.starts_with("   ")).map(str::trim).collect::<Vec<_>>().join(" ")
    };
    for (function, parameter, default) in
        [("SendFunction", "SendConcurrency", "300"), ("GroupFunction", "GroupConcurrency", "100")]
    {
        assert!(block(parameter).contains(&format!("Default: {default} ")), "{parameter}");
        let reserved = format!("!If [Has{parameter}, !Ref {parameter}, !Ref AWS::NoValue]");
        let property = format!(
            "ReservedConcurrentExecutions: !If - HasReservedConcurrency - !Ref ReservedConcurrency - {reserved} "
        );
        assert!(block(function).contains(&property), "{function}");
        let condition = format!("\n  Has{parameter}: !Not [!Equals [!Ref {parameter}, -1]]\n");
        assert!(text.contains(&condition), "{condition}");
    }
}

#[test]
fn the_bucket_is_kept_closed_and_encrypted() {
    let text = std::fs::read_to_string(workspace_root().join("template.yaml")).unwrap();
    let bucket = text.split("\n  MediaBucket:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(!bucket.contains("BucketName"), "a named bucket is another, empty one, and a second stack can't have it");
    for line in [
        "DeletionPolicy: Retain",
        "UpdateReplacePolicy: Retain",
        "BlockPublicAcls: true",
        "BlockPublicPolicy: true",
        "IgnorePublicAcls: true",
        "RestrictPublicBuckets: true",
        "ObjectOwnership: BucketOwnerEnforced",
        "SSEAlgorithm: AES256",
        "AbortIncompleteMultipartUpload",
    ] {
        assert!(bucket.contains(line), "MediaBucket lacks {line}");
    }
    let policy = text.split("\n  MediaBucketPolicy:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(policy.contains("{Bool: {aws:SecureTransport: \"false\"}}") && !policy.contains("Effect: Allow"));
    // Each header that a client must send is one that a page may.
    let cors = &template().buckets[0].cors;
    for header in ["content-type", "if-none-match", "x-amz-checksum-sha256"] {
        assert!(cors.headers.iter().any(|allowed| allowed == header), "{header}");
    }
    assert_eq!(
        (&cors.methods[..], &cors.origins[..]),
        (&["GET".to_owned(), "PUT".to_owned()][..], &["*".to_owned()][..])
    );
}

#[test]
fn what_expires_is_what_the_store_writes_an_end_for() {
    for table in template().tables {
        let expires = ["AuditTable", "ConnectionsTable", "DevicesTable", "IdempotencyTable", "KeysTable", "MediaTable"];
        let expires = [&expires[..], &["WatchersTable"]].concat();
        let expires = expires.contains(&table.logical_id.as_str());
        assert_eq!(table.ttl_attribute.as_deref(), expires.then_some("expires_at"), "{}", table.logical_id);
    }
}

#[test]
fn every_alarm_is_on_the_dashboard_and_explained() {
    let read = |file: &str| std::fs::read_to_string(workspace_root().join(file)).unwrap();
    let (text, docs) = (read("template.yaml"), read("docs/runbook.md"));
    let mut alarms = 0;
    for resource in text.split("\n\n").filter(|resource| resource.contains("Type: AWS::CloudWatch::Alarm")) {
        let id = resource.lines().find_map(|line| line.strip_prefix("  ")?.strip_suffix("Alarm:")).unwrap();
        assert!(text.contains(&format!("\"${{{id}Alarm.Arn}}\"")), "{id}Alarm is not on the dashboard");
        let name = resource.split("AlarmName: !Sub \"${AWS::StackName}-").nth(1).unwrap().split('"').next().unwrap();
        assert!(docs.contains(&format!("\n### `{name}`\n")), "docs/runbook.md has no section for {name}");
        alarms += 1;
    }
    assert_eq!(alarms, 34);
}

/// The variables that a function reads beside those of all.
fn variables_of(binary: &str) -> &'static [&'static str] {
    match binary {
        "authorize" => &["JWKS_URL", "TOKEN_ISSUER", "TOKEN_AUDIENCE", "QUERY_STRING_TOKENS", "SERVICE_AUDIENCE"],
        "device" => {
            &["CONNECTIONS_ENDPOINT", "APNS_APPLICATION_ARN", "APNS_SANDBOX_APPLICATION_ARN", "FCM_APPLICATION_ARN"]
        }
        "connect" => &["CONNECTIONS_ENDPOINT", "PRESENCE"],
        "media" => {
            &["CONNECTIONS_ENDPOINT", "MEDIA_BUCKET", "MEDIA_MAX_MIB", "UPLOAD_RATE", "FAILURES_URL", "ENCRYPTION"]
        }
        "keys" => &[
            "CONNECTIONS_ENDPOINT",
            "ENCRYPTION",
            "CLAIM_RATE",
            "KEY_PACKAGE_RATE",
            "KEY_DEVICE_RATE",
            "SEND_RATE",
            "FIRST_MESSAGE_RATE",
            "COMMIT_RATE",
            "BIRTH_RATE",
        ],
        "drain" => &[
            "CONNECTIONS_ENDPOINT",
            "ENCRYPTION",
            "SEALED_REPORTS",
            "PROFILES",
            "HTTP_API",
            "SEND_HOOK_ARN",
            "EVENTS_TO",
        ],
        "inbox" => &["CONNECTIONS_ENDPOINT", "ENCRYPTION", "SEALED_REPORTS", "REPORT_DAYS", "PROFILES"],
        "notify" => &["PUSH_GRACE_SECONDS", "FAILURES_URL", "PROFILES"],
        "ingest" => &["CONNECTIONS_ENDPOINT", "DEAD_LETTERS_URL", "PROFILES"],
        "admin" => &["CONNECTIONS_ENDPOINT", "AUDIT_DAYS", "GROUP_MEMBERS_MAX", "PROFILES", "EVENTS_TO"],
        "backend" => &["CONNECTIONS_ENDPOINT", "GROUP_MEMBERS_MAX", "PROFILES"],
        "publish" => &["EVENTS_TO", "EVENTS_CONTENT"],
        "jobs" => &["CONNECTIONS_ENDPOINT", "BACKUP_DAYS", "REPORT_DAYS", "SETTLING_SECONDS", "FAILURES_URL"],
        "send" => &[
            "CONNECTIONS_ENDPOINT",
            "SEND_RATE",
            "FIRST_MESSAGE_RATE",
            "AUDIT_DAYS",
            "GROUP_MEMBERS_MAX",
            "ENCRYPTION",
            "SEALED_REPORTS",
            "SEND_HOOK_ARN",
            "SEND_HOOK_MS",
            "SEND_HOOK_FAILS",
        ],
        "group" => &[
            "CONNECTIONS_ENDPOINT",
            "SEND_RATE",
            "FIRST_MESSAGE_RATE",
            "GROUP_MEMBERS_MAX",
            "ENCRYPTION",
            "COMMIT_RATE",
            "PROFILES",
            "SEND_HOOK_ARN",
            "SEND_HOOK_MS",
            "SEND_HOOK_FAILS",
        ],
        _ => &["CONNECTIONS_ENDPOINT"],
    }
}

#[test]
fn functions_have_the_variables_that_they_read() {
    let all = [
        "CONNECTIONS_TABLE",
        "MESSAGES_TABLE",
        "IDEMPOTENCY_TABLE",
        "INBOX_TABLE",
        "DEVICES_TABLE",
        "AUDIT_TABLE",
        "CONVERSATIONS_TABLE",
        "MEMBERS_TABLE",
        "MEDIA_TABLE",
        "WATCHERS_TABLE",
        "KEYS_TABLE",
        "EPOCHS_TABLE",
        "RUST_LOG",
        "STACK_NAME",
        "LOG_KEY",
        "API_ID",
        "CONNECTIONS_PER_USER_MAX",
        "REQUEST_RATE",
    ];
    for function in template().functions.values() {
        for name in variables_of(&function.binary).iter().chain(&all) {
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

#[test]
fn who_deploys_by_hand_installs_what_the_checks_do() {
    let read = |file: &str| std::fs::read_to_string(workspace_root().join(file)).unwrap();
    for (pins, pin) in [("requirements", "aws-sam-cli=="), ("cargo-lambda", "cargo-lambda==")] {
        let pinned = read(&format!("tools/scripts/{pins}.in"));
        let pinned = pinned.lines().find(|line| line.starts_with(pin)).unwrap();
        for file in ["README.md", "docs/deploying.md"] {
            assert!(read(file).contains(pinned), "{file} does not install {pinned}");
        }
    }
}

#[test]
fn the_image_is_built_from_files_that_exist_by_the_commands_of_the_packages() {
    let root = workspace_root();
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let dockerfile = read("recipes/docker/Dockerfile");
    // A list of Python reads as the command that it is.
    let packages = read("recipes/ci/packages.yaml") + &read("tools/scripts/npm.py").replace("\", \"", " ");
    let mut commands = 0;
    for line in dockerfile.lines() {
        match line.split_once(' ') {
            Some(("COPY", files)) if !files.starts_with("--from") => {
                let source = files.split(' ').next().unwrap();
                assert!(root.join(source).is_dir(), "{line}");
            }
            Some(("RUN", command)) => {
                commands += 1;
                assert!(packages.contains(command.trim_start_matches("npm ")), "{line}");
            }
            _ => {}
        }
    }
    assert_eq!(commands, 3, "a RUN for the page's dependencies, the page and the program");
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split_once("channel = \"").unwrap().1.split('"').next().unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{version}-")), "rust-toolchain.toml selects {version}");
}

#[test]
fn every_pin_of_a_python_tool_has_its_hash() {
    let read = |file: &str| std::fs::read_to_string(workspace_root().join("tools").join(file)).unwrap();
    let pins = ["requirements", "cargo-lambda", "node", "samples", "pins"].map(|name| format!("scripts/{name}"));
    for pins in pins.into_iter().chain(["ministack/requirements".to_owned()]) {
        let resolved = read(&format!("{pins}.txt"));
        for pin in read(&format!("{pins}.in")).lines().filter(|line| !line.starts_with('#')) {
            assert!(
                resolved.contains(&format!("{pin} \\\n    --hash=sha256:")),
                "tools/{pins}.txt lacks {pin}: `just pins`"
            );
        }
    }
}

#[test]
fn every_install_goes_by_hash_and_runs_no_script_of_a_package() {
    let root = workspace_root();
    let files_of = |folder: &str| std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path());
    let scripts = files_of("tools/scripts").chain(files_of("tools/ministack"));
    let scripts = scripts.filter(|path| path.extension().is_some_and(|extension| extension == "py"));
    let others = ["justfile", ".ci/run", "CONTRIBUTING.md", "clients/web/README.md", "apps/demo/README.md"];
    for path in scripts.chain(others.map(|file| root.join(file))) {
        // A list of Python reads as the command that it is.
        let text = std::fs::read_to_string(&path).unwrap().replace("\", \"", " ");
        // A user installs our packages, which run no script.
        let text = text.replace("npm install \"$PIGEONHOLE\"", "");
        let count = |what: &str| text.matches(what).count();
        let (installs, of_lock) = (count("npm install"), count("npm install --package-lock-only"));
        assert_eq!(installs, of_lock, "{}: only npm ci installs what the lock file names", path.display());
        assert_eq!(count("npm ci"), count("npm ci --ignore-scripts"), "{}", path.display());
        assert_eq!(count("pip install"), count("--require-hashes"), "{}", path.display());
    }
}
