//! Answers every message with the same words. Beside a local server (`cargo run`):
//!
//! ```sh
//! cargo run -p pigeonhole-client --example echo_bot -- bot
//! cargo run --example chat -- alice bot
//! ```

use std::error::Error;

use pigeonhole_client::{Client, Config, Event, Kind, State, Target, TokenError, UserId};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let me = UserId::parse(&std::env::args().nth(1).unwrap_or_else(|| "bot".to_owned()))?;
    let user = me.to_string();
    let config = Config::new("ws://127.0.0.1:3001/v1", me.as_str(), move |_need| local_token(user.clone()));
    let (client, mut events) = Client::connect(config).await?;

    // The client acknowledges a message when the bot requests the next event. If the bot crashes before it has replied,
    // the message comes again.
    while let Some(event) = events.next().await {
        match event {
            Event::Message { message, .. } if message.sender_id != me && message.kind == Kind::Text => {
                println!("{}: {}", message.sender_id, message.body);
                client.send(Target::Conversation(message.conversation_id.clone()), message.body).await?;
                client.read(&message.conversation_id, message.seq);
            }
            Event::State(State::CaughtUp) => println!("{me} listens; Ctrl-C ends it"),
            Event::State(State::Offline { why, .. }) => println!("offline: {why}"),
            _ => {}
        }
    }
    Ok(())
}

/// Requests a token from the local server, which gives one to any caller. An app calls its own backend instead.
async fn local_token(user: String) -> Result<String, TokenError> {
    #[derive(serde::Deserialize)]
    struct Given {
        token: String,
    }
    let http = reqwest::Client::builder().no_proxy().build()?;
    let given = http.get("http://127.0.0.1:3001/token").query(&[("user", user)]).send().await?.error_for_status()?;
    Ok(given.json::<Given>().await?.token)
}
