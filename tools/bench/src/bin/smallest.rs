//! The smallest Lambda function in Rust, to compare the others with.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(service_fn(|event: LambdaEvent<Value>| async move { Ok::<_, Error>(event.payload) })).await
}
