#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda::Error> {
    lambda::serve(admin::Deps::start, admin::handle).await
}
