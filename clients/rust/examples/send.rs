//! Sends one message, and waits until it is stored. Beside a local server (`cargo run`):
//!
//! ```sh
//! cargo run -p pigeonhole-client --example send -- alice bob "good morning"
//! ```

use std::error::Error;

use pigeonhole_client::{Client, Config, TokenError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(me), Some(to), Some(body)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: send ME TO BODY".into());
    };
    let user = me.clone();
    let config = Config::new("ws://127.0.0.1:3001/v1", me, move |_need| local_token(user.clone()));
    let (client, _events) = Client::connect(config).await?;

    let sent = client.send_to(to, body).await?;
    let stored = sent.stored().await?;
    println!("stored as number {} of {} at {}", stored.seq, stored.conversation_id, stored.sent_at);
    client.close().await;
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
