use lambda::{Clock, Error, run, service_fn};
use push::Socket;
use read::{Deps, handle};
use store::{Store, WarmTable, warm_up};
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::start_log()?;
    let sdk = lambda::sdk_config().await;
    let deps = Deps {
        store: Store::from_env(&sdk, lambda::env)?,
        socket: Socket::from_env(&sdk, lambda::env)?,
        clock: Clock::system(),
    };
    tokio::join!(warm_up(&deps.store, WarmTable::Inbox), deps.socket.warm_up());
    run(service_fn(|event| handle(&deps, event))).await
}
