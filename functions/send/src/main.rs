use deliver::Phones;
use lambda::{Clock, Error, run, service_fn};
use push::Socket;
use send::{Deps, handle};
use store::{Store, WarmTable, warm_up};
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::start_log()?;
    let sdk = lambda::sdk_config().await;
    let store = Store::from_env(&sdk, lambda::env)?;
    let phones = Phones::new(store.clone(), Socket::from_env(&sdk, lambda::env)?);
    let deps = Deps { store, phones, clock: Clock::system() };
    tokio::join!(warm_up(&deps.store, WarmTable::Inbox), deps.phones.warm_up());
    run(service_fn(|event| handle(&deps, event))).await
}
