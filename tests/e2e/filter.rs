//! The team's own filter: the example of the documentation, asked by the functions as Lambda's users ask a function.

use std::process::Stdio;

use serde_json::json;
use template::workspace_root;
use testkit::TestServer;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The example, until it is dropped.
pub(crate) struct Filter {
    program: Child,
    pub(crate) url: String,
}

impl Filter {
    /// Port 0: any that is free.
    pub(crate) async fn start(port: u16) -> Self {
        let mut program = Command::new("node")
            .args(["docs/examples/filter.mjs", &port.to_string()])
            .current_dir(workspace_root())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("it says where it listens");
        Self { program, url }
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().parse().unwrap()
    }

    pub(crate) async fn stop(mut self) {
        self.program.kill().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "wants Node, which `just tools` installs"]
async fn the_example_refuses_rewrites_and_allows() {
    let filter = Filter::start(0).await;
    let server = TestServer::with(|options| options.send_hook = Some(filter.url.clone())).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let said = |key: &str, body: &str| json!({"action": "send", "to": "bob", "client_msg_id": key, "kind": "text", "body": body});

    let refused = alice.ask(said("m1", "come to our casino")).await;
    assert_eq!(refused["error"]["code"], "rejected");
    assert_eq!(refused["error"]["reason"], "This word is not allowed here.");
    let hidden = alice.ask(said("m2", "call +49 89 1234567")).await;
    assert_eq!(hidden["result"]["message"]["body"], "call •••");
    let allowed = alice.ask(said("m3", "see you at 7")).await;
    assert_eq!((&allowed["result"]["seq"], allowed["result"].get("message")), (&json!(2), None));
    for body in ["call •••", "see you at 7"] {
        assert_eq!(bob.event("messages.new").await["messages"][0]["body"], body);
    }

    let features = alice.ok(json!({"action": "ping", "features": true})).await;
    assert!(features["features"].as_array().unwrap().contains(&json!("hook")), "{features}");
    let logged = server.http.get(format!("{}/local/log", server.local().http_url())).send().await.unwrap();
    let logged = logged.text().await.unwrap();
    assert!(!logged.contains("casino") && !logged.contains("1234567"), "a text is in the log");
}
