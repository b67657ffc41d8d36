//! An issuer of tokens, as a command: for deployments without another one, and for trying them out.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use local::Tokens;

/// Signs tokens with a key of your own.
#[derive(Parser)]
#[command(name = "issuer", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// The file with the private key, which is made if it is not there. Keep it secret: it can sign tokens for any user
    #[arg(long, global = true, value_name = "FILE", default_value = "issuer.key")]
    key: PathBuf,

    /// The issuer of the tokens, their `iss`: the parameter `TokenIssuer`
    #[arg(long, global = true, value_name = "NAME", default_value = "pigeonhole")]
    issuer: String,

    /// The audience of the tokens, their `aud`: the parameter `TokenAudience`
    #[arg(long, global = true, value_name = "NAME", default_value = "pigeonhole")]
    audience: String,
}

#[derive(Subcommand)]
enum Command {
    /// Print the public key as a key set, to be served at the parameter `JwksUrl`
    Keys,
    /// Print a token
    Token {
        /// The token's user, its `sub`
        user: String,
        /// How long it is good for
        #[arg(default_value_t = 3600)]
        seconds: u32,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(printed) => {
            println!("{printed}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("issuer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { command, key, issuer, audience }: Arguments) -> anyhow::Result<String> {
    let tokens = Tokens::with_key_file(&key, issuer, audience)?;
    match command {
        Command::Keys => Ok(tokens.jwks().to_string()),
        Command::Token { user, seconds } => tokens.issue(&user, seconds),
    }
}
