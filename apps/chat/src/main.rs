//! A terminal chat over Pigeonhole: `cargo run --bin chat -- alice bob`.
//!
//! `pigeonhole_client` does the work. `connection` talks to it, `room` picks what belongs to the conversation on the screen,
//! `ui` and `lines` show that.

mod command;
mod connection;
mod editor;
mod group;
mod lines;
mod media;
mod room;
mod text;
mod transcript;
mod ui;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use data_encoding::BASE64URL_NOPAD;
use pigeonhole_client::{InvalidId, UserId};
use reqwest::Url;
use time::UtcOffset;

use crate::command::COMMANDS;
use crate::connection::{Endpoint, Talk, Token};
use crate::room::With;
use crate::transcript::Transcript;

/// Chat with somebody, in this terminal.
///
/// Shows what you missed, what arrives, and what became of your own messages:
/// … waiting, ✓ stored, ✓✓ delivered, and ✓✓ in blue once read. Each has its number, such as #7.
/// When the connection breaks it comes back by itself, and nothing is lost or sent twice.
#[derive(Parser)]
#[command(name = "chat", verbatim_doc_comment, after_help = after_help())]
struct Args {
    /// Who you are
    #[arg(value_parser = user_id)]
    me: UserId,
    /// Whom you write to, or the id of a group or a channel
    #[arg(value_parser = With::parse)]
    peer: With,
    /// The WebSocket API
    #[arg(long, default_value = "ws://127.0.0.1:3001/v1")]
    url: Url,
    /// Your bearer token, a JWT; the local server gives one to anybody, so there it is not needed
    #[arg(long, env = "PIGEONHOLE_TOKEN", hide_env_values = true, value_name = "JWT")]
    token: Option<String>,
}

const KEYS: &str = "\
Keys:
  Enter            send
  Enter alone      try to connect now
  Page up, down    look back, also to what is older than what was loaded
  Esc, Ctrl-C      leave";

const EXAMPLES: &str = "\
Examples:
  Two terminals, beside a local server (`cargo run`):
    cargo run --bin chat -- alice bob
    cargo run --bin chat -- bob alice
  Against a deployed stack:
    PIGEONHOLE_TOKEN=… cargo run --bin chat -- alice bob --url wss://….amazonaws.com/v1
  In a script, where each line of standard input is a message, none a command, and each event is a line:
    echo 'good morning' | cargo run -q --bin chat -- alice bob";

fn after_help() -> String {
    format!("{KEYS}\n\n{COMMANDS}\n\n{EXAMPLES}")
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Where not even this can be written there is nobody to tell.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chat: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> Result<()> {
    // Only a process with a single thread can be asked safely, so before the runtime starts any.
    let offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(chat(args, offset));
    // A read of standard input can't be interrupted; it ends with the process.
    runtime.shutdown_background();
    ended
}

async fn chat(Args { me, peer, url, token }: Args, offset: UtcOffset) -> Result<()> {
    let token = match token {
        Some(token) => {
            check_subject(&token, &me)?;
            Token::Given(token)
        }
        None => Token::FetchedFrom(local_token_url(&url, &me)?),
    };
    let endpoint = Endpoint { url, user_id: me.clone(), token };
    let mut talk = Talk::start(endpoint, peer).await?;
    let ended = if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        ui::run(Transcript::new(me, talk.room.name(), offset), &mut talk).await
    } else {
        lines::run(&me, &mut talk).await
    };
    let unanswered = talk.room.unanswered();
    talk.leave().await;
    ended?;
    if unanswered > 0 {
        bail!("left with {unanswered} of your messages unanswered: write again what the others don't have");
    }
    Ok(())
}

fn user_id(text: &str) -> Result<UserId, InvalidId> {
    UserId::parse(text)
}

/// Who the user is stands in the token, whatever the command line says. The server checks the token; this only spares
/// a mix-up. A token that can't be read here is the server's to judge.
fn check_subject(token: &str, me: &UserId) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Claims {
        sub: String,
    }
    let claims = token.split('.').nth(1).and_then(|part| BASE64URL_NOPAD.decode(part.as_bytes()).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Claims>(&claims).ok());
    match claims {
        Some(Claims { sub }) if *me != *sub => {
            bail!("the token belongs to {}, not to {me}", text::sanitise(&sub))
        }
        _ => Ok(()),
    }
}

fn local_token_url(server: &Url, me: &UserId) -> Result<Url> {
    let local = matches!(server.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    if !local || server.scheme() != "ws" {
        bail!("{server} needs a token: --token JWT, or PIGEONHOLE_TOKEN in the environment");
    }
    let port = server.port_or_known_default().unwrap_or(80);
    let host = server.host_str().unwrap_or("127.0.0.1");
    Url::parse_with_params(&format!("http://{host}:{port}/token"), [("user", me.as_str())]).context("the server's URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_are_checked_where_they_are_given() {
        assert!(user_id("auth0|5f7c").is_ok());
        assert!(user_id(&"a".repeat(128)).is_ok());
        for bad in ["", "a b", "é", "a\n", &"a".repeat(129)] {
            assert!(user_id(bad).is_err(), "{bad:?}");
        }
        let error = Args::try_parse_from(["chat", "alice", "b b"]).err().unwrap().to_string();
        assert!(error.contains("<PEER>") && error.contains("128"), "{error}");
    }

    #[test]
    fn somebody_elses_token_is_noticed() {
        let token = format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(br#"{"sub":"carol","exp":1}"#));
        let (alice, carol) = (user_id("alice").unwrap(), user_id("carol").unwrap());
        assert!(check_subject(&token, &alice).unwrap_err().to_string().contains("carol"));
        assert!(check_subject(&token, &carol).is_ok());
        assert!(check_subject("opaque", &alice).is_ok());
    }

    #[test]
    fn only_a_local_server_gives_tokens() {
        let url = |text| Url::parse(text).unwrap();
        assert_eq!(
            local_token_url(&url("ws://127.0.0.1:3001/v1"), &user_id("a&b").unwrap()).unwrap().as_str(),
            "http://127.0.0.1:3001/token?user=a%26b"
        );
        assert!(
            local_token_url(&url("wss://x.execute-api.eu-west-1.amazonaws.com/v1"), &user_id("alice").unwrap())
                .is_err()
        );
    }
}
