use authorize::{Deps, handle};
use lambda::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda::start_log()?;
    let deps = Deps::from_env(lambda::env)?;
    deps.warm_up().await;
    run(service_fn(|event| handle(&deps, event))).await
}
