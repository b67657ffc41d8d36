//! Groups whose members were left behind, brought to where their logs end.

use std::time::Duration;

use actions::{LogSoFar, Reconciled};
use domain::{Failure, Head, error_chain};
use lambda::EventLine;
use serde_json::{Value, json};
use store::heads;
use wire::{ConversationId, ConversationKind, Timestamp};

use crate::Deps;

/// Groups that one look finds.
const GROUPS_AT_ONCE: usize = 100;
/// A request for all groups returns its progress after this time, and after the group that it then repairs.
const BUDGET: Duration = Duration::from_secs(20);

/// Repairs one group and its member list. For that it reads all of the log, from where the reply before ended.
pub(crate) async fn one(
    deps: &Deps,
    conversation: &ConversationId,
    log: Option<LogSoFar>,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    line.conversation_id = Some(conversation.clone());
    let done = deps.actions.repair(conversation, log.unwrap_or_default()).await?;
    let unreadable = done.unreadable + done.members.unreadable;
    line.unreadable(unreadable);
    line.frames(done.members.delivered.iter().map(|to| to.frames));
    let Reconciled { moved, left_behind, failed, .. } = done.members;
    line.left_behind(left_behind);
    match failed {
        Some(failure) => Err(failure),
        None => Ok(json!({
            "roster": done.roster, "moved": moved, "unreadable": unreadable, "left_behind": left_behind, "next": done.next,
        })),
    }
}

/// Updates the next groups with entries since then, behind that one. A failure does not affect the others. A channel
/// has no rows that could be behind.
pub(crate) async fn all(
    deps: &Deps,
    since: Option<Timestamp>,
    mut behind: Option<String>,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    let began = deps.actions.clock.now();
    let (mut groups, mut moved, mut unreadable, mut failed, mut frames) = (0_u64, 0, 0, vec![], vec![]);
    'pages: loop {
        let page = heads::page(&deps.actions.store, GROUPS_AT_ONCE, behind.as_deref()).await?;
        unreadable += page.unreadable;
        let is_meant = |head: &&Head| {
            let has_rows = match head.conversation_id.kind() {
                ConversationKind::Group => true,
                ConversationKind::Direct | ConversationKind::Channel => false,
            };
            has_rows && since.is_none_or(|since| head.end.sent_at >= since)
        };
        for head in page.heads.iter().filter(is_meant) {
            let group = &head.conversation_id;
            groups += 1;
            let done = deps.actions.reconcile(group).await;
            let done = done.unwrap_or_else(|failure| Reconciled { failed: Some(failure), ..Reconciled::default() });
            moved += done.moved;
            unreadable += done.unreadable;
            frames.extend(done.delivered.iter().map(|to| to.frames));
            line.left_behind(done.left_behind);
            if let Some(failure) = &done.failed {
                tracing::warn!(error = error_chain(failure), "a group was not repaired");
            }
            if done.failed.is_some() || done.left_behind > 0 {
                failed.push(group.clone());
            }
            if deps.actions.clock.now().since(began) >= BUDGET {
                behind = Some(group.to_string());
                break 'pages;
            }
        }
        behind = page.next;
        // Also where nothing on a page is meant.
        if behind.is_none() || deps.actions.clock.now().since(began) >= BUDGET {
            break;
        }
    }
    line.frames(frames.into_iter());
    line.unreadable(unreadable);
    Ok(json!({"groups": groups, "moved": moved, "unreadable": unreadable, "failed": failed, "next": behind}))
}
