//! What each operation costs is pinned, and what a frame waits for: a change that costs more must show it.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[tokio::test(start_paused = true)]
async fn each_operation_costs_what_the_documentation_says() {
    let documented = bench::report::section("units").unwrap();
    let counted = bench::units::table().await;
    assert_eq!(counted, documented, "`cargo run --bin bench -- --only units` writes what is counted now");
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_for_as_many_calls_as_the_documentation_says() {
    let documented = bench::report::section("in-a-row").unwrap();
    let counted = bench::path::in_a_row().await;
    assert_eq!(counted, documented, "`cargo run --bin bench -- --only path` writes what is counted now");
}

#[tokio::test(start_paused = true)]
async fn a_message_in_a_group_costs_what_the_table_says() {
    let documented = bench::report::section("groups-costs").unwrap();
    let counted = bench::groups::costs().await;
    assert!(counted == documented, "run `just bench --only groups`; counted:\n{counted}");
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_service_costs_what_the_table_says() {
    let documented = bench::report::section("ingest-costs").unwrap();
    let counted = bench::ingest::costs().await;
    assert!(counted == documented, "run `just bench --only ingest`; counted:\n{counted}");
}
