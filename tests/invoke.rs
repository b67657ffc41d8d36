//! `sam local invoke` without Docker: the Lambda Runtime Interface Emulator that aws-sam-cli would start in the container runs
//! here, with the functions' real binaries under it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use template::{Template, workspace_root};
use testkit::{PATIENCE, TestServer, events_tell_one_story, programs};
use tokio::process::{Child, Command};

/// Where aws-sam-cli keeps it.
fn emulator() -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    let file = format!("site-packages/samcli/local/rapid/aws-lambda-rie-{architecture}");
    let pythons = std::fs::read_dir(workspace_root().join(".venv/lib")).into_iter().flatten();
    let mut found = pythons.map(|python| python.unwrap().path().join(&file)).filter(|path| path.exists());
    found.next().unwrap_or_else(|| panic!("`just tools` installs aws-sam-cli, which has the emulator"))
}

/// The variables of `events/env.json`, which has a container reach this machine; here it is this machine.
fn environment(server: &TestServer) -> BTreeMap<String, String> {
    let file = std::fs::read_to_string(workspace_root().join("events/env.json")).unwrap();
    let file = file.replace("http://host.docker.internal:3002", &server.local().database().endpoint());
    let file = file.replace("http://host.docker.internal:3001", &server.local().http_url());
    let file = file.replace("http://host.docker.internal:3003", &server.local().objects().endpoint());
    assert!(!file.contains("docker"), "{file}");
    let parameters = serde_json::from_str::<Value>(&file).unwrap()["Parameters"].take();
    let mut variables: BTreeMap<String, String> = serde_json::from_value(parameters).unwrap();
    // As `sam local invoke` sets them by default.
    for (name, value) in
        [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "defaultkey"), ("AWS_SECRET_ACCESS_KEY", "defaultsecret")]
    {
        variables.insert(name.to_owned(), value.to_owned());
    }
    variables
}

/// The names of the events that there are.
fn event_files() -> BTreeSet<String> {
    let files = std::fs::read_dir(workspace_root().join("events")).unwrap();
    let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| name != "env").collect()
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// What `sam local invoke FUNCTION --event events/FILE.json --env-vars events/env.json` prints.
async fn invoke(server: &TestServer, template: &Template, file: &str) -> Value {
    let event = std::fs::read_to_string(workspace_root().join(format!("events/{file}.json"))).unwrap();
    let route = serde_json::from_str::<Value>(&event).unwrap()["requestContext"]["routeKey"].clone();
    let programs = programs();
    // The authorizer is asked by a route that is another function's.
    let binary = if programs.join(file).exists() {
        file
    } else {
        &template.functions[&template.api.routes[route.as_str().unwrap()].function].binary
    };
    let address = free_address();
    let emulator = Command::new(emulator())
        .args(["--runtime-interface-emulator-address", &address, "--runtime-api-address", &free_address()])
        .arg(programs.join(binary))
        .env_clear()
        .envs(environment(server))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = format!("http://{address}/2015-03-31/functions/function/invocations");
    let answer = tokio::time::timeout(PATIENCE, async {
        loop {
            match server.http.post(&url).body(event.clone()).send().await {
                Ok(answer) => return answer.json().await.unwrap(),
                Err(error) => assert!(error.is_connect(), "{error}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    let answer = answer.await.unwrap_or_else(|_| panic!("{binary} does not answer {file}"));
    stop(emulator).await;
    answer
}

/// Has it end by itself, and with it the function that it started.
async fn stop(mut emulator: Child) {
    Command::new("kill").arg(emulator.id().unwrap().to_string()).status().await.unwrap();
    emulator.wait().await.unwrap();
}

#[tokio::test]
#[ignore = "wants the emulator from aws-sam-cli, which `just tools` installs; `just invoke-check` runs it"]
async fn each_event_is_answered_under_lambdas_own_runtime() {
    let server = TestServer::with(TestServer::publishing).await;
    let template = Template::of_workspace().unwrap();
    let left = RefCell::new(event_files());
    events_tell_one_story(async |file| {
        left.borrow_mut().remove(file);
        invoke(&server, &template, file).await
    })
    .await;

    assert_eq!(
        left.into_inner(),
        ["admin", "authorize", "authorize_http", "backend", "fanout", "http", "ingest", "jobs", "notify", "publish"]
            .map(str::to_owned)
            .into()
    );
    let connections = invoke(&server, &template, "admin").await;
    assert!(connections["result"]["connections"].is_array(), "{connections}");
    for batch in ["fanout", "ingest", "jobs", "notify", "publish"] {
        assert_eq!(invoke(&server, &template, batch).await, json!({"batchItemFailures": []}), "{batch}");
    }
    // Its token's signature is made up.
    let refused = invoke(&server, &template, "authorize").await;
    assert_eq!(refused["policyDocument"]["Statement"][0]["Effect"], "Deny", "{refused}");
    assert_eq!(refused["principalId"], "anonymous");
    assert_eq!(refused["context"], json!({}));
}
