//! Compares what each operation costs with the recorded tables: a change that costs more must update them.
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

#[tokio::test(start_paused = true)]
async fn each_operation_costs_what_the_documentation_says() {
    let documented = bench::report::recorded("units").unwrap();
    let counted = bench::report::form("units", &bench::units::table().await);
    assert_eq!(counted, documented, "`cargo run --bin bench -- --only units` writes what is counted now");
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_for_as_many_calls_as_the_documentation_says() {
    let documented = bench::report::recorded("in-a-row").unwrap();
    let counted = bench::report::form("in-a-row", &bench::path::in_a_row().await);
    assert_eq!(counted, documented, "`cargo run --bin bench -- --only path` writes what is counted now");
}

#[tokio::test(start_paused = true)]
async fn a_message_in_a_group_costs_what_the_table_says() {
    let documented = bench::report::recorded("groups-costs").unwrap();
    let counted = bench::report::form("groups-costs", &bench::groups::costs().await);
    assert!(counted == documented, "run `just bench --only groups`; counted:\n{counted}");
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_service_costs_what_the_table_says() {
    let documented = bench::report::recorded("ingest-costs").unwrap();
    let counted = bench::report::form("ingest-costs", &bench::ingest::costs().await);
    assert!(counted == documented, "run `just bench --only ingest`; counted:\n{counted}");
}
