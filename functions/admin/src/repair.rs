//! Groups whose members were left behind, brought to where their logs end.

use std::time::Duration;

use actions::{Reconciled, reconcile_and_settle};
use domain::{Failure, Head, error_chain};
use lambda::EventLine;
use serde_json::{Value, json};
use store::heads;
use wire::{ConversationId, Refusal, Timestamp};

use crate::Deps;

/// Groups that one look finds.
const GROUPS_AT_ONCE: usize = 100;
/// A request that looks at all groups answers after that time with where it is. One group more is then under way.
const BUDGET: Duration = Duration::from_secs(20);

/// One group: its roster too, for which all of its log is read.
pub(crate) async fn one(deps: &Deps, conversation: &ConversationId, line: &mut EventLine) -> Result<Value, Failure> {
    if !conversation.is_group() {
        return Err(Refusal::bad_request("conversation_id", "must be the id of a group").into());
    }
    line.conversation_id = Some(conversation.clone());
    let done = actions::repair(&deps.store, &deps.fanout, || deps.clock.now(), conversation).await?;
    let unreadable = done.unreadable + done.members.unreadable;
    line.unreadable(unreadable);
    line.frames(done.members.delivered.iter().map(|to| to.frames));
    match done.members.failed {
        Some(failure) => Err(failure),
        None => Ok(json!({ "roster": done.roster, "moved": done.members.moved, "unreadable": unreadable })),
    }
}

/// The next groups, behind that one, of those in which something was written since then. One that fails holds up no other. A channel has
/// nothing that could be behind.
pub(crate) async fn all(
    deps: &Deps,
    since: Option<Timestamp>,
    mut behind: Option<ConversationId>,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    let began = deps.clock.now();
    let (mut groups, mut moved, mut unreadable, mut failed, mut frames) = (0_u64, 0, 0, vec![], vec![]);
    'pages: loop {
        let page = heads::page(&deps.store, GROUPS_AT_ONCE, behind.as_ref()).await?;
        unreadable += page.unreadable;
        let is_meant = |head: &&Head| !head.is_channel() && since.is_none_or(|since| head.end.sent_at >= since);
        for head in page.heads.iter().filter(is_meant) {
            let group = &head.conversation_id;
            groups += 1;
            let done = reconcile_and_settle(&deps.store, &deps.fanout, || deps.clock.now(), group).await;
            let done = done.unwrap_or_else(|failure| Reconciled { failed: Some(failure), ..Reconciled::default() });
            moved += done.moved;
            unreadable += done.unreadable;
            frames.extend(done.delivered.iter().map(|to| to.frames));
            if let Some(failure) = done.failed {
                tracing::warn!(error = error_chain(&failure), "a group is not repaired");
                failed.push(group.clone());
            }
            if deps.clock.now().since(began) >= BUDGET {
                behind = Some(group.clone());
                break 'pages;
            }
        }
        behind = page.next;
        // Also where nothing on a page is meant.
        if behind.is_none() || deps.clock.now().since(began) >= BUDGET {
            break;
        }
    }
    line.frames(frames.into_iter());
    line.unreadable(unreadable);
    Ok(json!({"groups": groups, "moved": moved, "unreadable": unreadable, "failed": failed, "next": behind}))
}
