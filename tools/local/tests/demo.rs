//! The demo's page, which is built beside the server and not by it.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::path::{Path, PathBuf};

use local::{Options, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn the_demo_is_served_as_soon_as_it_is_built_and_nothing_beside_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(uuid::Uuid::new_v4().to_string());
    let demo = folder.join("dist");
    let server = Server::start(Options {
        port: 0,
        template: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/template.yaml"),
        demo: demo.clone(),
        docs: folder.join("docs"),
        program: PathBuf::from("never invoked"),
        ..Options::default()
    });
    let server = server.await.unwrap();
    let get = async |path: &str| ask(&server, &format!("GET {path} HTTP/1.1")).await;

    let how_to_build = get("/").await;
    assert!(how_to_build.starts_with("HTTP/1.1 200") && how_to_build.contains("just demo"), "{how_to_build}");
    assert!(how_to_build.contains("content-security-policy: frame-ancestors 'none'"), "{how_to_build}");

    std::fs::create_dir_all(demo.join("assets")).unwrap();
    std::fs::write(demo.join("index.html"), "the page").unwrap();
    std::fs::write(demo.join("assets/main.js"), "the script").unwrap();
    std::fs::write(folder.join("secret"), "the secret").unwrap();
    let files = [
        ("/", "text/html", "the page"),
        ("/?user=alice", "text/html", "the page"),
        ("/assets/main.js", "text/javascript", "the script"),
    ];
    for (path, content_type, content) in files {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(content), "{answer}");
        assert!(answer.contains(&format!("content-type: {content_type}")), "{answer}");
        // Else a browser might go on with the page that was there before.
        let kept = if path.starts_with("/assets/") { "max-age=31536000, immutable" } else { "no-cache" };
        assert!(answer.contains(&format!("cache-control: {kept}\r\n")), "{answer}");
        assert!(answer.contains("content-security-policy: frame-ancestors 'none'"), "{answer}");
    }
    for path in
        ["/../secret", "/assets/../../secret", "/%2e%2e/secret", "/..%2fsecret", "//../secret", "/assets", "/v2"]
    {
        let answer = get(path).await;
        assert!(!answer.starts_with("HTTP/1.1 200") && !answer.contains("the secret"), "{path}: {answer}");
    }
    let unbuilt = get("/docs/").await;
    assert!(unbuilt.starts_with("HTTP/1.1 404") && unbuilt.contains("just docs"), "{unbuilt}");
    std::fs::create_dir_all(folder.join("docs")).unwrap();
    std::fs::write(folder.join("docs/index.html"), "the documentation").unwrap();
    let docs = get("/docs/").await;
    assert!(docs.starts_with("HTTP/1.1 200") && docs.ends_with("the documentation"), "{docs}");
    let elsewhere = ask(&server, "POST /v2/@connections/abc HTTP/1.1").await;
    assert!(elsewhere.starts_with("HTTP/1.1 403") && elsewhere.ends_with(r#"{"message":"Forbidden"}"#), "{elsewhere}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// One request, as it is: clients made for more take `..` out of paths.
async fn ask(server: &Server, request_line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let request = format!("{request_line}\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
