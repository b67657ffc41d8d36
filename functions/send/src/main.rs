#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda::Error> {
    lambda::serve(send::Deps::start, send::handle).await
}
