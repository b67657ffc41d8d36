//! How many frames a process posts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout_at};

/// Maximum of concurrent posts, and of immediate posts after a pause.
const POSTS_AT_ONCE_MAX: u16 = 64;
/// Then 300 a second. API Gateway takes 2,500 requests a second of a whole account in its newer Regions, frames of clients among them.
const POST_PAUSE: Duration = Duration::from_nanos(1_000_000_000 / 300);
/// A frame whose turn comes later than this is not posted.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The posts of one process. Lambda gives a process one event at a time, so the posts that wait belong to one event, or to one batch.
#[derive(Debug)]
pub(crate) struct PostBudget {
    under_way: Semaphore,
    filled_until: Mutex<Option<Instant>>,
    posts: AtomicU64,
}

impl Default for PostBudget {
    fn default() -> Self {
        Self {
            under_way: Semaphore::new(POSTS_AT_ONCE_MAX.into()),
            filled_until: Mutex::default(),
            posts: AtomicU64::new(0),
        }
    }
}

impl PostBudget {
    /// Waits for the turn of one post, and keeps a place for it among those under way. `None`: its turn would come too late.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let now = Instant::now();
        let due = self.due(now)?;
        if due > now {
            sleep_until(due).await;
        }
        let place = timeout_at(now + WAIT_MAX, self.under_way.acquire()).await.ok()?.ok()?;
        self.posts.fetch_add(1, Ordering::Relaxed);
        Some(place)
    }

    /// How many posts there were since the process began.
    pub(crate) fn posts(&self) -> u64 {
        self.posts.load(Ordering::Relaxed)
    }

    /// When one more may go out.
    fn due(&self, now: Instant) -> Option<Instant> {
        let mut filled_until = self.filled_until.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = filled_until.map_or(now, |until| until.max(now)) + POST_PAUSE;
        let due = filled.checked_sub(POST_PAUSE * u32::from(POSTS_AT_ONCE_MAX)).unwrap_or(now);
        if due.saturating_duration_since(now) > WAIT_MAX {
            return None;
        }
        *filled_until = Some(filled);
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    /// Returns the times of the posts that went out, each with this duration.
    async fn posted(budget: &PostBudget, count: usize, taking: Duration) -> Vec<Duration> {
        let start = Instant::now();
        let posts = (0..count).map(async |_| {
            let _place = budget.turn().await?;
            let went = start.elapsed();
            tokio::time::sleep(taking).await;
            Some(went)
        });
        join_all(posts).await.into_iter().flatten().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn sixty_four_at_once_and_then_three_hundred_a_second() {
        let budget = PostBudget::default();
        let posted = posted(&budget, 364, Duration::from_millis(1)).await;
        assert_eq!(posted.len(), 364);
        assert_eq!(posted.iter().filter(|at| at.is_zero()).count(), 64);
        assert!((990..1_010).contains(&posted[363].as_millis()), "{:?}", posted[363]);
        assert_eq!(budget.posts(), 364);
    }

    #[tokio::test(start_paused = true)]
    async fn what_would_wait_for_longer_than_two_seconds_is_not_posted() {
        let budget = PostBudget::default();
        let posted = posted(&budget, 5_000, Duration::from_millis(1)).await;
        assert!((660..=668).contains(&posted.len()), "{}", posted.len());
        assert!(posted.iter().all(|at| *at <= WAIT_MAX));
        // A skipped post takes no budget.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(budget.turn().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_under_way_than_there_are_places() {
        let budget = PostBudget::default();
        let taking = Duration::from_millis(900);
        let posted = posted(&budget, 200, taking).await;
        let under_way = |at: Duration| {
            posted.iter().filter(|went| at.checked_sub(**went).is_some_and(|since| since < taking)).count()
        };
        assert!(posted.iter().all(|at| under_way(*at) <= 64));
        // The third wave of sixty-four begins at 1.8 s. The fourth would begin too late.
        assert_eq!(posted.len(), 192);
    }
}
