//! A function with a wrong environment does not start, and says in one line what is wrong.

use std::collections::BTreeMap;
use std::process::Command;

use template::Function;
// With phones to ring: without, there are fewer functions.
use testkit::stream::whole_template as template;

/// The template's variables for the function, with good values for the parameters that have no default.
fn environment(function: &Function) -> BTreeMap<String, String> {
    let mut environment = function.environment.clone();
    for (name, value) in [
        ("JWKS_URL", "https://login.example.com/keys"),
        ("TOKEN_ISSUER", "https://login.example.com"),
        ("TOKEN_AUDIENCE", "pigeonhole"),
        ("LOG_KEY", "0123456789abcdef"),
    ] {
        environment.insert(name.to_owned(), value.to_owned());
    }
    environment
}

/// Returns the function's output when it ends instead of starting.
fn last_words(function: &Function, environment: &BTreeMap<String, String>) -> String {
    let started = Command::new(testkit::programs().join(&function.binary))
        .env_clear()
        .envs(environment)
        .envs([("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "-"), ("AWS_SECRET_ACCESS_KEY", "-")])
        .output()
        .unwrap();
    assert!(!started.status.success(), "{} starts with {environment:?}", function.binary);
    String::from_utf8(started.stderr).unwrap()
}

const OF_JOBS: [&str; 7] = [
    "API_ID",
    "CONNECTIONS_ENDPOINT",
    "CONNECTIONS_PER_USER_MAX",
    "FAILURES_URL",
    "SETTLING_SECONDS",
    "BACKUP_DAYS",
    "REPORT_DAYS",
];

#[test]
fn without_a_variable_that_it_needs() {
    let tables =
        ["CONNECTIONS_TABLE", "MESSAGES_TABLE", "IDEMPOTENCY_TABLE", "INBOX_TABLE", "DEVICES_TABLE", "AUDIT_TABLE"];
    let tables =
        [&tables[..], &["CONVERSATIONS_TABLE", "MEMBERS_TABLE", "WATCHERS_TABLE", "KEYS_TABLE", "EPOCHS_TABLE"]]
            .concat();
    for function in template().functions.values() {
        let needed = match function.binary.as_str() {
            "authorize" => vec!["JWKS_URL", "TOKEN_ISSUER", "TOKEN_AUDIENCE", "QUERY_STRING_TOKENS"],
            "admin" | "backend" | "fanout" => {
                [&tables[..], &["API_ID", "CONNECTIONS_ENDPOINT", "CONNECTIONS_PER_USER_MAX"]].concat()
            }
            "notify" => {
                let own = ["API_ID", "PUSH_GRACE_SECONDS", "FAILURES_URL", "CONNECTIONS_PER_USER_MAX", "PROFILES"];
                [&tables[..], &own].concat()
            }
            "jobs" => [&tables[..], &OF_JOBS].concat(),
            "publish" => {
                let own = ["API_ID", "CONNECTIONS_PER_USER_MAX", "EVENTS_TO", "EVENTS_CONTENT"];
                [&tables[..], &own, &["AWS_ENDPOINT_URL_SQS"]].concat()
            }
            "connect" => {
                let own = ["CONNECTIONS_ENDPOINT", "CONNECTIONS_PER_USER_MAX", "REQUEST_RATE", "PRESENCE"];
                [&tables[..], &["API_ID"], &own].concat()
            }
            binary @ ("send" | "group") => {
                let limits = ["CONNECTIONS_PER_USER_MAX", "REQUEST_RATE", "SEND_RATE", "FIRST_MESSAGE_RATE"];
                let own: &[&str] = if binary == "send" {
                    &["GROUP_MEMBERS_MAX", "AUDIT_DAYS", "ENCRYPTION"]
                } else {
                    &["GROUP_MEMBERS_MAX", "PROFILES"]
                };
                [&tables[..], &["API_ID", "CONNECTIONS_ENDPOINT"], &limits, own].concat()
            }
            "ingest" => {
                let own =
                    ["API_ID", "CONNECTIONS_ENDPOINT", "CONNECTIONS_PER_USER_MAX", "DEAD_LETTERS_URL", "PROFILES"];
                [&tables[..], &own].concat()
            }
            binary => {
                let own = ["API_ID", "CONNECTIONS_ENDPOINT", "CONNECTIONS_PER_USER_MAX", "REQUEST_RATE"];
                let more: &[&str] = match binary {
                    "media" => &["MEDIA_BUCKET", "MEDIA_MAX_MIB", "UPLOAD_RATE", "FAILURES_URL", "ENCRYPTION"],
                    "keys" => &[
                        "ENCRYPTION",
                        "CLAIM_RATE",
                        "KEY_PACKAGE_RATE",
                        "KEY_DEVICE_RATE",
                        "SEND_RATE",
                        "FIRST_MESSAGE_RATE",
                        "COMMIT_RATE",
                        "BIRTH_RATE",
                    ],
                    "drain" => &["ENCRYPTION", "HTTP_API", "PROFILES"],
                    "inbox" => &["ENCRYPTION", "SEALED_REPORTS", "REPORT_DAYS", "PROFILES"],
                    _ => &[],
                };
                [&tables[..], &own, more].concat()
            }
        };
        for name in needed.into_iter().chain(["STACK_NAME", "LOG_KEY"]) {
            for value in [None, Some("")] {
                let mut environment = environment(function);
                environment.remove(name);
                environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
                let wanted = format!("Error: the environment variable {name} is not set; template.yaml sets it\n");
                assert_eq!(last_words(function, &environment), wanted, "{}", function.binary);
            }
        }
    }
}

#[test]
fn with_a_variable_that_makes_no_sense() {
    let template = template();
    for (function, name, value) in [
        ("AuthorizeFunction", "JWKS_URL", "login.example.com"),
        ("AuthorizeFunction", "JWKS_URL", "ftp://login.example.com/keys"),
        ("AuthorizeFunction", "QUERY_STRING_TOKENS", "yes"),
        ("AuthorizeFunction", "SERVICE_AUDIENCE", "pigeonhole"),
        ("SendFunction", "RUST_LOG", "send=loud"),
        ("SendFunction", "SEND_RATE", "5/s"),
        ("SendFunction", "FIRST_MESSAGE_RATE", "0+1/1s"),
        ("SendFunction", "AUDIT_DAYS", "a month"),
        ("MediaFunction", "MEDIA_MAX_MIB", "plenty"),
        ("MediaFunction", "UPLOAD_RATE", "5/s"),
        ("ReadFunction", "REQUEST_RATE", "fast"),
        ("ConnectFunction", "CONNECTIONS_PER_USER_MAX", "many"),
        ("ConnectFunction", "PRESENCE", "yes"),
        ("KeysFunction", "ENCRYPTION", "on"),
        ("KeysFunction", "CLAIM_RATE", "2/m"),
        ("NotifyFunction", "PUSH_GRACE_SECONDS", "soon"),
        ("PublishFunction", "EVENTS_TO", "arn:aws:sns:us-east-1:000000000000:topic"),
        ("PublishFunction", "EVENTS_CONTENT", "some"),
        ("JobsFunction", "SETTLING_SECONDS", "soon"),
    ] {
        let function = &template.functions[function];
        let mut environment = environment(function);
        environment.insert(name.to_owned(), value.to_owned());
        let said = last_words(function, &environment);
        assert!(said.starts_with(&format!("Error: the environment variable {name} ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
