//! Reports of users.

use domain::{Failure, is_month};
use serde_json::{Value, json};
use store::Written;
use store::reports;
use wire::{Refusal, ReportId, Timestamp};

use crate::Deps;

/// Maximum of characters of an outcome.
const OUTCOME_CHARS_MAX: usize = 200;

/// Returns the open reports of a month, in no order.
pub(crate) async fn list(deps: &Deps, month: &str, behind: Option<&ReportId>) -> Result<Value, Failure> {
    check_month(month)?;
    let page = reports::list(&deps.actions.store, month, behind).await?;
    Ok(json!({ "reports": page.reports, "next_cursor": page.next }))
}

pub(crate) async fn close(
    deps: &Deps,
    month: &str,
    report: &ReportId,
    outcome: &str,
    now: Timestamp,
) -> Result<Value, Failure> {
    check_month(month)?;
    if !(1..=OUTCOME_CHARS_MAX).contains(&outcome.chars().count()) {
        let problem = format!("must have 1 to {OUTCOME_CHARS_MAX} characters");
        return Err(Refusal::bad_request("outcome", problem).into());
    }
    match reports::close(&deps.actions.store, month, report, outcome, now).await? {
        Written::Done => Ok(json!({})),
        Written::Lost => Err(Refusal::Gone.into()),
    }
}

fn check_month(month: &str) -> Result<(), Refusal> {
    if is_month(month) { Ok(()) } else { Err(Refusal::bad_request("month", "must be a month such as 2026-11")) }
}
