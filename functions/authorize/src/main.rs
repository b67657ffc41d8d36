#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda::Error> {
    lambda::serve(authorize::Deps::start, authorize::handle).await
}
