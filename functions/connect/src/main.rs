use connect::{Deps, handle};
use lambda::{Clock, Error, run, service_fn};
use store::{Store, WarmTable, warm_up};
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::start_log()?;
    let sdk = lambda::sdk_config().await;
    let deps = Deps { store: Store::from_env(&sdk, lambda::env)?, clock: Clock::system() };
    warm_up(&deps.store, WarmTable::Connections).await;
    run(service_fn(|event| handle(&deps, event))).await
}
