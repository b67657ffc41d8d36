//! The team's own filter: asked once for each request of a user, when nothing else is against it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Content, Draft, Failure, MessageBody, Question, Verdict};
use futures_util::future::BoxFuture;
use store::message_append::{self, AppendOutcome};
use tokio::time::Instant;
use wire::{ProfileChange, Refusal, UserId};

use crate::Actions;
use crate::entry::Appended;

/// After this many failures in a row, the process asks no more for a while.
const FAILURES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(10);
/// After a longer answer, the rows are read again: others may have written meanwhile, and the transaction would fail.
const ROWS_ARE_FRESH: Duration = Duration::from_millis(30);

/// Returns the payload of the filter's answer, or why there is none.
pub type Ask = dyn Fn(Vec<u8>) -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync;

/// The filter, and what holds while it does not answer.
pub struct Hook {
    ask: Box<Ask>,
    time: Duration,
    is_open: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    paused_until: Option<Instant>,
    asked: Option<Asked>,
}

/// The outcome of the last question, for the log.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub took: Duration,
    /// There is no answer, or there was no question since the filter had failed before.
    pub failed: bool,
}

/// The next step of whoever writes an entry.
pub(crate) enum Judgement {
    Write,
    /// Reads the rows again. The verdict stands.
    ReadAgain,
    /// The request was stored before. A stored request keeps its reply.
    Stored(AppendOutcome),
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hook").field("time", &self.time).field("is_open", &self.is_open).finish_non_exhaustive()
    }
}

impl Hook {
    /// `is_open`: what the filter does not answer is stored.
    pub fn new(ask: Box<Ask>, time: Duration, is_open: bool) -> Self {
        Self { ask, time, is_open, state: Mutex::default() }
    }

    /// Returns how the last question went, once. A process has one event at a time.
    pub fn take_asked(&self) -> Option<Asked> {
        self.state().asked.take()
    }

    /// Asks, and returns the rewritten draft, if there is one. `parse`: the meaning of an answer.
    ///
    /// # Errors
    /// `rejected`; `unavailable` if the filter does not answer and nothing may pass without it.
    async fn verdict(
        &self,
        question: &Question<'_>,
        parse: impl Fn(&[u8]) -> Option<Verdict>,
    ) -> Result<Option<Draft>, Refusal> {
        match self.answer(question, parse).await {
            Some(Verdict::Allowed) => Ok(None),
            Some(Verdict::Rewritten(rewritten)) => Ok(Some(*rewritten)),
            Some(Verdict::Refused(reason)) => Err(Refusal::Rejected { reason }),
            None if self.is_open => Ok(None),
            None => Err(Refusal::Unavailable),
        }
    }

    /// `None`: no answer.
    async fn answer(&self, question: &Question<'_>, parse: impl Fn(&[u8]) -> Option<Verdict>) -> Option<Verdict> {
        let begun = Instant::now();
        let verdict = if self.may_ask(begun) {
            let answer = tokio::time::timeout(self.time, (self.ask)(question.to_bytes())).await;
            let answer = answer.unwrap_or_else(|_| Err("the time is over".to_owned()));
            let verdict = answer
                .and_then(|payload| parse(&payload).ok_or_else(|| "the answer is not one of the filter's".to_owned()));
            if let Err(error) = &verdict {
                tracing::warn!(error, "the team's filter did not answer");
            }
            verdict.ok()
        } else {
            None
        };
        self.note(Asked { took: begun.elapsed(), failed: verdict.is_none() });
        verdict
    }

    /// Whether to ask now. After a pause, one question goes out, and the next one waits for its answer.
    fn may_ask(&self, now: Instant) -> bool {
        let mut state = self.state();
        if state.failures < FAILURES_MAX {
            return true;
        }
        let is_over = state.paused_until.is_none_or(|until| until <= now);
        if is_over {
            state.paused_until = Some(now + PAUSE);
        }
        is_over
    }

    fn note(&self, asked: Asked) {
        let mut state = self.state();
        state.asked = Some(asked);
        if !asked.failed {
            (state.failures, state.paused_until) = (0, None);
        } else if state.failures < FAILURES_MAX {
            state.failures += 1;
            state.paused_until = (state.failures == FAILURES_MAX).then(|| Instant::now() + PAUSE);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the filter about an allowed draft, once for a request. Puts the rewritten draft in its place. `peer`: the other
/// member of a direct conversation. `target`: the message that an edit changes.
///
/// # Errors
/// `rejected`; `unavailable` if the filter does not answer and nothing may pass without it.
pub(crate) async fn judge(
    actions: &Actions,
    is_judged: &mut bool,
    draft: &mut Draft,
    (peer, target): (Option<&UserId>, Option<&MessageBody>),
) -> Result<Judgement, Failure> {
    let Some(hook) = actions.hook.as_ref().filter(|_| !*is_judged) else { return Ok(Judgement::Write) };
    let Some(question) = Question::about(draft, peer, target) else { return Ok(Judgement::Write) };
    if let Some(stored) = message_append::find(&actions.store, draft).await? {
        return Ok(Judgement::Stored(stored));
    }
    let begun = Instant::now();
    let rewritten = hook.verdict(&question, |payload| Verdict::parse(payload, draft, target)).await?;
    *is_judged = true;
    if let Some(rewritten) = rewritten {
        *draft = rewritten;
        return Ok(Judgement::ReadAgain);
    }
    Ok(if begun.elapsed() > ROWS_ARE_FRESH { Judgement::ReadAgain } else { Judgement::Write })
}

/// Asks the filter about a change of the user's own profile.
///
/// # Errors
/// As [`judge`].
pub(crate) async fn judge_profile(actions: &Actions, user: &UserId, set: &ProfileChange) -> Result<(), Refusal> {
    if let Some(hook) = &actions.hook {
        hook.verdict(&Question::about_profile(user, set), Verdict::parse_of_profile).await?;
    }
    Ok(())
}

/// Notes whether the reply has the message: with a filter, when something else is stored than what the user wrote.
pub(crate) fn compared(mut appended: Appended, written: Option<&Content>) -> Appended {
    appended.is_other = written.zip(appended.entry.as_ref()).is_some_and(|(written, entry)| !entry.says(written));
    appended
}
