#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda::Error> {
    lambda::serve(read::Deps::start, read::handle).await
}
