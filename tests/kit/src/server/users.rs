//! Alice and Bob, where the tables are shared: each test has its own.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The members of frames that hold a user's id.
const USER_MEMBERS: [&str; 6] = ["to", "user_id", "user_ids", "sender_id", "peer_id", "deleted_by"];

/// And those that hold lists of them, or of what has one.
const USER_LISTS: [&str; 7] = ["user_ids", "users", "left", "members", "added", "already", "mentions"];

/// The server's ids of the users that a test calls `alice` or `bob`.
#[derive(Clone)]
pub(crate) struct Users(Option<Arc<Issuer>>);

/// A command that makes tokens, and so decides on the ids.
struct Issuer {
    command: Vec<String>,
    /// Before each name, so that no other test, now or before, has had this user.
    prefix: String,
    /// By name.
    ids: Mutex<BTreeMap<String, String>>,
}

impl Users {
    /// The server calls them as the test does.
    pub(crate) fn plain() -> Self {
        Self(None)
    }

    /// Takes tokens from the command in `PIGEONHOLE_TOKENS`. The command gets a new name and the token's lifetime in
    /// seconds, and prints the token of a user who is new to the stack.
    pub(crate) fn issued() -> Self {
        let command = std::env::var("PIGEONHOLE_TOKENS").expect("PIGEONHOLE_TOKENS is a command that prints a token");
        let command = command.split_whitespace().map(str::to_owned).collect();
        let prefix = format!("t{}-", std::iter::repeat_with(fastrand::lowercase).take(10).collect::<String>());
        Self(Some(Arc::new(Issuer { command, prefix, ids: Mutex::default() })))
    }

    pub(crate) fn token(&self, name: &str, expires_in_s: u32) -> String {
        self.0.as_ref().expect("there is a command that makes tokens").token(name, expires_in_s)
    }

    pub(crate) fn id(&self, name: &str) -> String {
        self.0.as_ref().map_or_else(|| name.to_owned(), |issuer| issuer.id(name))
    }

    /// Makes ids of the names in a frame.
    pub(crate) fn to_ids(&self, frame: &mut Value) {
        if let Some(issuer) = &self.0 {
            // In `mentions` a star means all members, and is no user's name.
            rename(frame, &|name| if name == "*" { name.to_owned() } else { issuer.id(name) });
        }
    }

    /// Makes names of the ids in a frame.
    pub(crate) fn to_names(&self, frame: &mut Value) {
        if let Some(issuer) = &self.0 {
            let names: BTreeMap<String, String> =
                issuer.ids.lock().unwrap().iter().map(|(name, id)| (id.clone(), name.clone())).collect();
            rename(frame, &|id| names.get(id).cloned().unwrap_or_else(|| id.to_owned()));
        }
    }
}

impl Issuer {
    fn token(&self, name: &str, expires_in_s: u32) -> String {
        let (program, arguments) = self.command.split_first().expect("PIGEONHOLE_TOKENS is a command");
        let output = Command::new(program)
            .args(arguments)
            .args([&format!("{}{name}", self.prefix), &expires_in_s.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .current_dir(template::workspace_root())
            .output()
            .unwrap_or_else(|error| panic!("{program}, of PIGEONHOLE_TOKENS, cannot run: {error}"));
        assert!(output.status.success(), "the command in PIGEONHOLE_TOKENS failed for {name}");
        let token = String::from_utf8(output.stdout).expect("a token is text").trim().to_owned();
        assert!(!token.contains(char::is_whitespace), "the command in PIGEONHOLE_TOKENS prints more than a token");
        let id = subject(&token);
        self.ids.lock().unwrap().insert(name.to_owned(), id);
        token
    }

    fn id(&self, name: &str) -> String {
        let known = self.ids.lock().unwrap().get(name).cloned();
        known.unwrap_or_else(|| subject(&self.token(name, 3600)))
    }
}

/// The `sub` of a token, which is the user's id.
fn subject(token: &str) -> String {
    let claims = token.split('.').nth(1).expect("a token has three parts");
    let claims = data_encoding::BASE64URL_NOPAD.decode(claims.as_bytes()).expect("claims are Base64");
    let claims: Value = serde_json::from_slice(&claims).expect("claims are JSON");
    claims["sub"].as_str().expect("a token has a sub").to_owned()
}

fn rename(frame: &mut Value, to: &impl Fn(&str) -> String) {
    match frame {
        Value::Object(members) => members.iter_mut().for_each(|(key, value)| match value {
            Value::String(user) if USER_MEMBERS.contains(&key.as_str()) => *user = to(user),
            Value::Array(users) if USER_LISTS.contains(&key.as_str()) => {
                for user in users {
                    match user {
                        Value::String(user) => *user = to(user),
                        user => rename(user, to),
                    }
                }
            }
            value => rename(value, to),
        }),
        Value::Array(entries) => entries.iter_mut().for_each(|entry| rename(entry, to)),
        _ => {}
    }
}
