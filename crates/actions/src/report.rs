//! A user's report to the operator.

use domain::REPORTS;
use domain::{Entry, Failure, Sight, reported};
use futures_util::future::try_join_all;
use store::{Written, messages, reports};
use wire::{ConversationId, Refusal, Report, ReportRequest, ReportResult, Seq, UserId, report_id};

use crate::Actions;
use crate::access::{Access, own, visible};
use crate::retry::{Attempt, retry};
use crate::sends::take;

/// Stores what the user reports, with copies of the entries. A repetition finds the first one, and is not counted.
pub(crate) async fn report(actions: &Actions, user: &UserId, request: ReportRequest) -> Result<ReportResult, Failure> {
    let Actions { store, limits, .. } = actions;
    let has_proofs = limits.encryption.is_on() && limits.sealed_reports;
    if !has_proofs && !request.opened.is_empty() {
        let problem = "must be left out: this server has no encryption.report";
        return Err(Refusal::bad_request("opened", problem).into());
    }
    let (at, report_id) = (actions.now(), report_id(user, &request));
    let seen = match &request.conversation_id {
        Some(conversation) => Some((conversation, visible(store, user, conversation).await?)),
        None => None,
    };
    if reports::exists(store, &report_id, at).await? {
        return Ok(ReportResult { report_id });
    }
    let mut messages = vec![];
    if let Some((conversation, sight)) = seen {
        let (entries, sight) = entries(actions, user, conversation, sight, &request.seqs).await?;
        if let Some(about) = &request.user_id {
            check_concerned(actions, about, conversation, &entries).await?;
        }
        messages = reported(&entries, &sight, &request.opened)?;
    }
    count(actions, user).await?;
    let ReportRequest { conversation_id, seqs, user_id, reason, note, claimed, opened: _ } = request;
    let reporter_id = user.clone();
    let report = Report { report_id, at, reporter_id, conversation_id, seqs, user_id, reason, note, claimed, messages };
    reports::put(store, &report, at.plus(limits.reports_kept_for)).await?;
    Ok(ReportResult { report_id: report.report_id })
}

/// Reads the entries, and what the user sees of them.
///
/// # Errors
/// `gone` for one that the user does not see.
async fn entries(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    sight: Sight,
    seqs: &[Seq],
) -> Result<(Vec<Entry>, Sight), Failure> {
    if seqs.iter().any(|seq| !sight.contains(*seq)) {
        return Err(Refusal::Gone.into());
    }
    let read = seqs.iter().map(async |seq| {
        let entry = messages::get(&actions.store, conversation, *seq).await?;
        entry.ok_or(store::Error::Missing { seq: *seq })
    });
    let entries = try_join_all(read).await?;
    let read: Vec<_> = entries.iter().collect();
    let sight = actions.seen_again(user, conversation, sight, &read).await?;
    Ok((entries, sight))
}

/// Refuses a user who neither is in the conversation nor wrote one of the entries.
async fn check_concerned(
    actions: &Actions,
    about: &UserId,
    conversation: &ConversationId,
    entries: &[Entry],
) -> Result<(), Failure> {
    if entries.iter().any(|entry| entry.sender_id == *about) {
        return Ok(());
    }
    let is_there = match own(&actions.store, about, conversation).await? {
        // A service has no row.
        Access::Direct(standing) => about.is_service() || standing.membership.is_some(),
        Access::Group(row) => row.is_some_and(|row| row.is_member()),
        Access::Channel(row) => row.is_some(),
    };
    if is_there { Ok(()) } else { Err(Refusal::Gone.into()) }
}

/// Counts the report in a row of its own, exactly: an operator must look at each.
async fn count(actions: &Actions, user: &UserId) -> Result<(), Failure> {
    let store = &actions.store;
    retry(&mut 0, async || {
        let was_until = reports::filled_until(store, user).await?;
        let Some(until) = take(&REPORTS, was_until, actions.now())? else { return Ok(Attempt::Done(())) };
        match reports::count(store, user, was_until, until).await? {
            Written::Done => Ok(Attempt::Done(())),
            Written::Lost => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
