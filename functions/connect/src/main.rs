#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda::Error> {
    lambda::serve(connect::Deps::start, connect::handle).await
}
